-- Sums over joins, which are kept as sums of either side: by equal keys, by ordered comparisons, without keys.

CREATE MATERIALIZED VIEW p_spread AS
SELECT x.k, SUM(x.d * x.i - y.d * y.i) AS s FROM t x JOIN t y ON x.k = y.k AND x.l > y.l GROUP BY x.k;

CREATE MATERIALIZED VIEW p_apart AS
SELECT u.k, SUM(t.d - u.w) AS s, COUNT(*) AS c FROM u JOIN t ON u.k = t.k AND (t.d - u.w > 50 OR u.w - t.d > 50)
GROUP BY u.k;

CREATE MATERIALIZED VIEW p_variance AS
SELECT x.k, SUM(x.w * y.w * 0.5) AS s FROM u x JOIN u y ON x.k = y.k GROUP BY x.k;

CREATE MATERIALIZED VIEW p_thresholds AS
SELECT SUM(u.w - t.i) AS s, COUNT(*) AS c FROM u, t
WHERE u.w > 0.001 * (SELECT SUM(w) FROM u) AND t.i > 0.01 * (SELECT SUM(i) FROM t);

CREATE MATERIALIZED VIEW p_quartile AS
SELECT SUM(b1.w * b1.l) AS s FROM u b1
WHERE 0.25 * (SELECT SUM(b3.l + 9) FROM u b3) > (SELECT SUM(b2.l + 9) FROM u b2 WHERE b2.w > b1.w);

CREATE MATERIALIZED VIEW p_missed AS
SELECT x.k, SUM(y.w * y.l - x.d * x.i) AS s FROM t x, u y
WHERE x.k = y.k AND 0.75 * (SELECT SUM(ABS(t1.i)) FROM t t1) > (SELECT SUM(ABS(t2.i)) FROM t t2 WHERE t2.i > x.i)
  AND 0.9 * (SELECT SUM(u1.l + 9) FROM u u1) > (SELECT SUM(u2.l + 9) FROM u u2 WHERE u2.w >= y.w)
GROUP BY x.k;

CREATE MATERIALIZED VIEW p_kinds AS
SELECT x.g, COUNT(*) AS c, COUNT(x.i) AS ci, COUNT(y.name) AS cn, SUM(x.i) AS si, SUM(x.l % 1099511627776) AS sl, SUM(x.m) AS sm,
       AVG(x.d) AS ad, SUM(y.w) AS sw, AVG(y.l) AS al
FROM t x JOIN u y ON x.k = y.k GROUP BY x.g;

CREATE MATERIALIZED VIEW p_both_sides AS
SELECT x.g AS xg, y.g AS yg, SUM(x.d * y.w) AS s, COUNT(*) AS c FROM a x JOIN u y ON x.k = y.k GROUP BY x.g, y.g;

CREATE MATERIALIZED VIEW p_days AS
SELECT COUNT(*) AS c, SUM(x.i) AS s FROM t x JOIN t y ON x.day < y.day AND x.k = y.k;

CREATE MATERIALIZED VIEW p_range AS
SELECT u.name, COUNT(*) AS c, SUM(t.d) AS s FROM u JOIN t ON t.d >= u.w - 100 AND t.d < u.w + 100 GROUP BY u.name;

CREATE MATERIALIZED VIEW p_texts AS
SELECT COUNT(*) AS c, SUM(y.w) AS s FROM t x JOIN u y ON x.s <= y.name;

CREATE MATERIALIZED VIEW p_decimals AS
SELECT y.k, COUNT(*) AS c, SUM(x.m) AS s FROM a x JOIN t y ON x.m > y.m GROUP BY y.k;

CREATE MATERIALIZED VIEW p_three AS
SELECT x.g, SUM(x.d * y.w * z.i) AS s, COUNT(*) AS c
FROM t x JOIN u y ON x.k = y.k JOIN a z ON y.k = z.k GROUP BY x.g;

CREATE MATERIALIZED VIEW p_same_key AS
SELECT x.k, COUNT(*) AS c, SUM(y.w) AS s FROM t x JOIN u y ON x.k <=> y.k GROUP BY x.k;

CREATE MATERIALIZED VIEW p_read AS
SELECT c, COUNT(*) AS n FROM (SELECT x.k, COUNT(*) AS c FROM t x JOIN u y ON x.k = y.k AND x.i < y.l GROUP BY x.k)
GROUP BY c;

CREATE MATERIALIZED VIEW p_above_average AS
SELECT k, s FROM (SELECT k, SUM(i) AS s FROM t GROUP BY k) WHERE s >= (SELECT AVG(i) FROM t);
