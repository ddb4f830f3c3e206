-- Scalar subqueries, cross and inequality joins.

CREATE MATERIALIZED VIEW s_threshold AS
SELECT t.k, t.i FROM t WHERE t.i > (SELECT AVG(i) FROM t);

CREATE MATERIALIZED VIEW s_column AS
SELECT u.k, u.l, (SELECT MAX(i) FROM t) AS most, (SELECT COUNT(*) FROM a) AS c FROM u;

CREATE MATERIALIZED VIEW s_correlated AS
SELECT u.k, u.name, (SELECT SUM(t.i) FROM t WHERE t.k = u.k) AS total FROM u;

CREATE MATERIALIZED VIEW s_inequality AS
SELECT x.k, COUNT(*) AS c FROM u x JOIN u y ON x.l < y.l GROUP BY x.k;

CREATE MATERIALIZED VIEW s_cross AS
SELECT COUNT(*) AS c, SUM(x.l) AS s FROM u x CROSS JOIN u y;

-- EXISTS without correlation, and scalar subqueries that may give no row.

CREATE MATERIALIZED VIEW s_exists AS
SELECT k, i FROM t WHERE EXISTS (SELECT 1 FROM u WHERE l >= 0);

CREATE MATERIALIZED VIEW s_exists_not AS
SELECT k, i FROM t WHERE NOT EXISTS (SELECT k FROM u WHERE l > 1000000);

CREATE MATERIALIZED VIEW s_exists_column AS
SELECT k, EXISTS (SELECT k FROM t WHERE i > 40) AS e, NOT EXISTS (SELECT k FROM t WHERE i > 4000) AS n FROM u;

CREATE MATERIALIZED VIEW s_exists_or AS
SELECT k FROM t WHERE i < 0 OR EXISTS (SELECT x.k FROM u x JOIN u y ON x.k = y.l);

CREATE MATERIALIZED VIEW s_exists_group AS
SELECT k FROM t WHERE EXISTS (SELECT k FROM a GROUP BY k HAVING count(*) > 12);

CREATE MATERIALIZED VIEW s_exists_union AS
SELECT k FROM t WHERE EXISTS (SELECT k FROM u WHERE l > 7 UNION ALL SELECT k FROM a WHERE i > 20);

CREATE MATERIALIZED VIEW s_exists_set AS
SELECT k FROM t WHERE EXISTS (SELECT k FROM t INTERSECT SELECT l FROM u);

CREATE MATERIALIZED VIEW s_exists_top AS
SELECT k FROM t WHERE EXISTS (SELECT i FROM a ORDER BY i LIMIT 3 OFFSET 20);

CREATE MATERIALIZED VIEW s_exists_having AS
SELECT k, count(*) AS c FROM t GROUP BY k HAVING EXISTS (SELECT k FROM a WHERE d > 0);

CREATE MATERIALIZED VIEW s_having AS
SELECT u.k, (SELECT max(i) FROM t HAVING count(*) > 40) AS m, (SELECT sum(t.i) FROM t WHERE t.k = u.k HAVING count(*) > 3) AS s
FROM u;

CREATE MATERIALIZED VIEW s_top_one AS
SELECT k, i FROM t WHERE i >= (SELECT i FROM a ORDER BY i DESC NULLS LAST, k LIMIT 1) OR k = (SELECT k FROM u ORDER BY l, k LIMIT 1 OFFSET 2);

CREATE MATERIALIZED VIEW s_top_texts AS
SELECT k, (SELECT s FROM t WHERE i > 0 ORDER BY s DESC LIMIT 1) AS s, (SELECT array(k, l) FROM u ORDER BY 1 LIMIT 1) AS a FROM u;

-- Scalar subqueries beside aggregates, inside them, and in an order.

CREATE MATERIALIZED VIEW s_share AS
SELECT k, sum(i) * 100 / (SELECT sum(abs(i)) FROM t) AS share, (SELECT max(l) FROM u) AS m FROM t GROUP BY k;

CREATE MATERIALIZED VIEW s_beside AS
SELECT sum(i) AS s, (SELECT max(l) FROM u) AS m, count(*) - (SELECT count(*) FROM a) AS d FROM t;

CREATE MATERIALIZED VIEW s_inside AS
SELECT g, sum(i - (SELECT min(i) FROM a)) AS s, count(*) FILTER (WHERE i > (SELECT avg(i) FROM t)) AS c FROM t GROUP BY g;

CREATE MATERIALIZED VIEW s_order AS
SELECT k, i FROM t WHERE i IS NOT NULL ORDER BY abs(i - (SELECT max(i) FROM a)), k, i LIMIT 5;

CREATE MATERIALIZED VIEW s_rollup AS
SELECT k, g, count(DISTINCT i) - (SELECT count(*) FROM u) AS d FROM t GROUP BY ROLLUP (k, g);

CREATE MATERIALIZED VIEW s_in_a_group AS
SELECT k, count(*) AS c, sum(i) AS s, (SELECT max(l) FROM u WHERE w > 0) AS m FROM t GROUP BY ALL;

CREATE MATERIALIZED VIEW s_alone_in_a_group AS
SELECT (SELECT min(i) FROM t WHERE b) AS m, sum(l) AS s FROM u GROUP BY (SELECT min(i) FROM t WHERE b);

CREATE MATERIALIZED VIEW s_of_a_lambda AS
SELECT o, k FROM (SELECT element_at(transform(array(t.i, t.l), x -> x + 1), 1) AS o, t.k FROM t) v
WHERE o > (SELECT min(u.w) FROM u WHERE coalesce(v.o, v.o) % 7 = u.l % 7);

CREATE MATERIALIZED VIEW s_of_a_sum AS
SELECT o, k FROM (SELECT t.i + t.l AS o, t.k FROM t) v WHERE o > (SELECT min(u.w) FROM u WHERE coalesce(v.o, v.o) % 7 = u.l % 7);
