-- Aggregates and joins over a table that only grows.

CREATE MATERIALIZED VIEW a_sum AS
SELECT k, count(*) AS c, sum(i) AS si, sum(d) AS sd, avg(d) AS ad, sum(m) AS sm, avg(m) AS am FROM a GROUP
  BY k;

CREATE MATERIALIZED VIEW a_minmax AS
SELECT g, min(i) AS mi, max(l) AS xl, min(d) AS md, max(d) AS xd, min(m) AS mm, max(s) AS xs, min(s) AS ms,
  min(day) AS mday, max(at) AS xat, min(b) AS mb FROM a GROUP BY g;

CREATE MATERIALIZED VIEW a_distinct AS
SELECT k, count(DISTINCT s) AS cs, sum(DISTINCT i) AS si, count(DISTINCT l) AS cl FROM a GROUP BY k;

CREATE MATERIALIZED VIEW a_all AS
SELECT count(*) AS c, min(d) AS md, max(s) AS xs, sum(l % 1000) AS sl FROM a;

CREATE MATERIALIZED VIEW a_rows AS
SELECT DISTINCT k, b FROM a;

CREATE MATERIALIZED VIEW a_join AS
SELECT a.k, a.i, u.name FROM a JOIN u ON a.k = u.k;

CREATE MATERIALIZED VIEW a_self AS
SELECT x.i, y.i AS j FROM a x JOIN a y ON x.k = y.k AND x.g = y.g;

CREATE MATERIALIZED VIEW a_self_max AS
SELECT i % 5 AS r, max(j) AS m, count(*) AS c FROM a_self GROUP BY i % 5;

CREATE MATERIALIZED VIEW a_max_of_max AS
SELECT max(mi) AS m, min(xl) AS n FROM a_minmax;

CREATE MATERIALIZED VIEW a_extremes_late AS
SELECT max(l - 400000000000000000) AS xl, min(abs(d) + 1) AS md FROM a WHERE k = 5 OR s = 'two\nlines';

CREATE MATERIALIZED VIEW a_over_extremes_late AS
SELECT xl, md FROM a_extremes_late;
