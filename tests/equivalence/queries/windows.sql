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

-- First ranks, of each partition and of everything: peers come together.

CREATE MATERIALIZED VIEW w_first_ranks AS
SELECT i, k FROM t QUALIFY rank() OVER (ORDER BY i DESC NULLS LAST) <= 6;

CREATE MATERIALIZED VIEW w_first_ranks_of_each AS
SELECT * FROM (SELECT g, k, i, rank() OVER (PARTITION BY g ORDER BY k DESC) AS r, dense_rank() OVER (PARTITION BY g ORDER BY k DESC) AS dr,
  sum(i) OVER (PARTITION BY g ORDER BY k DESC) AS s FROM t) WHERE r < 4;

CREATE MATERIALIZED VIEW w_first_dense_ranks AS
SELECT b, k, i, dense_rank() OVER (PARTITION BY b ORDER BY k) AS dr FROM t QUALIFY dr IN (1, 3);

CREATE MATERIALIZED VIEW w_second_ranks AS
SELECT k, i FROM t QUALIFY dense_rank() OVER (PARTITION BY k ORDER BY i) = 2;

CREATE MATERIALIZED VIEW w_first_of_all AS
SELECT i, m, d FROM t QUALIFY row_number() OVER (ORDER BY d DESC, m, i) <= 5;

-- Windows over the column that they are partitioned by; -0.0 is 0.0, and NaN is NaN.

CREATE MATERIALIZED VIEW w_own_double AS
SELECT sum(d) OVER (PARTITION BY d ORDER BY i, k) AS s, count(*) OVER (PARTITION BY d) AS c FROM t;

CREATE MATERIALIZED VIEW w_own_double_shown AS
SELECT d, i, max(d) OVER (PARTITION BY d) AS m, sum(i) OVER (PARTITION BY d ORDER BY i) AS s FROM t WHERE d IS NULL OR d <> 0;

CREATE MATERIALIZED VIEW w_own_double_ranks AS
SELECT i, rank() OVER (PARTITION BY d ORDER BY i) AS r FROM t QUALIFY r <= 2;

CREATE MATERIALIZED VIEW w_own_float AS
SELECT count(CAST(d AS FLOAT)) OVER (PARTITION BY CAST(d AS FLOAT) ORDER BY i) AS c, min(abs(d)) OVER (PARTITION BY CAST(d AS FLOAT)) AS m FROM t;

CREATE MATERIALIZED VIEW w_own_types AS
SELECT count(k) OVER (PARTITION BY k ORDER BY i) AS ck, max(g) OVER (PARTITION BY g ORDER BY i) AS mg,
  sum(l % 1000) OVER (PARTITION BY l) AS sl, sum(m) OVER (PARTITION BY m ORDER BY i) AS sm, min(s) OVER (PARTITION BY s) AS ms,
  max(day) OVER (PARTITION BY day ORDER BY i) AS md, min(at) OVER (PARTITION BY at) AS ma, count(b) OVER (PARTITION BY b ORDER BY i) AS cb
FROM t;

CREATE MATERIALIZED VIEW w_own_nested AS
SELECT count(*) OVER (PARTITION BY array(d, 0D) ORDER BY i) AS c, count(*) OVER (PARTITION BY struct(d, g)) AS n FROM t;

CREATE MATERIALIZED VIEW w_own_in_union AS
SELECT sum(w) OVER (PARTITION BY w ORDER BY k) AS s FROM u UNION ALL SELECT max(d) OVER (PARTITION BY d) FROM a;
