-- Tumbling and hopping windows of time.

CREATE MATERIALIZED VIEW w_tumbling AS
SELECT window.start AS s, window.end AS e, count(*) AS c, sum(i) AS si FROM t GROUP BY window(at, '60 days');

CREATE MATERIALIZED VIEW w_struct AS
SELECT window, k, count(*) AS c, min(i) AS mi, max(s) AS ms FROM t GROUP BY window(at, '100 days'), k;

CREATE MATERIALIZED VIEW w_hopping AS
SELECT window.start AS s, g, count(*) AS c, count(DISTINCT k) AS dk FROM t GROUP BY window(at, '90 days', '30 days'), g;

CREATE MATERIALIZED VIEW w_uneven AS
SELECT window.start AS s, window.end AS e, count(*) AS c FROM t GROUP BY window(at, '70 days', '30 days', '7 hours');

CREATE MATERIALIZED VIEW w_offset AS
SELECT window.end AS e, avg(i) AS a FROM t GROUP BY window(at, '1 day', '1 day', '5 hours');

CREATE MATERIALIZED VIEW w_small AS
SELECT window.start AS s, count(*) AS c FROM a GROUP BY window(at, '10 minutes');

CREATE MATERIALIZED VIEW w_time AS
SELECT window_time(window) AS wt, count(*) AS c FROM (SELECT window(at, '60 days') AS window FROM t) GROUP BY 1;

CREATE MATERIALIZED VIEW w_rows AS
SELECT window(at, '50 days').start AS s, i FROM t;

CREATE MATERIALIZED VIEW w_days AS
SELECT window.start AS s, count(*) AS c FROM t GROUP BY window(day, '30 days');

CREATE MATERIALIZED VIEW w_join AS
SELECT x.s, x.c, y.c AS d FROM (SELECT window AS s, count(*) AS c FROM t GROUP BY window(at, '200 days')) x
  JOIN (SELECT window AS s, count(*) AS c FROM a GROUP BY window(at, '200 days')) y ON x.s = y.s;
