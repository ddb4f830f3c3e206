-- PIVOT and UNPIVOT.

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
