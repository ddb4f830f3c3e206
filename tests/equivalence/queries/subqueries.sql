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
