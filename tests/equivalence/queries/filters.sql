-- Filters and projections.

CREATE MATERIALIZED VIEW f_all AS
SELECT * FROM t;

CREATE MATERIALIZED VIEW f_compare AS
SELECT k, i, d FROM t WHERE i > 0 AND d <= 100.5;

CREATE MATERIALIZED VIEW f_or_null AS
SELECT i, s FROM t WHERE k IS NULL OR s IS NULL OR b;

CREATE MATERIALIZED VIEW f_not AS
SELECT k, b FROM t WHERE NOT b AND NOT (i BETWEEN -10 AND 10);

CREATE MATERIALIZED VIEW f_in AS
SELECT k, g FROM t WHERE g IN ('x', 'é', '') AND k NOT IN (1, 2);

CREATE MATERIALIZED VIEW f_like AS
SELECT s FROM t WHERE s LIKE '%a%' OR s LIKE '_' OR s LIKE '%\n%';

CREATE MATERIALIZED VIEW f_nan AS
SELECT d, d > 3 AS more FROM t WHERE d = double('NaN') OR d > 400 OR isnan(d) OR d = 0;

CREATE MATERIALIZED VIEW f_dates AS
SELECT day, at FROM t WHERE day >= DATE '2020-03-01' AND at < TIMESTAMP '2020-09-01 00:00:00';

CREATE MATERIALIZED VIEW f_decimal AS
SELECT m, m * 2 AS twice, m + 1.5 AS more FROM t WHERE m > 10.50;

CREATE MATERIALIZED VIEW f_constant AS
SELECT 1 AS one, 'x' AS x, NULL AS nothing, k FROM a;

CREATE MATERIALIZED VIEW p_case AS
SELECT k, CASE WHEN i > 10 THEN 'big' WHEN i > 0 THEN 'small' WHEN i IS NULL THEN 'none' END AS size,
  CASE k WHEN 0 THEN d WHEN 1 THEN -d ELSE 0 END AS v, if(b, 1, 0) AS bit FROM t;

CREATE MATERIALIZED VIEW p_cast AS
SELECT CAST(i AS STRING) AS si, CAST(i AS DOUBLE) / 4 AS q, CAST(m AS INT) AS mi, CAST(day AS STRING) AS sd,
  CAST(i AS DECIMAL(12, 3)) AS dm, CAST(b AS INT) AS bi, CAST(at AS DATE) AS ad FROM t;

CREATE MATERIALIZED VIEW p_text AS
SELECT upper(s) AS up, length(s) AS n, concat(g, '-', s) AS both, substring(s, 2, 3) AS part, trim(s) AS t,
  coalesce(s, g, 'none') AS some, replace(s, 'a', 'b') AS r FROM t;

CREATE MATERIALIZED VIEW p_dates AS
SELECT year(day) AS y, month(at) AS mo, day(day) AS d, hour(at) AS h, date_add(day, 7) AS later,
  datediff(day, DATE '2020-01-01') AS days, date_trunc('MONTH', at) AS mt FROM t;

CREATE MATERIALIZED VIEW p_math AS
SELECT i + k AS a, i - k AS b, i * 2 AS c, i / 4 AS d, i % 7 AS e, abs(i) AS f, -i AS g, i div 3 AS h,
  round(d, 1) AS r, floor(d) AS fl FROM t WHERE NOT isnan(d) AND abs(d) < 10000;

CREATE MATERIALIZED VIEW p_subquery AS
SELECT x + 1 AS y FROM (SELECT i * 2 AS x FROM t WHERE k < 3) WHERE x > 10;

CREATE MATERIALIZED VIEW p_with AS
WITH few AS (SELECT k, i FROM a WHERE i > 0) SELECT k, i FROM few WHERE k > 1;

-- Conditions that no row or every row fulfils.
CREATE MATERIALIZED VIEW f_always AS
SELECT k FROM t WHERE 1 = 1 AND true;

CREATE MATERIALIZED VIEW f_never_and_some AS
SELECT k FROM t WHERE 1 = 0 UNION ALL SELECT k FROM a WHERE i = 3 OR NOT i = 3;

CREATE MATERIALIZED VIEW f_never_counted AS
SELECT count(*) AS c, sum(i) AS s FROM t WHERE k = 1 AND k = 2;
