CREATE MATERIALIZED VIEW inner_join AS SELECT t.k, t.s, t.d, u.name, u.w FROM t JOIN u ON t.k = u.k;
CREATE MATERIALIZED VIEW static_first AS SELECT u.name, t.i FROM u JOIN t ON u.k = t.k AND u.g = t.g;
CREATE MATERIALIZED VIEW with_residual AS SELECT t.k, t.d, u.w FROM t JOIN u ON t.k = u.k AND t.d > u.w;
CREATE MATERIALIZED VIEW null_safe AS SELECT t.k, t.g, u.name FROM t JOIN u ON t.k <=> u.k AND t.g <=> u.g;
CREATE MATERIALIZED VIEW left_outer AS SELECT t.k, t.i, u.name, u.w FROM t LEFT JOIN u ON t.k = u.k;
CREATE MATERIALIZED VIEW left_outer_residual AS
SELECT t.k, t.d, u.name, u.w FROM t LEFT JOIN u ON t.k = u.k AND t.d < u.w AND t.i > 0;
CREATE MATERIALIZED VIEW right_outer AS SELECT t.k, t.i, u.name FROM t RIGHT JOIN u ON t.k = u.k;
CREATE MATERIALIZED VIEW full_outer AS SELECT t.k, t.i, u.k AS uk, u.name FROM t FULL JOIN u ON t.k = u.k AND t.g = u.g;
CREATE MATERIALIZED VIEW semi AS SELECT k, g, i FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k);
CREATE MATERIALIZED VIEW semi_residual AS SELECT k, d, s FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w < t.d);
CREATE MATERIALIZED VIEW anti AS SELECT k, g, i FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.g = t.g);
CREATE MATERIALIZED VIEW not_in_list AS SELECT k, i FROM t WHERE k NOT IN (SELECT k FROM u WHERE k IS NOT NULL AND w > 0);
CREATE MATERIALIZED VIEW static_right_left AS SELECT name, w FROM u WHERE NOT EXISTS (SELECT 1 FROM t WHERE u.k = t.k AND t.i > 30);
CREATE MATERIALIZED VIEW one_row AS SELECT t.k, t.i FROM t WHERE t.d > (SELECT avg(w) FROM u);
CREATE MATERIALIZED VIEW crossed AS SELECT t.i, x.g FROM t CROSS JOIN (SELECT DISTINCT g FROM u) x WHERE t.k < 2;
CREATE MATERIALIZED VIEW of_groups AS
SELECT t.k, t.i, x.n, x.most FROM t JOIN (SELECT k, count(*) AS n, max(w) AS most FROM u GROUP BY k) x ON t.k = x.k;
CREATE MATERIALIZED VIEW grouped AS SELECT u.g, count(*) AS n, sum(t.d) AS s, sum(t.i) AS i FROM t JOIN u ON t.k = u.k GROUP BY u.g;
CREATE MATERIALIZED VIEW products AS SELECT t.g, sum(t.i * u.l) AS p, avg(u.w) AS w FROM t JOIN u ON t.k = u.k GROUP BY t.g;
CREATE MATERIALIZED VIEW products_static_first AS
SELECT u.g, sum(u.w * a.d) AS p, count(a.d) AS n FROM u JOIN a ON u.k = a.k WHERE a.d BETWEEN -1e9 AND 1e9 GROUP BY u.g;
CREATE MATERIALIZED VIEW below AS
SELECT sum(t.i) AS s, count(*) AS n FROM t JOIN u ON t.i < u.l;
CREATE MATERIALIZED VIEW below_by_key AS
SELECT t.k, sum(u.w) AS s, count(*) AS n FROM u JOIN t ON u.k = t.k AND u.l >= t.i GROUP BY t.k;
CREATE MATERIALIZED VIEW distinct_names AS SELECT DISTINCT u.name, t.g FROM t JOIN u ON t.k = u.k;
CREATE MATERIALIZED VIEW two_static AS
SELECT t.k, t.i, u.name, s.k AS other FROM t JOIN u ON t.k = u.k JOIN s ON u.g = s.g WHERE s.i > 0;
CREATE MATERIALIZED VIEW static_only AS SELECT u.name, s.i FROM u JOIN s ON u.k = s.k;
CREATE MATERIALIZED VIEW static_groups AS SELECT g, sum(l) AS l, max(w) AS w FROM u GROUP BY g;
CREATE MATERIALIZED VIEW after_union AS
SELECT x.k, x.i, u.w FROM (SELECT k, i FROM t UNION ALL SELECT k, i FROM a) x JOIN u ON x.k = u.k;
CREATE MATERIALIZED VIEW union_with_static AS
SELECT x.k, u.w FROM (SELECT k FROM t UNION ALL SELECT k FROM s) x JOIN u ON x.k = u.k;
CREATE MATERIALIZED VIEW before_a_join AS
SELECT t.k, a.i, u.name FROM t JOIN a ON t.k = a.k AND t.g = a.g JOIN u ON a.i = u.l;
CREATE MATERIALIZED VIEW sums AS SELECT k, sum(i) AS i FROM t GROUP BY k;
CREATE MATERIALIZED VIEW over_a_view AS SELECT sums.k, sums.i, u.name FROM sums JOIN u ON sums.k = u.k;
CREATE MATERIALIZED VIEW over_a_lookup AS SELECT name, count(*) AS n, min(d) AS d FROM inner_join GROUP BY name;
CREATE MATERIALIZED VIEW over_a_static_view AS SELECT t.i, x.w FROM t JOIN static_groups x ON t.g = x.g;
CREATE MATERIALIZED VIEW with_total AS
SELECT t.k, x.n FROM t JOIN (SELECT count(*) AS n FROM u) x ON t.k = x.n % 3;
CREATE MATERIALIZED VIEW total_with_static AS
SELECT x.n, u.name FROM (SELECT count(*) AS n FROM t) x LEFT JOIN u ON x.n % 5 = u.k;
CREATE MATERIALIZED VIEW ranked AS
SELECT k, i, name, rank() OVER (PARTITION BY name ORDER BY i) AS r FROM (SELECT t.k, t.i, u.name FROM t JOIN u ON t.k = u.k);
