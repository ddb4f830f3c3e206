-- Window functions. Where ties matter the order names every column that is read, so that equal rows are alike.

CREATE MATERIALIZED VIEW w_ranks AS
SELECT k, i, row_number() OVER w AS rn, rank() OVER w AS r, dense_rank() OVER w AS dr, percent_rank() OVER w AS pr,
  cume_dist() OVER w AS cd, ntile(3) OVER w AS n
FROM t WINDOW w AS (PARTITION BY k ORDER BY i);

CREATE MATERIALIZED VIEW w_rank_ties AS
SELECT g, k, d, rank() OVER (PARTITION BY g ORDER BY k DESC) AS r, dense_rank() OVER (PARTITION BY g ORDER BY d) AS dr
FROM t;

CREATE MATERIALIZED VIEW w_everything AS
SELECT i, row_number() OVER (ORDER BY i DESC NULLS FIRST) AS rn, ntile(7) OVER (ORDER BY i) AS n, count(*) OVER () AS c
FROM t;

CREATE MATERIALIZED VIEW w_top_n AS
SELECT * FROM (SELECT g, i, k, row_number() OVER (PARTITION BY g ORDER BY i DESC, k) AS rn FROM t) WHERE rn <= 3;

CREATE MATERIALIZED VIEW w_qualify AS
SELECT k, l, m FROM t QUALIFY rank() OVER (PARTITION BY k ORDER BY l DESC NULLS LAST, m) = 1;

CREATE MATERIALIZED VIEW w_last_of_each AS
SELECT k, at, s FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY at DESC, s) = 1;

CREATE MATERIALIZED VIEW w_shift AS
SELECT k, at, i, s, lag(i) OVER w AS l1, lead(i, 2) OVER w AS l2, lag(s, 1, 'none') OVER w AS l3,
  lead(i, 3, i) OVER w AS l4, lag(i, -1) OVER w AS l5, lag(i, 0) OVER w AS l6, i - lag(i) OVER w AS step
FROM t WINDOW w AS (PARTITION BY k ORDER BY at, i, s);

CREATE MATERIALIZED VIEW w_shift_ignore AS
SELECT k, at, i, lag(i) IGNORE NULLS OVER w AS l1, lead(i, 2) IGNORE NULLS OVER w AS l2,
  lag(i, 2, -99) IGNORE NULLS OVER w AS l3, lead(i, 9, k) IGNORE NULLS OVER w AS l4, lag(i, 0) IGNORE NULLS OVER w AS l5
FROM t WINDOW w AS (PARTITION BY k ORDER BY at, i);

CREATE MATERIALIZED VIEW w_values AS
SELECT g, at, i, first_value(i) OVER w AS f, last_value(i) OVER w AS l, nth_value(i, 2) OVER w AS n,
  first_value(i) IGNORE NULLS OVER w AS fi, last_value(i) IGNORE NULLS OVER w AS li,
  nth_value(i, 3) IGNORE NULLS OVER w AS ni, any_value(i) OVER w AS a
FROM t WINDOW w AS (PARTITION BY g ORDER BY at, i);

CREATE MATERIALIZED VIEW w_values_frames AS
SELECT k, at, i, m, s, first_value(m) OVER w AS f, last_value(s) IGNORE NULLS OVER w AS l, nth_value(i, 2) OVER w AS n,
  nth_value(s, 2) IGNORE NULLS OVER w AS ni
FROM t WINDOW w AS (PARTITION BY k ORDER BY at, i, m, s ROWS BETWEEN 2 PRECEDING AND 3 FOLLOWING);

CREATE MATERIALIZED VIEW w_running AS
SELECT k, at, i, l, d, m, sum(i) OVER w AS si, sum(d) OVER w AS sd, sum(m) OVER w AS sm, avg(i) OVER w AS ai,
  avg(m) OVER w AS am, count(*) OVER w AS c, count(d) OVER w AS cd, min(m) OVER w AS mi, max(at) OVER w AS ma
FROM t WINDOW w AS (PARTITION BY k ORDER BY at, i, l, d, m ROWS UNBOUNDED PRECEDING);

CREATE MATERIALIZED VIEW w_moving AS
SELECT g, at, i, d, m, s, sum(d) OVER w AS sd, avg(d) OVER w AS ad, avg(m) OVER w AS am, min(d) OVER w AS mid,
  max(d) OVER w AS mad, min(s) OVER w AS mis, max(m) OVER w AS mam, count(i) OVER w AS c, sum(i) OVER w AS si
FROM t WINDOW w AS (PARTITION BY g ORDER BY at, i, d, m, s ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING);

