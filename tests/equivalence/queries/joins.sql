-- Joins, aggregates of joins and joins of aggregates.

CREATE MATERIALIZED VIEW j_one AS
SELECT t.k, t.i, t.s, u.name, u.w FROM t JOIN u ON t.k = u.k;

CREATE MATERIALIZED VIEW j_two AS
SELECT t.*, u.name FROM t JOIN u ON t.k = u.k AND t.g = u.g;

CREATE MATERIALIZED VIEW j_computed AS
SELECT t.i, u.l FROM t JOIN u ON t.i % 5 = u.l + 1;

CREATE MATERIALIZED VIEW j_null_safe AS
SELECT t.k, t.g, u.name FROM t JOIN u ON t.g <=> u.g AND t.k = u.k;

CREATE MATERIALIZED VIEW j_residual AS
SELECT t.i, u.l FROM t JOIN u ON t.k = u.k AND t.i > u.l AND (t.b OR u.w > 0);

CREATE MATERIALIZED VIEW j_where AS
SELECT t.s, u.name FROM t, u WHERE t.k = u.k AND t.i > 0 AND u.w < 100;

CREATE MATERIALIZED VIEW j_self AS
SELECT x.i AS i, y.i AS j FROM t x JOIN t y ON x.k = y.k WHERE x.i < y.i AND x.b;

CREATE MATERIALIZED VIEW j_three AS
SELECT t.i, u.name, a.s FROM t JOIN u ON t.k = u.k JOIN a ON u.k = a.k AND a.i > 30 WHERE t.b;

CREATE MATERIALIZED VIEW j_types AS
SELECT t.k, u.l FROM t JOIN u ON t.i = u.l;

CREATE MATERIALIZED VIEW j_dates AS
SELECT t.day, a.i FROM t JOIN a ON month(t.day) = month(a.at) AND t.b = a.b WHERE t.k = 0 AND a.k < 2;

CREATE MATERIALIZED VIEW j_double AS
SELECT t.d, a.i FROM t JOIN a ON t.d % 1 = a.d % 1;

CREATE MATERIALIZED VIEW j_only_left AS
SELECT t.k FROM t JOIN u ON t.k = u.k;

CREATE MATERIALIZED VIEW j_agg AS
SELECT u.name, count(*) AS c, sum(t.i) AS s, max(t.d) AS x, sum(t.i * u.l) AS p FROM t JOIN u ON t.k = u.k
  GROUP BY u.name;

CREATE MATERIALIZED VIEW j_agg_all AS
SELECT count(*) AS c, sum(t.i * u.w) AS s, avg(t.m) AS m FROM t JOIN u ON t.k = u.k AND t.g = u.g;

CREATE MATERIALIZED VIEW j_of_aggs AS
SELECT x.k, x.c, y.s FROM (SELECT k, count(*) AS c FROM t GROUP BY k) x
  JOIN (SELECT k, sum(w) AS s FROM u GROUP BY k) y ON x.k = y.k;

CREATE MATERIALIZED VIEW j_agg_of_aggs AS
SELECT x.c, count(*) AS n, sum(y.s) AS s FROM (SELECT k, count(*) AS c FROM t GROUP BY k) x
  JOIN (SELECT k, sum(l) AS s FROM u GROUP BY k) y ON x.k <=> y.k GROUP BY x.c;

CREATE MATERIALIZED VIEW j_with_own_agg AS
SELECT t.k, t.i, m.x FROM t JOIN (SELECT k, max(i) AS x FROM t GROUP BY k) m
  ON t.k = m.k AND t.i = m.x;

CREATE MATERIALIZED VIEW j_distinct AS
SELECT DISTINCT u.g, t.b FROM t JOIN u ON t.k = u.k;

CREATE MATERIALIZED VIEW j_union AS
SELECT t.k, z.v FROM t JOIN (SELECT k, l AS v FROM u UNION ALL SELECT k, l FROM a WHERE i > 0) z ON t.k =
  z.k WHERE t.b;
