-- Subqueries with ORDER BY and LIMIT for each row, ordered by columns that do not come out. Where rows tie they are alike.

CREATE MATERIALIZED VIEW c_latest AS
SELECT u.k, l.s FROM u, LATERAL (SELECT s FROM t WHERE t.k = u.k ORDER BY at DESC, s LIMIT 1) l;

CREATE MATERIALIZED VIEW c_scalar AS
SELECT u.k, u.l, (SELECT s FROM t WHERE t.k = u.k ORDER BY i DESC, s LIMIT 1) AS s FROM u;

CREATE MATERIALIZED VIEW c_nulls_last AS
SELECT u.k, l.g FROM u, LATERAL (SELECT g FROM t WHERE t.k = u.k ORDER BY i ASC NULLS LAST, g DESC NULLS LAST LIMIT 2) l;

CREATE MATERIALIZED VIEW c_doubles AS
SELECT u.k, l.i FROM u, LATERAL (SELECT i FROM t WHERE t.k = u.k ORDER BY d DESC, i LIMIT 3) l;

CREATE MATERIALIZED VIEW c_offset AS
SELECT u.k, l.m FROM u, LATERAL (SELECT m FROM t WHERE t.k = u.k ORDER BY day, m LIMIT 3 OFFSET 2) l;

CREATE MATERIALIZED VIEW c_expressions AS
SELECT u.k, l.n FROM u, LATERAL (SELECT i + u.k AS n FROM t WHERE t.k = u.k ORDER BY abs(i) DESC, length(s), i LIMIT 3) l;

CREATE MATERIALIZED VIEW c_left AS
SELECT u.k, u.name, l.i FROM u LEFT JOIN LATERAL (SELECT i FROM t WHERE t.k = u.k AND t.l > 0 ORDER BY s DESC, i LIMIT 2) l;

CREATE MATERIALIZED VIEW c_left_counts AS
SELECT u.k, l.c, l.m FROM u LEFT JOIN LATERAL
  (SELECT COUNT(*) AS c, MAX(m) AS m FROM (SELECT m FROM t WHERE t.k = u.k ORDER BY day DESC, m LIMIT 3)) l;

CREATE MATERIALIZED VIEW c_inequality AS
SELECT u.k, l.i FROM u, LATERAL (SELECT i FROM t WHERE t.k < u.k ORDER BY m, i LIMIT 2) l;

CREATE MATERIALIZED VIEW c_two_columns AS
SELECT u.k, l.i FROM u, LATERAL (SELECT i FROM t WHERE t.k = u.k AND t.g <=> u.g ORDER BY s, i DESC LIMIT 2) l;

CREATE MATERIALIZED VIEW c_exists AS
SELECT u.k FROM u WHERE EXISTS (SELECT i FROM t WHERE t.k = u.k ORDER BY i LIMIT 1 OFFSET 3);

CREATE MATERIALIZED VIEW c_exists_any AS
SELECT u.k FROM u WHERE EXISTS (SELECT i FROM t WHERE t.k = u.k AND t.i > 30 LIMIT 1)
  AND NOT EXISTS (SELECT 1 FROM a WHERE a.k = u.k LIMIT 2 OFFSET 20);

CREATE MATERIALIZED VIEW c_not_in AS
SELECT u.k, u.l FROM u WHERE u.l NOT IN (SELECT l FROM t WHERE t.k = u.k AND t.k IS NOT NULL AND l IS NOT NULL ORDER BY i DESC, l LIMIT 2);

CREATE MATERIALIZED VIEW c_nested_orders AS
SELECT u.k, l.i FROM u, LATERAL
  (SELECT i FROM (SELECT i, day FROM (SELECT i, day, m FROM t WHERE t.k = u.k ORDER BY m DESC, i, day LIMIT 5)
   WHERE i > -40 ORDER BY day, i LIMIT 3)) l;

