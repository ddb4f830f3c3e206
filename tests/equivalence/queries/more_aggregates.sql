-- Aggregates made of others. /*[*/ x /*=> y ]*/ : Spark is asked for y, where it leaves the value of x open.

CREATE MATERIALIZED VIEW v_approximate AS
SELECT k, /*[*/ approx_count_distinct(s) /*=> count(DISTINCT s) ]*/ AS s,
  /*[*/ approx_count_distinct(d, 0.01) FILTER (WHERE b) /*=> count(DISTINCT d) FILTER (WHERE b) ]*/ AS d FROM t GROUP BY k;

-- Without DISTINCT: with one Spark merges what it has of several rows, and that is wrong for percentiles where there is NaN.

CREATE MATERIALIZED VIEW v_approximate_percentiles AS
SELECT k, percentile_approx(i, 0.4) AS pi, approx_percentile(m, array(0.0, 0.25, 0.9), 200) AS pm, percentile_approx(l, 0.5) AS pl,
  percentile_approx(d, 0.75) AS pd, percentile_approx(day, 0.5) FILTER (WHERE i > 0) AS pday,
  percentile_approx(at, array(0.1, 1.0)) AS pat, percentile_approx(at, 0.5) AS one FROM t GROUP BY k;

CREATE MATERIALIZED VIEW v_listagg AS
SELECT k, listagg(g, ',') WITHIN GROUP (ORDER BY g) AS a, listagg(s) WITHIN GROUP (ORDER BY s DESC) AS b,
  string_agg(i, '; ') WITHIN GROUP (ORDER BY i DESC) AS c, listagg(s, '-') WITHIN GROUP (ORDER BY i, d DESC, s) AS d,
  listagg(g, '|') WITHIN GROUP (ORDER BY i DESC NULLS FIRST, g NULLS FIRST) FILTER (WHERE b) AS e,
  /*[*/ listagg(g, '/') /*=> nullif(array_join(sort_array(array_agg(g)), '/'), '') ]*/ AS f,
  /*[*/ string_agg(i, ' ') /*=> nullif(array_join(sort_array(array_agg(string(i))), ' '), '') ]*/ AS h
  FROM (SELECT k, nullif(g, '') AS g, i, s, d, b FROM t) GROUP BY k;

CREATE MATERIALIZED VIEW v_distinct_listagg AS
SELECT k, listagg(DISTINCT g, ', ') WITHIN GROUP (ORDER BY g DESC) AS l, count(*) AS c FROM t GROUP BY k;

CREATE MATERIALIZED VIEW v_pairs AS
SELECT k, round(corr(i, m), 9) AS c, covar_pop(d, i) FILTER (WHERE abs(d) < 1000) AS cp, covar_samp(i, m) AS cs, regr_count(i, d) AS n,
  regr_avgx(i, m) AS ax, regr_avgy(i, m) AS ay, regr_sxx(m, i) AS sxx, regr_syy(i, d) AS syy, regr_sxy(i, m) AS sxy,
  round(regr_slope(i, m), 9) AS slope, round(regr_intercept(i, m), 7) AS intercept, round(regr_r2(i, m), 9) AS r2,
  regr_slope(i, i) AS one, covar_pop(i, i) FILTER (WHERE b) AS f FROM t GROUP BY k;

CREATE MATERIALIZED VIEW v_pairs_of_all AS
SELECT round(corr(d, i), 9) AS c, covar_pop(l % 9, i) AS cp, round(regr_r2(i, k), 9) AS r FROM t WHERE d BETWEEN -1e6 AND 1e6;

CREATE MATERIALIZED VIEW v_first AS
SELECT k, /*[*/ any_value(s) /*=> min(struct(s IS NULL, s, day IS NULL, day, i IS NULL, i)).s ]*/ AS s,
  /*[*/ first(day) /*=> min(struct(s IS NULL, s, day IS NULL, day, i IS NULL, i)).day ]*/ AS day,
  /*[*/ last(i) /*=> max(struct(s IS NULL, s, day IS NULL, day, i IS NULL, i)).i ]*/ AS i,
  /*[*/ first(i, true) /*=> min(struct(s IS NULL, s, day IS NULL, day, i IS NULL, i)) FILTER (WHERE i IS NOT NULL).i ]*/ AS fi,
  /*[*/ any_value(s) FILTER (WHERE b) /*=> min(struct(s IS NULL, s, day IS NULL, day, i IS NULL, i)) FILTER (WHERE b).s ]*/ AS b
  FROM t GROUP BY k;

