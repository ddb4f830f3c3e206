-- Views over t (id, k, v, s) and u (id, k, w) that some rows make fail.

CREATE MATERIALIZED VIEW f_project AS
SELECT id, 100 / v AS q, s FROM t;

CREATE MATERIALIZED VIEW f_where AS
SELECT id, k FROM t WHERE 100 % v < 3 OR v > 5;

CREATE MATERIALIZED VIEW f_cast AS
SELECT k, sum(CAST(s AS INT)) AS n FROM t GROUP BY k;

CREATE MATERIALIZED VIEW f_group AS
SELECT k, 100 / sum(v) AS q FROM t GROUP BY k;

CREATE MATERIALIZED VIEW f_having AS
SELECT k, count(*) AS c, min(s) AS s FROM t GROUP BY k HAVING 100 % sum(v) < 50;

CREATE MATERIALIZED VIEW f_single AS
SELECT 100 / min(v) AS q, count(*) AS c FROM t;

CREATE MATERIALIZED VIEW f_join AS
SELECT t.id, t.v / u.w AS q, u.w / t.v AS r FROM t JOIN u ON t.id = u.id + 1 OR t.k = u.k;

CREATE MATERIALIZED VIEW f_explode AS
SELECT id, e FROM t LATERAL VIEW explode(sequence(0, CAST(s AS INT))) x AS e;

CREATE MATERIALIZED VIEW f_window AS
SELECT k, q, row_number() OVER (PARTITION BY k ORDER BY q, id) AS r FROM (SELECT id, k, 100 / v AS q FROM t);

CREATE MATERIALIZED VIEW f_sum_over AS
SELECT id, k, sum(if(v < 1, 9223372036854775807, v)) OVER (PARTITION BY k ORDER BY id) AS total FROM t;

CREATE MATERIALIZED VIEW f_sum_over_all AS
SELECT id, sum(if(v < 1, 9223372036854775807, v)) OVER () - id AS total FROM t;

CREATE MATERIALIZED VIEW f_top AS
SELECT k, 100 / sum(v) AS q FROM t GROUP BY k ORDER BY q DESC, k LIMIT 2;

CREATE MATERIALIZED VIEW f_scalar AS
SELECT id, v FROM t WHERE v > (SELECT w FROM u WHERE k = 1);

CREATE MATERIALIZED VIEW f_scalar_of_groups AS
SELECT id, v - (SELECT max(w) FROM u WHERE k < 4 GROUP BY k) AS d FROM t;

CREATE MATERIALIZED VIEW f_scalar_alone AS
SELECT (SELECT w FROM u WHERE k = 2) AS w, (SELECT count(*) FROM t) AS c;

CREATE MATERIALIZED VIEW f_correlated AS
SELECT id, k, (SELECT w FROM u WHERE u.k = t.k) AS w FROM t;

CREATE MATERIALIZED VIEW f_correlated_range AS
SELECT id, v, (SELECT u.w FROM u WHERE u.k = t.k AND u.w > t.v) AS w FROM t;

-- Views that read these.

CREATE MATERIALIZED VIEW over_group AS
SELECT q, count(*) AS c FROM f_group GROUP BY q;

CREATE MATERIALIZED VIEW over_project AS
SELECT s, q FROM f_project WHERE q > 20;

CREATE MATERIALIZED VIEW over_over AS
SELECT max(c) AS m, sum(q) AS s FROM over_group;

CREATE MATERIALIZED VIEW over_correlated AS
SELECT w, count(*) AS c, max(k) AS k FROM f_correlated GROUP BY w;
