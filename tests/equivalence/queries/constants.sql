-- Rows that stand in the query: VALUES, range() and SELECT without FROM, in joins, unions and CTEs.

CREATE MATERIALIZED VIEW constants_joined AS
SELECT t.i, v.label FROM t JOIN (VALUES (1, 'one'), (2, 'two'), (2, 'zwei'), (NULL, 'none')) AS v(n, label) ON t.k = v.n;

CREATE MATERIALIZED VIEW constants_outer AS
SELECT v.n, v.label, t.i FROM VALUES (0, 'a'), (1, 'b'), (77, 'c'), (CAST(NULL AS INT), 'd') AS v(n, label) LEFT JOIN t ON t.k = v.n;

CREATE MATERIALIZED VIEW constants_union AS
SELECT k, g FROM t UNION ALL SELECT 1, 'x' UNION ALL VALUES (3, NULL), (3, 'é');

CREATE MATERIALIZED VIEW constants_distinct AS
SELECT k FROM u UNION SELECT 5 UNION SELECT id FROM range(3, 9, 2);

CREATE MATERIALIZED VIEW constants_counted AS
WITH days AS (SELECT id AS n FROM range(0, 6)), one AS (SELECT 3 AS least)
SELECT days.n, count(t.i) AS c, sum(t.i) AS s FROM days CROSS JOIN one LEFT JOIN t ON t.k = days.n AND t.i > one.least
GROUP BY days.n;

CREATE MATERIALIZED VIEW constants_typed AS
SELECT t.i, v.* FROM t JOIN (VALUES (1, 1.50, DATE'2020-02-29', TIMESTAMP'2020-01-01 10:00:00', array(1, NULL), X'00FF',
  named_struct('a', 1, 'b', 'x'), DOUBLE('NaN'), true, map('k', 1.5))) AS v(n, m, day, at, list, bytes, both, nan, yes, pairs)
  ON t.k = v.n;

CREATE MATERIALIZED VIEW constants_not_in AS
SELECT k, i FROM t WHERE k NOT IN (SELECT n FROM VALUES (1), (4) AS v(n));

CREATE MATERIALIZED VIEW constants_exploded AS
SELECT n, count(*) AS c FROM (SELECT explode(array(1, 2, 3)) AS n) x JOIN t ON t.k >= x.n GROUP BY n;

CREATE MATERIALIZED VIEW constants_empty AS
SELECT t.k, v.n FROM t LEFT JOIN (SELECT id AS n FROM range(0)) v ON t.k = v.n;
