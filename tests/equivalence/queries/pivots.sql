-- PIVOT and UNPIVOT, and queries without FROM over scalar subqueries.

CREATE MATERIALIZED VIEW p_sums AS
SELECT * FROM (SELECT k, g, i, d FROM t) PIVOT (sum(i) AS s, count(*) AS c, avg(d) AS a FOR g IN ('x' AS x, 'y' AS y, 'none' AS n));

CREATE MATERIALIZED VIEW p_numbers AS
SELECT * FROM (SELECT g, k, i, m FROM t) PIVOT (max(m) AS top, stddev(i) AS sd, count(i) + 1 AS more FOR k IN (0, 1, 2, 9));

CREATE MATERIALIZED VIEW p_all AS
SELECT * FROM (SELECT g, l FROM t) PIVOT (min(l) FOR g IN ('x', 'y', 'é'));

CREATE MATERIALIZED VIEW p_pairs AS
SELECT k, a_c + 1 AS a, coalesce(b_c, 0) AS b, a_d FROM (SELECT k, g, b, i FROM t)
  PIVOT (count(i) AS c, count(DISTINCT i) AS d FOR (g, b) IN (('x', true) AS a, ('y', false) AS b)) WHERE k < 6;

CREATE MATERIALIZED VIEW p_texts AS
SELECT * FROM (SELECT k, g, s, i FROM t) PIVOT (max(s) AS s, sum(i) FILTER (WHERE i > 0) AS f FOR g IN ('x' AS x, 'z' AS z));

CREATE MATERIALIZED VIEW p_days AS
SELECT * FROM (SELECT k, year(day) AS y, d, b FROM t) PIVOT (sum(d) AS s, bool_or(b) AS o FOR y IN (2019, 2020, NULL AS nothing));

CREATE MATERIALIZED VIEW p_joined AS
SELECT u.name, p.x_s, p.y_s FROM u JOIN (SELECT * FROM (SELECT k, g, i FROM t) PIVOT (sum(i) AS s, min(i) AS m
  FOR g IN ('x' AS x, 'y' AS y))) p ON u.k = p.k;

CREATE MATERIALIZED VIEW p_unpivot AS
SELECT k, nm, v FROM (SELECT k, i, l FROM t) UNPIVOT (v FOR nm IN (i, l));

CREATE MATERIALIZED VIEW p_without_from AS
SELECT (SELECT sum(i) FROM t) - (SELECT max(k) FROM u) AS d, 1 AS one, coalesce((SELECT max(s) FROM t), '-') AS s;

CREATE MATERIALIZED VIEW p_without_from_if AS
SELECT (SELECT count(*) FROM t) AS c WHERE (SELECT count(*) FROM u) > 3 AND (SELECT count(*) FROM t WHERE i > 0) > 2;

CREATE MATERIALIZED VIEW p_under_from AS
SELECT t.k, r.m FROM t JOIN (SELECT (SELECT max(k) FROM u) - 3 AS m) r ON t.k > r.m;

CREATE MATERIALIZED VIEW pv_one AS
SELECT * FROM (SELECT k, i, g FROM t) PIVOT (sum(i) FOR g IN ('x' AS x, 'y' AS y, 'never' AS n));

CREATE MATERIALIZED VIEW pv_several AS
SELECT * FROM (SELECT k, i, d, b FROM t) PIVOT (sum(i) AS s, max(d) AS d, count(*) AS c FOR b IN (true AS t, false AS f));

CREATE MATERIALIZED VIEW pv_all AS
SELECT * FROM (SELECT i, k FROM t) PIVOT (count(i) FOR k IN (0, 1, 2));

CREATE MATERIALIZED VIEW pv_text AS
SELECT * FROM (SELECT k, s, g FROM t) PIVOT (min(s) FOR g IN ('x', 'y'));

CREATE MATERIALIZED VIEW pv_decimal AS
SELECT * FROM (SELECT k, m, i % 3 AS r FROM t) PIVOT (avg(m) FOR r IN (0, 1, -1));

CREATE MATERIALIZED VIEW pv_day AS
SELECT * FROM (SELECT g, k, trunc(day, 'YEAR') AS y FROM t) PIVOT (count(k) FOR y IN (DATE'2020-01-01', DATE'2021-01-01'));

CREATE MATERIALIZED VIEW pv_rows AS
SELECT * FROM (SELECT s, i, k FROM t) UNPIVOT (v FOR name IN (i, k AS kk));

CREATE MATERIALIZED VIEW pv_rows_nulls AS
SELECT name, count(*) AS c, sum(v) AS s FROM (SELECT i, k, l FROM t) UNPIVOT INCLUDE NULLS (v FOR name IN (i, k, l)) GROUP BY name;
