-- GROUP BY, HAVING, DISTINCT and aggregates without GROUP BY over a table with deletes.

CREATE MATERIALIZED VIEW g_count AS
SELECT k, count(*) AS c, count(d) AS cd, count(s) AS cs, count(k) AS ck FROM t GROUP BY k;

CREATE MATERIALIZED VIEW g_sum AS
SELECT k, sum(i) AS si, sum(d) AS sd, sum(m) AS sm, avg(i) AS ai, avg(d) AS ad, avg(m) AS am FROM t GROUP BY
  k;

CREATE MATERIALIZED VIEW g_minmax AS
SELECT k, min(i) AS mi, max(i) AS xi, min(l) AS ml, max(l) AS xl, min(d) AS md, max(d) AS xd, min(m) AS mm,
  max(m) AS xm, min(s) AS ms, max(s) AS xs, min(day) AS mday, max(day) AS xday, min(at) AS mat,
  max(at) AS xat, min(b) AS mb, max(b) AS xb FROM t GROUP BY k;

CREATE MATERIALIZED VIEW g_distinct AS
SELECT g, count(DISTINCT k) AS ck, count(DISTINCT d) AS cd, count(DISTINCT s) AS cs,
  count(DISTINCT day) AS cday, count(DISTINCT b) AS cb, count(DISTINCT m) AS cm FROM t GROUP BY g;

CREATE MATERIALIZED VIEW g_sum_distinct AS
SELECT g, sum(DISTINCT i) AS si, sum(DISTINCT m) AS sm, avg(DISTINCT i) AS ai,
  max(DISTINCT i) AS xi FROM t GROUP BY g;

CREATE MATERIALIZED VIEW g_filter AS
SELECT k, count(*) FILTER (WHERE b) AS cb, sum(i) FILTER (WHERE i > 0) AS pos,
  min(s) FILTER (WHERE s LIKE '%a%') AS ms, count(DISTINCT g) FILTER (WHERE i < 0) AS cg FROM t GROUP BY k;

CREATE MATERIALIZED VIEW g_two_keys AS
SELECT k, g, count(*) AS c, sum(i) AS s FROM t GROUP BY k, g;

CREATE MATERIALIZED VIEW g_expression AS
SELECT k % 3 AS r, upper(g) AS u, sum(i * 2 + 1) AS s, count(*) * 2 AS c FROM t GROUP BY k % 3, upper(g);

CREATE MATERIALIZED VIEW g_float_key AS
SELECT d, count(*) AS c FROM t GROUP BY d;

CREATE MATERIALIZED VIEW g_date_key AS
SELECT month(day) AS m, b, count(*) AS c, sum(m) AS s FROM t GROUP BY month(day), b;

CREATE MATERIALIZED VIEW g_having AS
SELECT k, sum(i) AS s FROM t GROUP BY k HAVING count(*) > 3 AND sum(i) IS NOT NULL;

CREATE MATERIALIZED VIEW g_having_other AS
SELECT g FROM t GROUP BY g HAVING max(i) > 20;

CREATE MATERIALIZED VIEW g_only_keys AS
SELECT k, g FROM t GROUP BY k, g;

CREATE MATERIALIZED VIEW g_hidden_key AS
SELECT count(*) AS c, avg(i) AS a FROM t GROUP BY k;

CREATE MATERIALIZED VIEW g_distinct_rows AS
SELECT DISTINCT g, b FROM t;

CREATE MATERIALIZED VIEW g_distinct_where AS
SELECT DISTINCT s FROM t WHERE i > 0;

CREATE MATERIALIZED VIEW g_all AS
SELECT count(*) AS c, sum(i) AS si, avg(m) AS am, min(s) AS ms, max(d) AS xd, count(DISTINCT k) AS dk FROM t;

CREATE MATERIALIZED VIEW g_all_never AS
SELECT count(*) AS c, sum(i) AS s, min(s) AS m, count(DISTINCT k) AS dk FROM t WHERE i > 1000;

CREATE MATERIALIZED VIEW g_all_sometimes AS
SELECT count(*) AS c, sum(d) AS s, max(day) AS x FROM t WHERE k = 9;

CREATE MATERIALIZED VIEW g_all_having AS
SELECT sum(i) AS s FROM t HAVING count(*) > 10;

CREATE MATERIALIZED VIEW g_all_hidden AS
SELECT max(i) - min(i) AS spread, sum(i) / count(i) AS mean FROM t;

CREATE MATERIALIZED VIEW g_case AS
SELECT g, sum(CASE WHEN b THEN i ELSE -i END) AS s, sum(CASE WHEN k = 1 THEN 1 ELSE 0 END) AS c FROM t GROUP
  BY g;

CREATE MATERIALIZED VIEW g_all_extremes_never AS
SELECT min(l) AS ml, max(d) AS xd, min(m) AS mm, max(s) AS xs, max(i) AS xi FROM t WHERE i > 1000;
