-- explode, posexplode, inline, stack, each also outer; LATERAL VIEW and lateral joins.

CREATE MATERIALIZED VIEW l_explode AS
SELECT k, explode(split(s, '[, ]')) AS w FROM t;

CREATE MATERIALIZED VIEW l_words AS
SELECT w, count(*) AS c, count(DISTINCT k) AS ck FROM t LATERAL VIEW explode(split(s, ' ')) x AS w GROUP BY w;

CREATE MATERIALIZED VIEW l_words_of_words AS
SELECT c, count(*) AS n, max(w) AS w FROM l_words GROUP BY c;

CREATE MATERIALIZED VIEW l_outer AS
SELECT t.k, x.w FROM t LATERAL VIEW OUTER explode(if(b, split(g, 'x'), array_remove(array(s), ''))) x AS w;

CREATE MATERIALIZED VIEW l_sequence AS
SELECT k, e, count(*) AS c FROM (SELECT k, explode(sequence(0, abs(k))) AS e FROM t) GROUP BY k, e;

CREATE MATERIALIZED VIEW l_position AS
SELECT i, posexplode(array(k, i, NULL)) AS (p, e) FROM t;

CREATE MATERIALIZED VIEW l_position_outer AS
SELECT i, p, e FROM t LATERAL VIEW OUTER posexplode(array_compact(array(k, if(b, i, NULL)))) x AS p, e;

CREATE MATERIALIZED VIEW l_map AS
SELECT i, explode(map('k', k, 'i', i)) AS (name, v) FROM t;

CREATE MATERIALIZED VIEW l_map_outer AS
SELECT i, name, v FROM t LATERAL VIEW OUTER explode(if(b, map(coalesce(g, ''), k), NULL)) x AS name, v;

CREATE MATERIALIZED VIEW l_inline AS
SELECT k, inline(array(named_struct('x', i, 'y', s), named_struct('x', k, 'y', g), NULL)) FROM t;

CREATE MATERIALIZED VIEW l_inline_outer AS
SELECT k, x, y FROM t LATERAL VIEW OUTER inline(if(b, array(struct(i AS x, s AS y)), NULL)) z;

CREATE MATERIALIZED VIEW l_stack AS
SELECT k, stack(2, 'i', i, 'k', k) AS (name, v) FROM t;

CREATE MATERIALIZED VIEW l_stack_short AS
SELECT stack(2, i, s, k) FROM t;

CREATE MATERIALIZED VIEW l_twice AS
SELECT x.a, y.b FROM t LATERAL VIEW explode(array(k, i)) x AS a LATERAL VIEW explode(array(x.a, x.a + 1)) y AS b WHERE t.b;

CREATE MATERIALIZED VIEW l_lateral AS
SELECT t.k, x.e FROM t, LATERAL explode(array(i, k)) AS x(e) WHERE x.e > 3;

CREATE MATERIALIZED VIEW l_lateral_left AS
SELECT t.k, x.e FROM t LEFT JOIN LATERAL explode(array_compact(array(k))) AS x(e) ON true;

CREATE MATERIALIZED VIEW l_join AS
SELECT x.e, u.name FROM (SELECT explode(array(k, i)) AS e FROM t) x JOIN u ON x.e = u.k;

CREATE MATERIALIZED VIEW l_of_aggregate AS
SELECT g, explode(array(lo, hi)) AS e FROM (SELECT g, min(i) AS lo, max(i) AS hi FROM t GROUP BY g);

CREATE MATERIALIZED VIEW l_of_floats AS
SELECT explode(array(d, -d, NULL)) AS e FROM t;

CREATE MATERIALIZED VIEW l_of_structs AS
SELECT e, e.x AS x FROM (SELECT explode(array(struct(d AS x), NULL)) AS e FROM t);
