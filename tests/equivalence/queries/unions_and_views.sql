-- UNION and views over views over views.

CREATE MATERIALIZED VIEW n_all AS
SELECT k, i FROM t UNION ALL SELECT k, i FROM a;

CREATE MATERIALIZED VIEW n_distinct AS
SELECT k, g FROM t UNION SELECT k, g FROM a;

CREATE MATERIALIZED VIEW n_same AS
SELECT k FROM t WHERE i > 0 UNION ALL SELECT k FROM t WHERE i > 20;

CREATE MATERIALIZED VIEW n_widened AS
SELECT i AS v FROM t UNION ALL SELECT l FROM u UNION ALL SELECT k FROM a;

CREATE MATERIALIZED VIEW n_twice AS
SELECT * FROM (SELECT g FROM t) UNION ALL SELECT * FROM (SELECT g FROM t);

CREATE MATERIALIZED VIEW n_depths AS
SELECT k, count(*) AS c FROM t GROUP BY k UNION ALL
  SELECT c, count(*) FROM (SELECT k, count(*) AS c FROM a GROUP BY k) GROUP BY c;

CREATE MATERIALIZED VIEW n_agg AS
SELECT k, sum(i) AS s, count(*) AS c FROM (SELECT k, i FROM t UNION ALL SELECT k, i FROM a) GROUP BY k;

CREATE MATERIALIZED VIEW v_base AS
SELECT k, g, i, d, s, b FROM t WHERE i > -40;

CREATE MATERIALIZED VIEW v_agg AS
SELECT k, count(*) AS c, sum(i) AS s, max(d) AS x FROM v_base GROUP BY k;

CREATE MATERIALIZED VIEW v_agg_having AS
SELECT k, c FROM v_agg WHERE c > 2;

CREATE MATERIALIZED VIEW v_of_agg AS
SELECT c, count(*) AS n, min(k) AS k, sum(s) AS s FROM v_agg GROUP BY c;

CREATE MATERIALIZED VIEW v_of_of_agg AS
SELECT sum(n) AS n, max(c) AS c, count(*) AS r FROM v_of_agg;

CREATE MATERIALIZED VIEW v_join_agg AS
SELECT t.k, t.i, v_agg.c FROM t JOIN v_agg ON t.k = v_agg.k AND t.i > v_agg.c;

CREATE MATERIALIZED VIEW v_join_views AS
SELECT h.k, h.c, f.n FROM v_agg_having h JOIN v_of_agg f ON h.c = f.c;

CREATE MATERIALIZED VIEW v_self AS
SELECT p.k AS k, q.k AS l FROM v_agg p JOIN v_agg q ON p.c = q.c;

CREATE MATERIALIZED VIEW v_union AS
SELECT k, c FROM v_agg UNION ALL SELECT k, n FROM v_of_agg;

CREATE MATERIALIZED VIEW v_distinct AS
SELECT DISTINCT c FROM v_agg;

CREATE MATERIALIZED VIEW v_global AS
SELECT count(*) AS c, sum(s) AS s FROM v_agg_having JOIN v_agg USING (c);

CREATE MATERIALIZED VIEW v_of_global AS
SELECT c + 1 AS c FROM v_global WHERE c >= 0;