CREATE MATERIALIZED VIEW c_lateral_in_lateral AS
SELECT u.k, l.i, l.n FROM u, LATERAL (SELECT t.i, m.n FROM t, LATERAL
  (SELECT a.i AS n FROM a WHERE a.k = t.k ORDER BY a.m, a.i LIMIT 1) m WHERE t.k = u.k ORDER BY t.s, t.i, m.n LIMIT 2) l;

CREATE MATERIALIZED VIEW c_groups AS
SELECT u.k, l.g FROM u, LATERAL (SELECT g FROM t WHERE t.k = u.k GROUP BY g ORDER BY SUM(i) DESC, g LIMIT 2) l;

CREATE MATERIALIZED VIEW c_one_group AS
SELECT u.k, l.c, (SELECT MAX(i) FROM t WHERE t.k = u.k LIMIT 1) AS m
FROM u, LATERAL (SELECT COUNT(*) AS c FROM t WHERE t.k = u.k LIMIT 1) l;

CREATE MATERIALIZED VIEW c_alike AS
SELECT u.k, l.tk, l.one, (SELECT DISTINCT 1 FROM a WHERE a.k = u.k LIMIT 1) AS o
FROM u, LATERAL (SELECT t.k + 1 AS tk, 1 AS one FROM t WHERE t.k = u.k LIMIT 2) l;

CREATE MATERIALIZED VIEW c_window_inside AS
SELECT u.k, l.i, l.r FROM u, LATERAL
  (SELECT i, rank() OVER (ORDER BY i) AS r FROM t WHERE t.k = u.k ORDER BY s, i LIMIT 2) l;

CREATE MATERIALIZED VIEW c_explode AS
SELECT u.k, l.e FROM u, LATERAL
  (SELECT e FROM t LATERAL VIEW explode(array(i, k)) AS e WHERE t.k = u.k ORDER BY m, e LIMIT 3) l;

CREATE MATERIALIZED VIEW c_subquery_in_order AS
SELECT u.k, l.i FROM u, LATERAL
  (SELECT i FROM t WHERE t.k = u.k ORDER BY abs((SELECT MAX(i) FROM a) - l), i LIMIT 2) l;

-- Limits over limits, and filters between a LIMIT and its order.

CREATE MATERIALIZED VIEW c_limit_of_filtered AS
SELECT i FROM (SELECT i, k, m FROM t ORDER BY m DESC, i, k LIMIT 30) WHERE k > 0 LIMIT 5;

CREATE MATERIALIZED VIEW c_limits AS
SELECT i FROM (SELECT * FROM (SELECT i, m FROM t ORDER BY m, i LIMIT 30) LIMIT 20 OFFSET 2) LIMIT 9 OFFSET 3;

CREATE MATERIALIZED VIEW c_limit_of_computed AS
SELECT n + 1 AS n1 FROM (SELECT i * 2 AS n, m FROM t ORDER BY m, i LIMIT 40) WHERE n > (SELECT MIN(l) FROM u) LIMIT 7;

-- Windows without an order take that of the subquery. Spark's sort by one key keeps it where no key is NULL.

CREATE MATERIALIZED VIEW c_follow AS
SELECT k, i, row_number() OVER w AS rn, rank() OVER w AS r, ntile(2) OVER w AS n, lag(i) OVER w AS p, cume_dist() OVER w AS cd
FROM (SELECT k, i FROM t ORDER BY m DESC, i) WINDOW w AS (PARTITION BY k ORDER BY 1);

CREATE MATERIALIZED VIEW c_follow_values AS
SELECT k, i, first_value(i) OVER (PARTITION BY k) AS f, count(*) OVER (PARTITION BY k) AS c,
  sum(i) OVER (PARTITION BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s,
  sum(i) OVER (PARTITION BY k) AS total
FROM (SELECT k, i FROM t WHERE k IS NOT NULL ORDER BY m DESC, i);

CREATE MATERIALIZED VIEW c_list AS
SELECT k, collect_list(i) AS l FROM (SELECT k, i FROM t ORDER BY i, k LIMIT 50) GROUP BY k;
