-- Rankings, LAG and LEAD, FIRST, LAST and NTH values. Where ties matter the order names every column that is read,
-- so that equal rows are alike.

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

CREATE MATERIALIZED VIEW w_of_view AS
SELECT k, i, rn, max(rn) OVER (PARTITION BY k % 2) AS most FROM w_ranks WHERE rn > 1;
