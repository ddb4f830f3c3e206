-- Variances and other moments, min_by, bits, mode, try_sum: stored, and read by other views.

CREATE MATERIALIZED VIEW y_variance AS
SELECT k, variance(i) AS v, var_pop(d) AS vp, stddev(m) AS s, stddev_pop(l) AS sp, stddev_samp(i + 1e4D) AS far,
  count(d) AS c FROM t GROUP BY k;

CREATE MATERIALIZED VIEW y_variance_distinct AS
SELECT g, var_samp(DISTINCT i) AS v, stddev_pop(DISTINCT m) AS s, std(i) FILTER (WHERE b) AS f,
  stddev(d) FILTER (WHERE d BETWEEN -1000 AND 1000) AS fd FROM t GROUP BY g;

CREATE MATERIALIZED VIEW y_shape AS
SELECT g, round(skewness(i), 7) AS s, round(kurtosis(i), 7) AS k, round(skewness(d), 7) AS sd,
  round(kurtosis(DISTINCT m), 7) AS km FROM t GROUP BY g;

CREATE MATERIALIZED VIEW y_mode AS
SELECT g, mode(k, true) AS a, mode() WITHIN GROUP (ORDER BY s DESC) AS b, mode() WITHIN GROUP (ORDER BY d) AS c,
  mode() WITHIN GROUP (ORDER BY day) FILTER (WHERE i > 0) AS e FROM t GROUP BY g;

CREATE MATERIALIZED VIEW y_by AS
SELECT k, min_by(id, id) AS a, max_by(id, id) AS b, min_by(id, id) FILTER (WHERE c > 1) AS f, max_by(c, id) AS mc,
  max_by(nothing, id) AS n FROM (SELECT k, at AS id, count(*) AS c, min(nullif(i, i)) AS nothing FROM t GROUP BY k, at)
  GROUP BY k;

CREATE MATERIALIZED VIEW y_by_inserts AS
SELECT g, min_by(d, i) AS lowest, max_by(s, i) AS highest FROM (SELECT g, i, max(s) AS s, min(d) AS d FROM a GROUP BY g, i)
  GROUP BY g;

CREATE MATERIALIZED VIEW y_bits AS
SELECT k, bit_and(i) AS a, bit_or(l) AS o, bit_xor(i) AS x, bit_xor(DISTINCT i) AS dx, bit_and(i) FILTER (WHERE b) AS f,
  bit_or(CAST(i AS SMALLINT)) AS so FROM t GROUP BY k;

CREATE MATERIALIZED VIEW y_booleans AS
SELECT k, bool_and(b) AS a, bool_or(b) AS o, every(i > 0) AS e, any(i > 40) AS n, some(b) FILTER (WHERE i < 0) AS f,
  count_if(b) AS c, count_if(DISTINCT b) AS cd FROM t GROUP BY k;

CREATE MATERIALIZED VIEW y_count_distinct AS
SELECT k, count(DISTINCT g, b) AS gb, count(DISTINCT i, s, d) AS isd, count(DISTINCT g, b) FILTER (WHERE i > 0) AS f,
  count(DISTINCT b) AS db, sum(DISTINCT i) AS si FROM t GROUP BY k;

CREATE MATERIALIZED VIEW y_try AS
SELECT k, try_sum(i) AS s, try_sum(m) AS sm, try_avg(i) AS a FROM t GROUP BY k;

CREATE MATERIALIZED VIEW y_over_variance AS
SELECT c, count(*) AS n, max(v) AS v, round(sum(sp), 3) AS s FROM (SELECT count(*) AS c, var_pop(i) AS v, stddev(k) AS sp
  FROM t GROUP BY g) GROUP BY c;

CREATE MATERIALIZED VIEW y_over_median AS
SELECT u.name, m.m, m.first, m.bits FROM u JOIN (SELECT k, median(i) AS m, min(s) AS first, bit_or(i) AS bits,
  mode(i, true) AS mo FROM t GROUP BY k) m ON u.k = m.k;

CREATE MATERIALIZED VIEW y_having AS
SELECT k, stddev(i) AS s FROM t GROUP BY k HAVING count(DISTINCT i, g) > 3 AND stddev(i) > 10;

CREATE MATERIALIZED VIEW y_median AS
SELECT g, median(i) AS m, percentile(d, 0.9) AS p, percentile_disc(0.4) WITHIN GROUP (ORDER BY m) AS d,
  percentile_cont(0.4) WITHIN GROUP (ORDER BY l DESC) AS c FROM t GROUP BY g;

CREATE MATERIALIZED VIEW y_all_scalar AS
SELECT var_samp(i) AS v, stddev_pop(d) AS sd, median(l) AS m, bit_xor(l) AS x, mode(k, true) AS mo,
  count(DISTINCT i, s) AS c, min_by(at, at) AS a FROM t;
