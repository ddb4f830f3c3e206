CREATE MATERIALIZED VIEW small_twice AS SELECT t.k, x.w AS first, y.w AS second FROM t JOIN u x ON t.k = x.k JOIN u y ON x.g = y.g;
CREATE MATERIALIZED VIEW small_with_itself AS SELECT x.k, y.name FROM u x JOIN u y ON x.k = y.k AND x.w < y.w;
CREATE MATERIALIZED VIEW star AS
SELECT u.g, s.b, count(*) AS n, sum(t.i) AS i FROM t JOIN u ON t.k = u.k JOIN s ON t.g = s.g GROUP BY u.g, s.b;
CREATE MATERIALIZED VIEW star_rows AS
SELECT t.k, t.i, u.name, s.i AS si FROM t JOIN u ON t.k = u.k LEFT JOIN s ON t.g = s.g AND s.i > t.i;
CREATE MATERIALIZED VIEW joined_small AS
SELECT t.k, x.n FROM t JOIN (SELECT u.k, count(*) AS n FROM u JOIN s ON u.g = s.g GROUP BY u.k) x ON t.k = x.k;
CREATE MATERIALIZED VIEW by_the_join_key AS SELECT u.k, count(*) AS n, max(t.d) AS d FROM t JOIN u ON t.k = u.k GROUP BY u.k;
CREATE MATERIALIZED VIEW keys AS SELECT k, count(*) AS n FROM t GROUP BY k;
CREATE MATERIALIZED VIEW in_place AS
SELECT keys.k, sum(keys.n) AS n, min(u.w) AS w FROM keys JOIN u ON keys.k = u.k GROUP BY keys.k;
CREATE MATERIALIZED VIEW then_another AS
SELECT keys.k, keys.n, u.name, a.i FROM keys JOIN u ON keys.k = u.k JOIN a ON u.k = a.k WHERE u.w > 0;
CREATE MATERIALIZED VIEW nobody AS SELECT i, g FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = t.k AND s.d > t.d);
CREATE MATERIALIZED VIEW above_the_mean AS SELECT g, count(*) AS n FROM t WHERE t.i > (SELECT avg(l) FROM u) GROUP BY g;
CREATE MATERIALIZED VIEW of_top AS
SELECT t.i, x.name FROM t JOIN (SELECT k, name FROM u ORDER BY w DESC, k, name, l LIMIT 5) x ON t.k = x.k;
CREATE MATERIALIZED VIEW appended_residual AS SELECT a.k, a.d, u.name, u.w FROM a LEFT JOIN u ON a.k = u.k AND a.d < u.w;
CREATE MATERIALIZED VIEW appended_exists AS SELECT k, d, s FROM a WHERE EXISTS (SELECT 1 FROM u WHERE u.k = a.k AND u.w < a.d);
CREATE MATERIALIZED VIEW appended_missing AS SELECT i, g FROM a WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = a.k AND s.i > a.i);
CREATE MATERIALIZED VIEW appended_star AS
SELECT a.k, u.name, s.i AS si FROM a LEFT JOIN u ON a.k = u.k AND u.w > a.i LEFT JOIN s ON a.g = s.g AND s.i > a.i;