CREATE MATERIALIZED VIEW v_only_first AS
SELECT k, /*[*/ first(i) /*=> min(i) ]*/ AS i, count(*) AS c FROM t GROUP BY k;

CREATE MATERIALIZED VIEW v_only_last AS
SELECT g, /*[*/ last_value(d) /*=> max(d) ]*/ AS d FROM t GROUP BY g;

CREATE MATERIALIZED VIEW v_first_of_inserts AS
SELECT k, /*[*/ first(g) /*=> min(struct(g IS NULL, g, i IS NULL, i)).g ]*/ AS g,
  /*[*/ first(i) /*=> min(struct(g IS NULL, g, i IS NULL, i)).i ]*/ AS i FROM a GROUP BY k;

CREATE MATERIALIZED VIEW v_mode AS
SELECT g, /*[*/ mode(k) /*=> mode(k, true) ]*/ AS k, /*[*/ mode(s) FILTER (WHERE b) /*=> mode(s, true) FILTER (WHERE b) ]*/ AS s
  FROM t GROUP BY g;

CREATE MATERIALIZED VIEW v_by_several AS
SELECT k, min_by(i, i, 3) AS a, max_by(i, struct(d, i), 2) AS b, max_by(s, struct(i, s), 100) AS c,
  min_by(m, struct(m), 1) FILTER (WHERE b) AS f FROM t GROUP BY k;

CREATE MATERIALIZED VIEW v_frequencies AS
SELECT g, percentile(i, 0.4, k) AS p, percentile(d, array(0.1, 0.5), abs(i % 4)) AS q FROM t GROUP BY g;

CREATE MATERIALIZED VIEW v_try_avg AS
SELECT k, try_avg(m) AS a, try_avg(d) AS d, try_sum(l) AS l, avg(m) AS b, mean(i) AS mean, std(i) AS std,
  max(struct(i, g)) AS x, min(array(i, k)) AS y FROM t GROUP BY k;

CREATE MATERIALIZED VIEW v_over_windows AS
SELECT k, g, i, m, round(corr(i, m) OVER w, 7) AS c, covar_pop(i, m) OVER w AS v, round(regr_slope(m, i) OVER (PARTITION BY g), 7) AS s,
  /*[*/ approx_count_distinct(i) OVER w /*=> bigint(size(collect_set(i) OVER w)) ]*/ AS n,
  percentile_approx(i, 0.3) OVER (PARTITION BY k) AS p, min_by(i, i, 2) OVER w AS b,
  listagg(g, ',') WITHIN GROUP (ORDER BY g DESC) OVER (PARTITION BY k) AS l, regr_count(i, m) OVER w AS rc,
  /*[*/ mode(g) OVER (PARTITION BY k) /*=> mode(g, true) OVER (PARTITION BY k) ]*/ AS mo
  FROM t WINDOW w AS (PARTITION BY k ORDER BY i, m, g, l, d ROWS BETWEEN 3 PRECEDING AND CURRENT ROW);

CREATE MATERIALIZED VIEW v_over_views AS
SELECT c.n, count(*) AS views, max(c.s) AS s FROM (SELECT k, /*[*/ approx_count_distinct(g) /*=> count(DISTINCT g) ]*/ AS n,
  listagg(g, ',') WITHIN GROUP (ORDER BY g) AS s FROM t GROUP BY k) c GROUP BY c.n;

CREATE MATERIALIZED VIEW v_percentile_of_all AS
SELECT percentile_approx(d, 0.5) AS p FROM t;

CREATE MATERIALIZED VIEW v_of_all AS
SELECT /*[*/ approx_count_distinct(i) /*=> count(DISTINCT i) ]*/ AS n, listagg(g) WITHIN GROUP (ORDER BY g, i) AS l,
  covar_samp(i, m) AS c, /*[*/ first(s) /*=> min(s) ]*/ AS f FROM t;

CREATE MATERIALIZED VIEW v_sessions AS
SELECT session_window.start AS s, session_window.end AS e, count(*) AS c, sum(i) AS i, max(g) AS g FROM t
  GROUP BY session_window(at, '30 hours');