CREATE MATERIALIZED VIEW w_ahead AS
SELECT k, at, i, sum(i) OVER (PARTITION BY k ORDER BY at, i ROWS BETWEEN 2 FOLLOWING AND 4 FOLLOWING) AS a,
  max(i) OVER (PARTITION BY k ORDER BY at, i ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING) AS b,
  min(i) OVER (PARTITION BY k ORDER BY at, i ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS c,
  count(*) OVER (PARTITION BY k ORDER BY at, i ROWS BETWEEN UNBOUNDED PRECEDING AND 5 PRECEDING) AS n
FROM t;

CREATE MATERIALIZED VIEW w_peers AS
SELECT g, k, i, sum(i) OVER (PARTITION BY g ORDER BY k) AS s, count(*) OVER (PARTITION BY g ORDER BY k, b) AS c,
  max(i) OVER (PARTITION BY g ORDER BY k RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS m,
  avg(i) OVER (PARTITION BY g ORDER BY k DESC RANGE BETWEEN CURRENT ROW AND CURRENT ROW) AS a
FROM t;

CREATE MATERIALIZED VIEW w_range_numbers AS
SELECT k, i, d, m, sum(i) OVER (PARTITION BY k ORDER BY i RANGE BETWEEN 10 PRECEDING AND 5 FOLLOWING) AS a,
  count(*) OVER (PARTITION BY k ORDER BY d RANGE BETWEEN 100.5 PRECEDING AND CURRENT ROW) AS b,
  sum(m) OVER (PARTITION BY k ORDER BY m DESC RANGE BETWEEN 20 PRECEDING AND 10.25 FOLLOWING) AS c,
  count(i) OVER (ORDER BY i DESC NULLS FIRST RANGE BETWEEN 7 FOLLOWING AND 9 FOLLOWING) AS e,
  count(*) OVER (PARTITION BY k ORDER BY i NULLS LAST RANGE BETWEEN UNBOUNDED PRECEDING AND 3 PRECEDING) AS f,
  count(*) OVER (PARTITION BY k ORDER BY i DESC RANGE BETWEEN 3 PRECEDING AND UNBOUNDED FOLLOWING) AS h
FROM t;

CREATE MATERIALIZED VIEW w_range_times AS
SELECT k, day, at, i,
  count(*) OVER (PARTITION BY k ORDER BY day RANGE BETWEEN INTERVAL 30 DAYS PRECEDING AND CURRENT ROW) AS a,
  sum(i) OVER (PARTITION BY k ORDER BY day DESC RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND INTERVAL 2 MONTH FOLLOWING)
    AS b,
  max(i) OVER (ORDER BY day RANGE BETWEEN 7 PRECEDING AND 7 FOLLOWING) AS c,
  count(*) OVER (PARTITION BY k ORDER BY at RANGE BETWEEN INTERVAL 2000 HOURS PRECEDING AND INTERVAL 24 HOURS FOLLOWING) AS e,
  min(i) OVER (ORDER BY at DESC RANGE BETWEEN INTERVAL 3 MONTH PRECEDING AND INTERVAL 1 MONTH FOLLOWING) AS f
FROM t;

CREATE MATERIALIZED VIEW w_share AS
SELECT g, k, i, sum(i) OVER (PARTITION BY g) AS total, i / sum(i + 100) OVER (PARTITION BY g) AS share,
  sum(i) FILTER (WHERE b) OVER (PARTITION BY g) AS f, count(*) FILTER (WHERE i > 0) OVER () AS p,
  max(s) OVER (PARTITION BY g) AS ms, min(b) OVER () AS mb, count(i, s) OVER (PARTITION BY k) AS two
FROM t;

CREATE MATERIALIZED VIEW w_over_groups AS
SELECT g, sum(i) AS s, sum(sum(i)) OVER () AS total, rank() OVER (ORDER BY sum(i) DESC) AS r,
  sum(count(*)) OVER (ORDER BY g ROWS UNBOUNDED PRECEDING) AS c
FROM t GROUP BY g;

CREATE MATERIALIZED VIEW w_sessions AS
SELECT k, session, count(*) AS events, min(at) AS began, max(at) AS ended FROM (
  SELECT k, at, sum(fresh) OVER (PARTITION BY k ORDER BY at) AS session FROM (
    SELECT k, at, CASE WHEN timestampdiff(HOUR, lag(at) OVER (PARTITION BY k ORDER BY at), at) < 1000 THEN 0 ELSE 1 END
      AS fresh
    FROM t WHERE at IS NOT NULL))
GROUP BY k, session;

CREATE MATERIALIZED VIEW w_joined AS
SELECT r.k, r.i, r.rn, u.name FROM (SELECT k, i, row_number() OVER (PARTITION BY k ORDER BY i) AS rn FROM t) r
JOIN u ON r.k = u.k AND r.rn <= u.l;

CREATE MATERIALIZED VIEW w_over_join AS
SELECT t.k, t.i, u.w, sum(u.w) OVER (PARTITION BY t.k ORDER BY t.i, u.w ROWS UNBOUNDED PRECEDING) AS s
FROM t JOIN u ON t.k = u.k;

CREATE MATERIALIZED VIEW w_of_window AS
SELECT rn, count(*) AS c, sum(i) AS s FROM (SELECT i, row_number() OVER (PARTITION BY k ORDER BY i) AS rn FROM t)
GROUP BY rn;

CREATE MATERIALIZED VIEW w_of_view AS
SELECT k, i, rn, max(rn) OVER (PARTITION BY k % 2) AS most FROM w_ranks WHERE rn > 1;

CREATE MATERIALIZED VIEW w_computed AS
SELECT k, i, sum(i * 2) OVER (PARTITION BY k % 3 ORDER BY i + k, i, k DESC) AS s, lead(upper(s)) OVER (ORDER BY s, i, k) AS u
FROM t;

CREATE MATERIALIZED VIEW w_constant_order AS
SELECT k, sum(i) OVER (PARTITION BY 1 ORDER BY 2) AS s, count(*) OVER (PARTITION BY k ORDER BY k) AS c FROM t;

CREATE MATERIALIZED VIEW w_special AS
SELECT d, count(*) OVER (PARTITION BY d) AS c, sum(d) OVER (ORDER BY d) AS s, max(d) OVER (ORDER BY d DESC) AS m FROM t;

CREATE MATERIALIZED VIEW w_append_only AS
SELECT k, at, d, sum(d) OVER (PARTITION BY k ORDER BY at, d ROWS 3 PRECEDING) AS s,
  row_number() OVER (PARTITION BY k ORDER BY at, d) AS rn
FROM a;
