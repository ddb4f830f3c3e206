-- Outer, semi and anti joins, with and without residual conditions; set operations come out as these.

CREATE MATERIALIZED VIEW o_left AS
SELECT t.k, t.i, u.name, u.l FROM t LEFT JOIN u ON t.k = u.k;

CREATE MATERIALIZED VIEW o_left_residual AS
SELECT t.k, t.i, u.name, u.l FROM t LEFT JOIN u ON t.k = u.k AND t.i > u.l;

CREATE MATERIALIZED VIEW o_right AS
SELECT t.i, u.k, u.name FROM t RIGHT JOIN u ON t.k = u.k AND t.g = u.g;

CREATE MATERIALIZED VIEW o_full AS
SELECT t.k AS tk, t.i, u.k AS uk, u.l FROM t FULL JOIN u ON t.k = u.k AND t.i > u.l;

CREATE MATERIALIZED VIEW o_full_plain AS
SELECT t.k AS tk, u.k AS uk, COUNT(*) AS c FROM t FULL JOIN u ON t.k = u.k GROUP BY t.k, u.k;

CREATE MATERIALIZED VIEW o_exists AS
SELECT t.k, t.i, t.s FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.l > 0);

CREATE MATERIALIZED VIEW o_not_exists AS
SELECT t.k, t.i FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.l < t.i);

CREATE MATERIALIZED VIEW o_in AS
SELECT COUNT(*) AS c, SUM(i) AS s FROM t WHERE k IN (SELECT k FROM u);

CREATE MATERIALIZED VIEW o_not_in AS
SELECT u.k, u.name FROM u WHERE u.k NOT IN (SELECT t.k FROM t WHERE t.k IS NOT NULL AND t.i > 50);

CREATE MATERIALIZED VIEW o_or_exists AS
SELECT t.i FROM t WHERE t.i > 90 OR EXISTS (SELECT 1 FROM u WHERE u.k = t.k);

CREATE MATERIALIZED VIEW o_intersect AS
SELECT k FROM t INTERSECT SELECT k FROM u;

CREATE MATERIALIZED VIEW o_except AS
SELECT k, g FROM t EXCEPT SELECT k, g FROM u;

CREATE MATERIALIZED VIEW o_over AS
SELECT name, COUNT(*) AS c FROM o_left GROUP BY name;