CREATE MATERIALIZED VIEW v_sessions_by_key AS
SELECT k, session_window AS w, count(*) AS c, count(DISTINCT g) AS g, avg(d) AS d FROM t WHERE i > -20
  GROUP BY k, session_window(at, '9 days');

CREATE MATERIALIZED VIEW v_sessions_of_changing_gaps AS
SELECT g, w.start AS s, w.end AS e, min(i) AS i FROM (SELECT g, i, session_window(at, CASE WHEN b THEN '20 days' WHEN i > 0
  THEN '0 days' ELSE '100 hours' END) AS w FROM a) GROUP BY g, w;

CREATE MATERIALIZED VIEW v_over_sessions AS
SELECT u.name, x.c, x.s FROM u JOIN (SELECT k, session_window(at, '20 days').start AS s, count(*) AS c FROM t
  GROUP BY k, session_window(at, '20 days') HAVING count(*) > 1) x ON u.k = x.k;

CREATE MATERIALIZED VIEW v_intervals AS
SELECT k, sum(at - day) AS s, avg(at - day) AS a, cast(max(at - day) AS STRING) AS x, min(at - day) AS m,
  median(at - day) AS med, count(DISTINCT at - day) AS n, try_sum(at - day) AS ts, cast(sum(make_ym_interval(k, i)) AS STRING) AS ym,
  cast(avg(make_ym_interval(0, i)) AS STRING) AS am, percentile_approx(day - date'2020-01-01', 0.5) AS p,
  collect_set(day - date'2020-06-01') AS l FROM t GROUP BY k;

-- Spark's tables are in one partition here. A DISTINCT beside it would make it merge, and a value may have several bins then.

CREATE MATERIALIZED VIEW v_histograms AS
SELECT k, histogram_numeric(i % 7, 20) AS hi, histogram_numeric(b::tinyint, 2) AS hb, histogram_numeric(day, 1000) AS hd,
  histogram_numeric(at, 1000) AS ha, histogram_numeric(i::float / 2, 1000) FILTER (WHERE i > 0) AS hf,
  cast(histogram_numeric(at - day, 1000)[0].x AS STRING) AS hx FROM t GROUP BY k;

CREATE MATERIALIZED VIEW v_distinct_histogram AS
SELECT k, histogram_numeric(DISTINCT i, 1000) AS h FROM t GROUP BY k;

CREATE MATERIALIZED VIEW v_histograms_of_few_bins AS
SELECT k, histogram_numeric(i, 3) AS a, histogram_numeric(i / 7, 5) AS b, histogram_numeric(i::smallint, 2) FILTER (WHERE b) AS c
  FROM /*[*/ t /*=> (SELECT * FROM t ORDER BY i) ]*/ GROUP BY k;

CREATE MATERIALIZED VIEW v_histograms_of_doubles AS
SELECT g, histogram_numeric(d, 4) AS h FROM /*[*/ t /*=> (SELECT * FROM t ORDER BY d) ]*/ GROUP BY g;

CREATE MATERIALIZED VIEW v_histograms_of_times AS
SELECT g, histogram_numeric(at, 3) AS h FROM /*[*/ t /*=> (SELECT * FROM t ORDER BY at) ]*/ GROUP BY g;

CREATE MATERIALIZED VIEW v_running_histogram AS
SELECT k, i, histogram_numeric(i, 3) OVER (PARTITION BY k ORDER BY at, i, m) AS h,
  histogram_numeric(i, 2) OVER (PARTITION BY k ORDER BY at, i, m ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) AS r FROM t;

CREATE MATERIALIZED VIEW v_by_interval AS
SELECT day - date'2020-03-01' AS d, count(*) AS c, sum(i) AS s FROM t WHERE at - day > INTERVAL '-300' DAY GROUP BY 1;

CREATE MATERIALIZED VIEW v_over_intervals AS
SELECT d, c, u.k, lag(d) OVER (PARTITION BY u.k ORDER BY d, c, u.name, u.w, u.l) AS before FROM (SELECT k, day - date'2020-03-01' AS d,
  count(*) AS c FROM t GROUP BY 1, 2) x JOIN u ON x.k = u.k;
