-- Lists and sets of a group's values, and percentiles, some of them several at once.

CREATE MATERIALIZED VIEW z_all AS
SELECT var_samp(i) AS v, median(d) AS m, collect_list(k) AS ks, collect_set(g) AS gs, bit_xor(l) AS x,
  mode(k, true) AS mo, min_by(s, struct_free) AS first FROM (SELECT *, at AS struct_free FROM t);

CREATE MATERIALIZED VIEW z_all_never AS
SELECT stddev(i) AS v, median(d) AS m, collect_list(s) AS ss, collect_set(i) AS ii, bit_and(i) AS x,
  mode(k, true) AS mo, max_by(s, at) AS last, percentile(i, array(0.5, 0.9)) AS ps, count(DISTINCT k, s) AS c,
  kurtosis(i) AS ku FROM t WHERE i > 1000;

CREATE MATERIALIZED VIEW z_all_sometimes AS
SELECT stddev_pop(i) AS v, collect_list(i) AS l, percentile(i, array(0.5, 0.9)) AS ps, bit_or(i) AS o,
  some(b) AS some FROM t WHERE k = 9;

CREATE MATERIALIZED VIEW z_percentile AS
SELECT k, percentile(i, 0.3) AS p, percentile(d, array(0.0, 0.25, 1.0)) AS ps, median(m) AS m, median(l) AS ml,
  percentile_cont(0.1) WITHIN GROUP (ORDER BY i DESC) AS pd, percentile(i, 0.5) FILTER (WHERE b) AS f,
  percentile(DISTINCT i, 0.75) AS dp FROM t GROUP BY k;

CREATE MATERIALIZED VIEW z_percentile_disc AS
SELECT g, percentile_disc(0.3) WITHIN GROUP (ORDER BY i) AS a, percentile_disc(0.3) WITHIN GROUP (ORDER BY i DESC) AS b,
  percentile_disc(0.0) WITHIN GROUP (ORDER BY d) AS c, percentile_disc(1.0) WITHIN GROUP (ORDER BY m) AS e,
  percentile_disc(array(0.2, 0.5, 0.6)) WITHIN GROUP (ORDER BY k) AS f FROM t GROUP BY g;

CREATE MATERIALIZED VIEW z_lists AS
SELECT k, collect_list(i) AS li, collect_list(s) AS ls, collect_list(day) AS ld, collect_list(m) AS lm,
  array_agg(b) AS lb, collect_list(d) AS lf, collect_list(at) FILTER (WHERE i > 0) AS la FROM t GROUP BY k;

CREATE MATERIALIZED VIEW z_sets AS
SELECT k, collect_set(i) AS si, collect_set(s) AS ss, collect_set(d) AS sd, collect_list(DISTINCT g) AS lg,
  collect_set(m) FILTER (WHERE b) AS sm FROM t GROUP BY k;

CREATE MATERIALIZED VIEW z_inserts AS
SELECT g, stddev(i) AS s, median(i) AS m, collect_list(i) AS l, bit_or(i) AS o, count(DISTINCT k, b) AS c FROM a GROUP BY g;

CREATE MATERIALIZED VIEW z_over_lists AS
SELECT x.k, x.l, x.p, u.name FROM u JOIN (SELECT k, collect_list(i) AS l, percentile(i, array(0.5, 1.0)) AS p
  FROM t GROUP BY k) x ON x.k = u.k WHERE u.l IS NOT NULL;

CREATE MATERIALIZED VIEW z_count_lists AS
SELECT s, count(*) AS c FROM (SELECT k, collect_set(b) AS s FROM t GROUP BY k) GROUP BY s;
