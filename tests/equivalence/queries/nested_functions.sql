-- Functions with a body (x -> ...) and of JSON: in projections, conditions, groups, joins and below generators.

CREATE MATERIALIZED VIEW f_transform AS
SELECT k, transform(array(i, k, NULL), (x, n) -> x + n * k) AS xs, filter(split(s, ' '), w -> w > g) AS ws FROM t;

CREATE MATERIALIZED VIEW f_where AS
SELECT i, s FROM t WHERE exists(split(s, '[, ]'), w -> length(w) > 3 OR w = g) AND forall(array(i, k), x -> x > -50);

CREATE MATERIALIZED VIEW f_group AS
SELECT aggregate(array(k, i % 3), 0L, (a, x) -> a + coalesce(x, 0), a -> a % 4) AS e, count(*) AS c, sum(i) AS s
FROM t GROUP BY 1;

CREATE MATERIALIZED VIEW f_of_group AS
SELECT g, transform(ks, x -> x * 2) AS twice, array_sort(ks, (x, y) -> y - x) AS falling, size(filter(ks, x -> x > 3)) AS n
FROM (SELECT g, collect_list(k) AS ks FROM t GROUP BY g);

CREATE MATERIALIZED VIEW f_explode AS
SELECT w, count(*) AS c, sum(n) AS n FROM (
  SELECT explode(transform(split(s, ' '), x -> struct(upper(x) AS w, length(x) + k AS n))) AS e FROM t) LATERAL VIEW inline(array(e)) z AS w, n
GROUP BY w;

CREATE MATERIALIZED VIEW f_maps AS
SELECT k, transform_values(map('i', i, 'k', k), (n, v) -> v + length(n)) AS m, map_filter(map(1, i, 2, k), (n, v) -> v > n) AS f,
  map_zip_with(map('a', i), map('b', k), (n, x, y) -> coalesce(x, y)) AS z, map_from_entries(array(struct('s', s))) AS e FROM t;

CREATE MATERIALIZED VIEW f_nested AS
SELECT k, transform(array(array(i, k), array(k)), a -> aggregate(a, 0L, (acc, x) -> acc + x * size(a) + t.k)) AS n,
  arrays_zip(array(i, k), split(s, ' ')) AS p FROM t;

CREATE MATERIALIZED VIEW f_join AS
SELECT t.k, u.name, exists(split(t.s, ' '), w -> w = u.name) AS named FROM t JOIN u ON t.k = u.k
WHERE size(filter(array(t.i, t.k), x -> x > u.l)) < 2;

CREATE MATERIALIZED VIEW f_left_join AS
SELECT t.i, x.m FROM t LEFT JOIN (SELECT k, transform(array(k, l), v -> v + 1) AS m FROM u) x ON x.k = t.k AND exists(x.m, v -> v > t.i);

CREATE MATERIALIZED VIEW j_get AS
SELECT k, get_json_object(j, '$.n') AS n, get_json_object(j, '$.w[*].v') AS v, json_array_length(get_json_object(j, '$.w')) AS c
FROM (SELECT k, to_json(named_struct('n', i, 'w', transform(split(s, ' '), x -> named_struct('v', x, 'd', d)))) AS j FROM t);

CREATE MATERIALIZED VIEW j_group AS
SELECT get_json_object(concat('{"g":"', g, '"}'), '$.g') AS g, count(*) AS c FROM t
WHERE get_json_object(concat('{"i":', i, '}'), '$.i') > 2 GROUP BY 1;

CREATE MATERIALIZED VIEW j_tuple AS
SELECT t.k, x.a, x.b FROM t LATERAL VIEW json_tuple(to_json(named_struct('a', i, 'b', s)), 'a', 'b') x AS a, b;

CREATE MATERIALIZED VIEW j_tuple_group AS
SELECT a, count(*) AS c, min(b) AS b FROM (SELECT json_tuple(concat('{"k":', k, ',"x":[', i, ']}'), 'k', 'x') AS (a, b) FROM t) GROUP BY a;

CREATE MATERIALIZED VIEW j_from AS
SELECT r.a, r.b, sum(k) AS s FROM (SELECT k, from_json(concat('{"a":', k, ',"b":[', i, ',', d, ']}'), 'a INT, b ARRAY<DOUBLE>, c STRING') AS r FROM t)
GROUP BY r.a, r.b;

CREATE MATERIALIZED VIEW j_explode AS
SELECT e.v, count(*) AS c FROM (SELECT explode(from_json(to_json(array(named_struct('v', i), named_struct('v', k))), 'ARRAY<STRUCT<v:BIGINT>>')) AS e FROM t)
GROUP BY e.v;

CREATE MATERIALIZED VIEW j_to AS
SELECT to_json(named_struct('k', k, 'm', max(i), 'l', collect_list(g))) AS j FROM t GROUP BY k;

CREATE MATERIALIZED VIEW j_csv AS
SELECT k, to_csv(struct(s, i, day, at, b)) AS c, from_csv(s, 'a string, b int, _corrupt_record string') AS f,
  from_csv(to_csv(struct(i, s)), 'x int, y string').y AS y, schema_of_csv('1,a') AS z FROM t;

CREATE MATERIALIZED VIEW j_csv_groups AS
SELECT from_csv(concat_ws(';', g, k), 'g string, k int', map('sep', ';')).g AS g, count(*) AS c FROM t GROUP BY 1;
