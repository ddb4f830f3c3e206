-- Window functions among other parts of a query: over groups, joins and other windows, and below them.

CREATE MATERIALIZED VIEW w_share AS
SELECT g, k, i, sum(i) OVER (PARTITION BY g) AS total, i / sum(i + 100) OVER (PARTITION BY g) AS share,
  sum(i) FILTER (WHERE b) OVER (PARTITION BY g) AS f, count(*) FILTER (WHERE i > 0) OVER () AS p,
  max(s) OVER (PARTITION BY g) AS ms, min(b) OVER () AS mb, count(i, s) OVER (PARTITION BY k) AS two
FROM t;

CREATE MATERIALIZED VIEW w_over_groups AS
SELECT g, sum(i) AS s, sum(sum(i)) OVER () AS total, rank() OVER (ORDER BY sum(i) DESC) AS r,
  sum(count(*)) OVER (ORDER BY g ROWS UNBOUNDED PRECEDING) AS c
FROM t GROUP BY g;

CREATE MATERIALIZED VIEW w_sessions AS
SELECT k, session, count(*) AS events, min(at) AS began, max(at) AS ended FROM (
  SELECT k, at, sum(fresh) OVER (PARTITION BY k ORDER BY at) AS session FROM (
    SELECT k, at, CASE WHEN timestampdiff(HOUR, lag(at) OVER (PARTITION BY k ORDER BY at), at) < 1000 THEN 0 ELSE 1 END
      AS fresh
    FROM t WHERE at IS NOT NULL))
GROUP BY k, session;

CREATE MATERIALIZED VIEW w_joined AS
SELECT r.k, r.i, r.rn, u.name FROM (SELECT k, i, row_number() OVER (PARTITION BY k ORDER BY i) AS rn FROM t) r
JOIN u ON r.k = u.k AND r.rn <= u.l;

CREATE MATERIALIZED VIEW w_over_join AS
SELECT t.k, t.i, u.w, sum(u.w) OVER (PARTITION BY t.k ORDER BY t.i, u.w ROWS UNBOUNDED PRECEDING) AS s
FROM t JOIN u ON t.k = u.k;

CREATE MATERIALIZED VIEW w_of_window AS
SELECT rn, count(*) AS c, sum(i) AS s FROM (SELECT i, row_number() OVER (PARTITION BY k ORDER BY i) AS rn FROM t)
GROUP BY rn;

CREATE MATERIALIZED VIEW w_computed AS
SELECT k, i, sum(i * 2) OVER (PARTITION BY k % 3 ORDER BY i + k, i, k DESC) AS s, lead(upper(s)) OVER (ORDER BY s, i, k) AS u
FROM t;

CREATE MATERIALIZED VIEW w_constant_order AS
SELECT k, sum(i) OVER (PARTITION BY 1 ORDER BY 2) AS s, count(*) OVER (PARTITION BY k ORDER BY k) AS c FROM t;

-- Running sums and ranks of a few rows: an ordered index of sums.

CREATE MATERIALIZED VIEW w_last_sums AS
SELECT k, i, s FROM (SELECT k, i, sum(k) OVER (ORDER BY i) AS s FROM t) ORDER BY i DESC NULLS LAST, k LIMIT 5;

CREATE MATERIALIZED VIEW w_first_sums AS
SELECT s, n, k, i, a FROM (
  SELECT k, i, g, sum(i) OVER w AS s, count(*) OVER w AS n, avg(i) OVER w AS a FROM t WINDOW w AS (ORDER BY k DESC))
ORDER BY k NULLS FIRST, i, g LIMIT 6;

CREATE MATERIALIZED VIEW w_nulls_last_sums AS
SELECT * FROM (SELECT g, i, k, sum(i) OVER (ORDER BY k NULLS LAST) AS s,
  rank() OVER (ORDER BY k NULLS LAST) AS r FROM t) WHERE g = 'x';

