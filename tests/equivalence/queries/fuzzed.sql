-- What the query fuzzer has found, made small.

CREATE MATERIALIZED VIEW f_distincts_below_rollup AS
SELECT h, count(*) AS n FROM (
  SELECT DISTINCT s DIV 2 AS h FROM (
    SELECT d * (i % 100) AS x, sum(DISTINCT i) AS s, avg(DISTINCT k) AS a, sum(d) AS t FROM t GROUP BY d * (i % 100))
  WHERE a > nanvl(x, 0D))
GROUP BY ROLLUP (h);

CREATE MATERIALIZED VIEW f_names_with_quotes AS
SELECT k AS `a b`, i AS ```é`, g AS `x.y`, struct(i AS `q``q NOT NULL`) AS `q``q NOT NULL` FROM t WHERE k IS NOT NULL;

CREATE MATERIALIZED VIEW f_quotients_beyond_64_bits AS
SELECT k, CAST(l AS DECIMAL(38,0)) * 12345678901 div 7 AS q, CAST(l AS DECIMAL(20,0)) * 1.5 div 0.01 AS r FROM t;

CREATE MATERIALIZED VIEW f_sum_of_nan AS
SELECT x.g, sum(double('NaN')) AS s, sum(x.d * double('Infinity')) AS i, count(*) AS c FROM t x JOIN u y ON x.k = y.k
GROUP BY x.g;

CREATE MATERIALIZED VIEW f_product_of_differences AS
SELECT x.k, sum((x.v - y.w) * x.v) AS s, sum((x.v - y.w) * 0.5D) AS h, count(*) AS c
FROM (SELECT k, i, if(b, double('Infinity'), i) AS v FROM t) x JOIN u y ON x.k = y.k GROUP BY x.k;

CREATE MATERIALIZED VIEW f_distincts_in_rollup AS
SELECT k, g, count(DISTINCT i) AS x, count(DISTINCT s) AS y, max(d) AS m, sum(i) AS t FROM t GROUP BY ROLLUP (k, g);

CREATE MATERIALIZED VIEW f_distincts_of_turned AS
SELECT w, g, min(p) AS m, count(DISTINCT p, k) FILTER (WHERE p > 0) AS c, count(DISTINCT p) AS n
FROM (SELECT g, k, i, k + 1 AS j FROM t) UNPIVOT (p FOR w IN (i, j)) GROUP BY w, g;

CREATE MATERIALIZED VIEW f_window_of_nothing AS
SELECT k, count_if(c IS NULL) OVER (ORDER BY k) AS n, count(NULL) OVER (PARTITION BY k) AS z, max(c) OVER (ORDER BY k) AS m
FROM (SELECT k, count(*) AS c FROM t GROUP BY k);

CREATE MATERIALIZED VIEW f_only_window_of_nothing AS
SELECT k, i, count(NULL) OVER (PARTITION BY k ORDER BY i) + 1 AS n FROM t;

CREATE MATERIALIZED VIEW f_nan_in_what_is_read_twice AS
SELECT x.g, x.n, y.n AS m, y.c FROM
(SELECT g, count_if(d < double('NaN')) AS n FROM t GROUP BY g) x JOIN
(SELECT g, count_if(d < double('NaN')) AS n, count(*) AS c FROM t GROUP BY g HAVING count_if(d < double('NaN')) >= 0) y
ON x.g = y.g;

CREATE MATERIALIZED VIEW f_coalesce_of_no_partner AS
SELECT a.i, b.l FROM t a LEFT JOIN u b ON a.k <=> b.k WHERE coalesce(b.l, b.k) < (SELECT max(k) * 3 FROM t);
