-- WITH RECURSIVE. Rows of u are edges from k to l; a condition on the level ends what has cycles.

CREATE MATERIALIZED VIEW recursion_paths AS
WITH RECURSIVE r(start, node, path, depth) AS (
  SELECT k, l, concat(k, '/', l), 1 FROM u WHERE k < 4
  UNION ALL
  SELECT r.start, u.l, concat(r.path, '/', u.l), r.depth + 1 FROM r JOIN u ON u.k = r.node WHERE r.depth < 3)
SELECT start, node, path, depth FROM r;

CREATE MATERIALIZED VIEW recursion_sums AS
WITH RECURSIVE parts(top, part, quantity, depth) AS (
  SELECT k, l, CAST(k + 1 AS BIGINT), 1 FROM u WHERE l > 0
  UNION ALL
  SELECT p.top, u.l, p.quantity * (u.k + 2), p.depth + 1 FROM u JOIN parts p ON p.part = u.k AND u.l > p.depth AND p.depth < 3)
SELECT part, count(*) AS c, sum(quantity) AS s, max(depth) AS deepest FROM parts GROUP BY part;

CREATE MATERIALIZED VIEW recursion_counting AS
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8)
SELECT n.i, t.s, t.day FROM n JOIN t ON t.k = n.i AND t.i > n.i;

CREATE MATERIALIZED VIEW recursion_limited AS
WITH RECURSIVE n(i, f) AS (SELECT 1, 1.5D UNION ALL SELECT i + 1, f * 2 FROM n)
SELECT n.i, n.f, count(u.k) AS c FROM (SELECT i, f FROM n LIMIT 5) n LEFT JOIN u ON u.k = n.i GROUP BY n.i, n.f;

CREATE MATERIALIZED VIEW recursion_days AS
WITH RECURSIVE d(k, day, until) AS (
  SELECT k, day, date_add(day, k) FROM a WHERE k < 5 AND i > 0
  UNION ALL
  SELECT k, date_add(day, 1), until FROM d WHERE day < until)
SELECT day, count(*) AS c FROM d GROUP BY day;

CREATE MATERIALIZED VIEW recursion_outer AS
WITH RECURSIVE r(node, g, depth) AS (
  SELECT k, g, 0 FROM u WHERE g <> 'x'
  UNION ALL
  SELECT CAST(u.l AS INT), coalesce(u.g, r.g), r.depth + 1 FROM r LEFT JOIN u ON u.k = r.node AND u.l > 1 WHERE r.depth < 2)
SELECT node, g, depth FROM r;

CREATE MATERIALIZED VIEW recursion_judged AS
WITH RECURSIVE r(node, depth) AS (
  SELECT k, 0 FROM u
  UNION ALL
  SELECT node + 1, depth + 1 FROM r
  WHERE EXISTS (SELECT 1 FROM t WHERE t.k = r.node) AND NOT EXISTS (SELECT 1 FROM a WHERE a.i = r.node) AND depth < 3)
SELECT node, depth FROM r;

CREATE MATERIALIZED VIEW recursion_two_joins AS
WITH RECURSIVE r(node, total, depth) AS (
  SELECT k, CAST(0 AS DECIMAL(3, 2)), 0 FROM u
  UNION ALL
  SELECT CAST(u.l AS INT), CAST(r.total + q.most AS DECIMAL(3, 2)), r.depth + 1
  FROM r JOIN u ON u.k = r.node
  JOIN (SELECT k, max(CAST(i / 100 AS DECIMAL(3, 2))) AS most FROM t GROUP BY k) q ON q.k = u.l
  WHERE r.depth < 3 AND q.most > (SELECT min(i) / 100 FROM a))
SELECT node, total, depth FROM r;

CREATE MATERIALIZED VIEW recursion_pairs AS
WITH RECURSIVE r(w, depth) AS (
  SELECT w, 1 FROM u WHERE w > -400
  UNION ALL
  SELECT r.w + v.n, depth + 1 FROM r CROSS JOIN (VALUES (1), (2)) v(n) WHERE depth < 3)
SELECT depth, count(*) AS c, sum(w) AS s FROM r GROUP BY depth;

CREATE MATERIALIZED VIEW recursion_arrays AS
WITH RECURSIVE r(node, path) AS (
  SELECT CAST(k AS BIGINT), array(CAST(k AS BIGINT)) FROM u WHERE k = 1
  UNION ALL
  SELECT u.l, concat(r.path, array(u.l)) FROM r JOIN u ON u.k = r.node AND NOT array_contains(r.path, u.l)
  WHERE size(r.path) < 4)
SELECT node, path FROM r;

CREATE MATERIALIZED VIEW recursion_exploded AS
WITH RECURSIVE r(k, list) AS (
  SELECT k, array(k, k + 1) FROM u WHERE k > 2
  UNION ALL
  SELECT n, slice(list, 2, 2) FROM r LATERAL VIEW explode(list) x AS n WHERE size(list) > 0)
SELECT k, size(list) AS left_over FROM r;

CREATE MATERIALIZED VIEW recursion_twice AS
WITH RECURSIVE r(start, node, depth) AS (
  SELECT k, l, 1 FROM u UNION ALL SELECT r.start, u.l, depth + 1 FROM r JOIN u ON u.k = r.node AND depth < 2)
SELECT x.start, y.node, count(*) AS c FROM r x JOIN r y ON x.node = y.start AND x.depth = y.depth GROUP BY x.start, y.node;

CREATE MATERIALIZED VIEW recursion_of_recursion AS
WITH RECURSIVE s(i) AS (SELECT k FROM u WHERE k < 3 UNION ALL SELECT i + 1 FROM s WHERE i < 4),
z(j, depth) AS (SELECT i, 1 FROM s UNION ALL SELECT z.j + 2, depth + 1 FROM z JOIN s ON s.i = z.j AND depth < 3)
SELECT j, depth, count(*) AS c FROM z GROUP BY j, depth;

CREATE MATERIALIZED VIEW recursion_over_a_view AS
WITH RECURSIVE r(node, c) AS (
  SELECT part, c FROM recursion_sums
  UNION ALL
  SELECT s.part, s.c FROM r JOIN recursion_sums s ON s.part = r.node + 1)
SELECT node, c FROM r;

CREATE MATERIALIZED VIEW recursion_below_a_view AS
SELECT start, max(depth) AS deepest, min(path) AS first FROM recursion_paths GROUP BY start;

CREATE MATERIALIZED VIEW recursion_not_in AS
WITH RECURSIVE r(node, depth) AS (
  SELECT k, 0 FROM u
  UNION ALL
  SELECT node + 1, depth + 1 FROM r WHERE depth < 3 AND node NOT IN (SELECT l FROM u WHERE l > 1))
SELECT node, depth FROM r;

CREATE MATERIALIZED VIEW recursion_same_key AS
WITH RECURSIVE r(node, depth) AS (
  SELECT k, 1 FROM u
  UNION ALL
  SELECT u.k, r.depth + 1 FROM r JOIN u ON u.k = r.node AND u.l = r.node AND r.depth < 3)
SELECT node, depth FROM r;
