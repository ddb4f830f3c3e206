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

-- structs whose fields have other names

CREATE MATERIALIZED VIEW n_other_names AS
SELECT k, i, coalesce(named_struct('A', nullif(i, 1)), named_struct('a', 2)) AS c,
       if(i > 1, named_struct('A', i), named_struct('a', 0)) AS f,
       CASE WHEN i > 5 THEN array(named_struct('A', i)) WHEN i > 2 THEN array(named_struct('a', k)) END AS w,
       greatest(named_struct('A', i), named_struct('a', 2)) AS g, nvl2(i, named_struct('A', k), named_struct('a', i)) AS n,
       array(named_struct('A', i), named_struct('a', k), NULL) AS a,
       concat(array(named_struct('A', i)), array(named_struct('a', k))) AS cc,
       map(1, named_struct('A', i), 2, named_struct('a', k)) AS m,
       map_concat(map(1, named_struct('A', i)), map(2, named_struct('a', k))) AS mc
FROM t;

CREATE MATERIALIZED VIEW n_other_names_in_arrays AS
SELECT k, i, array_append(array(named_struct('A', i)), named_struct('a', k)) AS aa,
       array_prepend(array(named_struct('A', i)), named_struct('a', k)) AS ap,
       array_insert(array(named_struct('A', i)), 1, named_struct('a', k)) AS ai,
       array_union(array(named_struct('A', i)), array(named_struct('a', k))) AS au,
       array_except(array(named_struct('A', i)), array(named_struct('a', k))) AS ae,
       array_intersect(array(named_struct('A', i)), array(named_struct('a', k))) AS ac,
       array_contains(array(named_struct('A', i)), named_struct('a', k)) AS has,
       transform(array(1, 2), x -> if(x = k, named_struct('A', i), named_struct('a', x))) AS tr
FROM t;

CREATE MATERIALIZED VIEW n_other_names_of_a_state AS
SELECT k, i, aggregate(array(i, k), (0 AS s, 0 AS n), (acc, y) -> (acc.s + y, acc.n + 1)) AS v,
       aggregate(array(i, k), (0 AS s, 0 AS n), (acc, y) -> (acc.s + y, acc.n + 1), acc -> acc.s / acc.n) AS average
FROM t;

CREATE MATERIALIZED VIEW n_other_names_below AS
SELECT named_struct('A', i) AS v FROM t UNION ALL SELECT named_struct('a', k) FROM t;

CREATE MATERIALIZED VIEW n_other_names_once AS
SELECT named_struct('A', i) AS v, array(named_struct('B', k)) AS w FROM t
UNION SELECT named_struct('a', l), array(named_struct('b', k)) FROM u;

CREATE MATERIALIZED VIEW n_other_names_compared AS
SELECT x.k, named_struct('A', x.i) IN (named_struct('a', 2), named_struct('b', 3)) AS b,
       lag(named_struct('A', x.i), 1, named_struct('a', 0)) OVER (PARTITION BY x.k ORDER BY x.i, x.l, x.d) AS before
FROM t x WHERE named_struct('p', x.k) IN (SELECT named_struct('q', k) FROM u);
