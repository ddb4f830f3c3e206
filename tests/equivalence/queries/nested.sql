-- Arrays, structs and maps: made, kept, compared, grouped and joined by.

CREATE MATERIALIZED VIEW e_rows AS
SELECT k, array(i, k) AS a, struct(i, s) AS st, map(coalesce(g, '-'), d) AS mp, array(struct(d, b), NULL) AS nested FROM t;

CREATE MATERIALIZED VIEW e_fields AS
SELECT st.i AS i, st.s AS s, a[1] AS k, element_at(a, -2) AS l, mp['x'] AS x, size(a) AS n, nested[0].d AS d FROM e_rows;

CREATE MATERIALIZED VIEW e_split AS
SELECT k, split(s, ',') AS parts, size(split(s, 'a')) AS n, array_join(split(s, 'p'), '-') AS again FROM t;

CREATE MATERIALIZED VIEW e_group_array AS
SELECT array(k, NULL) AS a, count(*) AS c, sum(i) AS s FROM t GROUP BY array(k, NULL);

CREATE MATERIALIZED VIEW e_group_struct AS
SELECT st.i % 3 AS r, struct(st.s, k) AS p, count(*) AS c, max(a) AS x, min(st) AS m FROM e_rows
  GROUP BY st.i % 3, struct(st.s, k);

CREATE MATERIALIZED VIEW e_group_floats AS
SELECT array(d, d) AS a, struct(d) AS st, count(*) AS c FROM t GROUP BY array(d, d), struct(d);

CREATE MATERIALIZED VIEW e_group_map AS
SELECT map(coalesce(k, -1), g) AS m, count(*) AS c FROM t GROUP BY map(coalesce(k, -1), g);

CREATE MATERIALIZED VIEW e_distinct AS
SELECT DISTINCT array(g, g) AS a, struct(b) AS st FROM t;

CREATE MATERIALIZED VIEW e_count_distinct AS
SELECT k, count(DISTINCT struct(g, b)) AS c, count(DISTINCT array(g)) AS a FROM t GROUP BY k;

CREATE MATERIALIZED VIEW e_extremes_over AS
SELECT max(p) AS p, min(m) AS m, max(x) AS x FROM e_group_struct;

CREATE MATERIALIZED VIEW e_join_struct AS
SELECT x.k, x.i, y.name FROM t x JOIN u y ON struct(x.k, x.g) = struct(y.k, y.g);

CREATE MATERIALIZED VIEW e_join_array AS
SELECT x.i, y.name FROM t x JOIN u y ON array(x.k, NULL) = array(y.k, NULL) WHERE x.i > 0;

CREATE MATERIALIZED VIEW e_join_floats AS
SELECT x.d, a.d AS e FROM t x JOIN a ON array(x.d % 1) = array(a.d % 1);

CREATE MATERIALIZED VIEW e_left AS
SELECT e_rows.a, u.name FROM e_rows LEFT JOIN u ON e_rows.a[1] = u.k;

CREATE MATERIALIZED VIEW e_conditions AS
SELECT k, i FROM t WHERE array_contains(array(k, i), 1) OR array(i) > array(40) OR struct(k, g) IN (struct(0, 'x'));

CREATE MATERIALIZED VIEW e_functions AS
SELECT sort_array(array(k, i, NULL)) AS a, array_distinct(array(k, i, k)) AS b, array_max(array(d, k)) AS c,
  reverse(split(s, 'a')) AS r, slice(array(i, k, 1), 2, 2) AS sl, flatten(array(array(i), array(k))) AS f,
  map_keys(map(1, s)) AS mk, array_union(array(i), array(k)) AS un, array_position(array(k, i), 1) AS p FROM t;

CREATE MATERIALIZED VIEW e_top AS
SELECT array(k, i) AS a FROM t ORDER BY a DESC NULLS LAST LIMIT 5;