CREATE MATERIALIZED VIEW w_ranks_of_some AS
SELECT k, i, r, r + n AS rn FROM (
  SELECT k, i, b, rank() OVER (ORDER BY i DESC) AS r, count(i) OVER (ORDER BY i DESC) AS n FROM t)
WHERE k IN (1, 2) AND r > 2 AND b;

CREATE MATERIALIZED VIEW w_sums_by_text AS
SELECT s, c, x FROM (SELECT s, k, count(s) OVER (ORDER BY s DESC NULLS FIRST) AS c,
  sum(i % 10) OVER (ORDER BY s DESC NULLS FIRST) AS x FROM t) WHERE k = 3;

CREATE MATERIALIZED VIEW w_sums_of_joined AS
SELECT * FROM (SELECT t.k, u.w, t.b, t.i, sum(u.w) OVER (ORDER BY t.i) AS s
  FROM t JOIN u ON t.k = u.k)
ORDER BY k, w DESC, b, i LIMIT 3;

CREATE MATERIALIZED VIEW w_sums_over_groups AS
SELECT * FROM (SELECT k, sum(count(*)) OVER (ORDER BY k) AS s FROM t GROUP BY k) ORDER BY k DESC LIMIT 3;

CREATE MATERIALIZED VIEW w_sums_in_time AS
SELECT * FROM (SELECT at, k, sum(k) OVER (ORDER BY at) AS s, rank() OVER (ORDER BY at) AS r FROM t WHERE at IS NOT NULL)
ORDER BY at DESC, k LIMIT 4 OFFSET 2;

CREATE MATERIALIZED VIEW w_sums_of_doubles AS
SELECT * FROM (SELECT k, i, day, d, sum(d) OVER (ORDER BY day) AS s, avg(d) OVER (ORDER BY day) AS a, count(d) OVER (ORDER BY day) AS c
  FROM t) ORDER BY day NULLS LAST, k, i, d LIMIT 7;

CREATE MATERIALIZED VIEW w_last_sums_of_doubles AS
SELECT * FROM (SELECT at, k, sum(d) OVER (ORDER BY at DESC) AS s, sum(i / 7) OVER (ORDER BY at DESC) AS q, avg(-d) OVER (ORDER BY at DESC) AS n
  FROM t WHERE d BETWEEN -1e9 AND 1e9) WHERE k IN (2, 3);

CREATE MATERIALIZED VIEW w_sums_by_doubles AS
SELECT * FROM (SELECT k, d, sum(d) OVER (ORDER BY d DESC) AS s, rank() OVER (ORDER BY d DESC) AS r FROM t) WHERE k = 1;

CREATE MATERIALIZED VIEW w_sums_of_decimals AS
SELECT * FROM (SELECT k, i, m, sum(m) OVER (ORDER BY i) AS s, avg(m) OVER (ORDER BY i) AS a, sum(m * m) OVER (ORDER BY i) AS q
  FROM t) ORDER BY i DESC, k, m LIMIT 6;

CREATE MATERIALIZED VIEW w_sums_by_decimals AS
SELECT * FROM (SELECT k, m, sum(m::decimal(28,4)) OVER (ORDER BY m DESC NULLS FIRST) AS s, count(m) OVER (ORDER BY m DESC NULLS FIRST) AS c
  FROM t) WHERE k = 2;

-- Sums of decimals of more than 28 digits may need more than 128 bits, which an index of sums does not hold.

CREATE MATERIALIZED VIEW w_sums_of_wide_decimals AS
SELECT * FROM (SELECT k, i, m, sum(m * 1e20::decimal(26,0)) OVER (ORDER BY i, m, k) AS s, avg(m::decimal(38,10)) OVER (ORDER BY i, m, k) AS a
  FROM t) ORDER BY i DESC, m DESC, k DESC LIMIT 6;

CREATE MATERIALIZED VIEW w_sums_of_38_digits AS
SELECT * FROM (SELECT k, i, try_sum(CASE WHEN i > 0 THEN 9e37::decimal(38,0) ELSE i::decimal(38,0) END)
  OVER (ORDER BY i) AS s FROM t) WHERE k = 1;
