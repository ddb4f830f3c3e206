-- Variances, percentiles, lists and the like over windows. Orders name every column that decides.

CREATE MATERIALIZED VIEW ws_partition AS
SELECT k, i, d, m, s, stddev(i) OVER w AS sd, var_pop(m) OVER w AS vp, variance(d) OVER w AS v, stddev_pop(l) OVER w AS sp,
  median(i) OVER w AS md, percentile(m, array(0.25, 0.9)) OVER w AS p, percentile_disc(0.3) WITHIN GROUP (ORDER BY l) OVER w AS pd,
  mode() WITHIN GROUP (ORDER BY s) OVER w AS mo, bit_xor(i) OVER w AS x, bool_and(b) OVER w AS ba,
  sort_array(collect_set(i) OVER w) AS cs, count_if(b) OVER w AS ci
FROM t WINDOW w AS (PARTITION BY k);

CREATE MATERIALIZED VIEW ws_all AS
SELECT g, i, stddev_samp(i) OVER () AS sd, var_samp(d) FILTER (WHERE abs(d) < 300) OVER () AS v, mode(k, true) OVER () AS mo,
  median(d) FILTER (WHERE i > 0) OVER () AS md, bit_or(l) OVER () AS bo FROM t;

CREATE MATERIALIZED VIEW ws_running AS
SELECT k, at, i, l, d, m, stddev(i) OVER w AS sd, var_pop(d) OVER w AS vp, var_samp(m) OVER w AS v,
  stddev_pop(i + 1e7D) OVER w AS far, collect_list(i) OVER w AS cl, sort_array(collect_set(d) OVER w) AS cs,
  percentile(m, 0.5) OVER w AS md, bit_and(i) OVER w AS ba, bool_or(b) OVER w AS bo, try_sum(i) OVER w AS ts, try_avg(i) OVER w AS ta
FROM t WINDOW w AS (PARTITION BY k ORDER BY at, i, l, d, m, s, b ROWS UNBOUNDED PRECEDING);

CREATE MATERIALIZED VIEW ws_moving AS
SELECT g, at, i, d, m, s, std(d) OVER w AS sd, var_pop(m) OVER w AS vp, round(skewness(i) OVER w, 6) AS sk,
  round(kurtosis(i) OVER w, 6) AS ku, collect_list(s) OVER w AS cl, percentile(d, 0.5) OVER w AS p,
  min_by(s, i) OVER w AS mb, max_by(m, k) OVER w AS xb, max_by(k, d) OVER w AS xd, min_by(i, i) OVER w AS ii,
  min_by(s, m) FILTER (WHERE b) OVER w AS mf, mode(b, true) OVER w AS mo
FROM t WINDOW w AS (PARTITION BY g ORDER BY at, i, d, m, s, k, b ROWS BETWEEN 4 PRECEDING AND 2 FOLLOWING);

CREATE MATERIALIZED VIEW ws_ahead AS
SELECT k, at, i, stddev(i) OVER (PARTITION BY k ORDER BY at, i ROWS BETWEEN 2 FOLLOWING AND 6 FOLLOWING) AS a,
  var_pop(i) OVER (PARTITION BY k ORDER BY at, i ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS b,
  collect_list(i) OVER (PARTITION BY k ORDER BY at, i ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS c,
  percentile(i, 0.5) OVER (PARTITION BY k ORDER BY at, i ROWS BETWEEN UNBOUNDED PRECEDING AND 3 PRECEDING) AS e
FROM t;

CREATE MATERIALIZED VIEW ws_range AS
SELECT k, day, i, d, stddev(d) OVER (PARTITION BY k ORDER BY day RANGE BETWEEN INTERVAL 90 DAYS PRECEDING AND CURRENT ROW) AS a,
  variance(i) OVER (PARTITION BY k ORDER BY i RANGE BETWEEN 10 PRECEDING AND 5 FOLLOWING) AS b,
  stddev_pop(i) OVER (PARTITION BY g ORDER BY k) AS c, percentile(i, 0.5) OVER (PARTITION BY g ORDER BY k DESC) AS e,
  sort_array(collect_set(g) OVER (ORDER BY day RANGE BETWEEN 30 PRECEDING AND 30 FOLLOWING)) AS f
FROM t;

CREATE MATERIALIZED VIEW ws_outliers AS
SELECT k, i, z FROM (SELECT k, i, round((i - avg(i) OVER (PARTITION BY k)) / nullif(stddev(i) OVER (PARTITION BY k), 0), 6) AS z
  FROM t WHERE k BETWEEN 1 AND 4 AND i IS NOT NULL) WHERE z > 0.5;
