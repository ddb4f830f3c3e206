"""Ordinary queries over the usual tables, in groups that share a mill. A query may read views before it."""

from __future__ import annotations

FILTERS = {
    "f_all": "SELECT * FROM t",
    "f_compare": "SELECT k, i, d FROM t WHERE i > 0 AND d <= 100.5",
    "f_or_null": "SELECT i, s FROM t WHERE k IS NULL OR s IS NULL OR b",
    "f_not": "SELECT k, b FROM t WHERE NOT b AND NOT (i BETWEEN -10 AND 10)",
    "f_in": "SELECT k, g FROM t WHERE g IN ('x', 'é', '') AND k NOT IN (1, 2)",
    "f_like": "SELECT s FROM t WHERE s LIKE '%a%' OR s LIKE '_' OR s LIKE '%\n%'",
    "f_nan": "SELECT d, d > 3 AS more FROM t WHERE d = double('NaN') OR d > 400 OR isnan(d) OR d = 0",
    "f_dates": "SELECT day, at FROM t WHERE day >= DATE '2020-03-01' AND at < TIMESTAMP '2020-09-01 00:00:00'",
    "f_decimal": "SELECT m, m * 2 AS twice, m + 1.5 AS more FROM t WHERE m > 10.50",
    "f_constant": "SELECT 1 AS one, 'x' AS x, NULL AS nothing, k FROM a",
    "p_case": """SELECT k, CASE WHEN i > 10 THEN 'big' WHEN i > 0 THEN 'small' WHEN i IS NULL THEN 'none' END AS size,
                 CASE k WHEN 0 THEN d WHEN 1 THEN -d ELSE 0 END AS v, if(b, 1, 0) AS bit FROM t""",
    "p_cast": """SELECT CAST(i AS STRING) AS si, CAST(i AS DOUBLE) / 4 AS q, CAST(m AS INT) AS mi, CAST(day AS STRING) AS sd,
                 CAST(i AS DECIMAL(12, 3)) AS dm, CAST(b AS INT) AS bi, CAST(at AS DATE) AS ad FROM t""",
    "p_text": """SELECT upper(s) AS up, length(s) AS n, concat(g, '-', s) AS both, substring(s, 2, 3) AS part, trim(s) AS t,
                 coalesce(s, g, 'none') AS some, replace(s, 'a', 'b') AS r FROM t""",
    "p_dates": """SELECT year(day) AS y, month(at) AS mo, day(day) AS d, hour(at) AS h, date_add(day, 7) AS later,
                  datediff(day, DATE '2020-01-01') AS days, date_trunc('MONTH', at) AS mt FROM t""",
    "p_math": "SELECT i + k AS a, i - k AS b, i * 2 AS c, i / 4 AS d, i % 7 AS e, abs(i) AS f, -i AS g, "
    "i div 3 AS h, round(d, 1) AS r, floor(d) AS fl FROM t WHERE NOT isnan(d) AND abs(d) < 10000",
    "p_subquery": "SELECT x + 1 AS y FROM (SELECT i * 2 AS x FROM t WHERE k < 3) WHERE x > 10",
    "p_with": "WITH few AS (SELECT k, i FROM a WHERE i > 0) SELECT k, i FROM few WHERE k > 1",
}

AGGREGATES = {
    "g_count": "SELECT k, count(*) AS c, count(d) AS cd, count(s) AS cs, count(k) AS ck FROM t GROUP BY k",
    "g_sum": "SELECT k, sum(i) AS si, sum(d) AS sd, sum(m) AS sm, avg(i) AS ai, avg(d) AS ad, avg(m) AS am FROM t GROUP BY k",
    "g_minmax": """SELECT k, min(i) AS mi, max(i) AS xi, min(l) AS ml, max(l) AS xl, min(d) AS md, max(d) AS xd, min(m) AS mm,
                   max(m) AS xm, min(s) AS ms, max(s) AS xs, min(day) AS mday, max(day) AS xday, min(at) AS mat,
                   max(at) AS xat, min(b) AS mb, max(b) AS xb FROM t GROUP BY k""",
    "g_distinct": """SELECT g, count(DISTINCT k) AS ck, count(DISTINCT d) AS cd, count(DISTINCT s) AS cs,
                     count(DISTINCT day) AS cday, count(DISTINCT b) AS cb, count(DISTINCT m) AS cm FROM t GROUP BY g""",
    "g_sum_distinct": """SELECT g, sum(DISTINCT i) AS si, sum(DISTINCT m) AS sm, avg(DISTINCT i) AS ai,
                         max(DISTINCT i) AS xi FROM t GROUP BY g""",
    "g_filter": """SELECT k, count(*) FILTER (WHERE b) AS cb, sum(i) FILTER (WHERE i > 0) AS pos,
                   min(s) FILTER (WHERE s LIKE '%a%') AS ms, count(DISTINCT g) FILTER (WHERE i < 0) AS cg FROM t GROUP BY k""",
    "g_two_keys": "SELECT k, g, count(*) AS c, sum(i) AS s FROM t GROUP BY k, g",
    "g_expression": "SELECT k % 3 AS r, upper(g) AS u, sum(i * 2 + 1) AS s, count(*) * 2 AS c FROM t GROUP BY k % 3, upper(g)",
    "g_float_key": "SELECT d, count(*) AS c FROM t GROUP BY d",
    "g_date_key": "SELECT month(day) AS m, b, count(*) AS c, sum(m) AS s FROM t GROUP BY month(day), b",
    "g_having": "SELECT k, sum(i) AS s FROM t GROUP BY k HAVING count(*) > 3 AND sum(i) IS NOT NULL",
    "g_having_other": "SELECT g FROM t GROUP BY g HAVING max(i) > 20",
    "g_only_keys": "SELECT k, g FROM t GROUP BY k, g",
    "g_hidden_key": "SELECT count(*) AS c, avg(i) AS a FROM t GROUP BY k",
    "g_distinct_rows": "SELECT DISTINCT g, b FROM t",
    "g_distinct_where": "SELECT DISTINCT s FROM t WHERE i > 0",
    "g_all": "SELECT count(*) AS c, sum(i) AS si, avg(m) AS am, min(s) AS ms, max(d) AS xd, count(DISTINCT k) AS dk FROM t",
    "g_all_never": "SELECT count(*) AS c, sum(i) AS s, min(s) AS m, count(DISTINCT k) AS dk FROM t WHERE i > 1000",
    "g_all_sometimes": "SELECT count(*) AS c, sum(d) AS s, max(day) AS x FROM t WHERE k = 9",
    "g_all_having": "SELECT sum(i) AS s FROM t HAVING count(*) > 10",
    "g_all_hidden": "SELECT max(i) - min(i) AS spread, sum(i) / count(i) AS mean FROM t",
    "g_case": "SELECT g, sum(CASE WHEN b THEN i ELSE -i END) AS s, sum(CASE WHEN k = 1 THEN 1 ELSE 0 END) AS c FROM t GROUP BY g",
}

APPEND_ONLY = {
    "a_sum": "SELECT k, count(*) AS c, sum(i) AS si, sum(d) AS sd, avg(d) AS ad, sum(m) AS sm, avg(m) AS am FROM a GROUP BY k",
    "a_minmax": """SELECT g, min(i) AS mi, max(l) AS xl, min(d) AS md, max(d) AS xd, min(m) AS mm, max(s) AS xs, min(s) AS ms,
                   min(day) AS mday, max(at) AS xat, min(b) AS mb FROM a GROUP BY g""",
    "a_distinct": "SELECT k, count(DISTINCT s) AS cs, sum(DISTINCT i) AS si, count(DISTINCT l) AS cl FROM a GROUP BY k",
    "a_all": "SELECT count(*) AS c, min(d) AS md, max(s) AS xs, sum(l % 1000) AS sl FROM a",
    "a_rows": "SELECT DISTINCT k, b FROM a",
    "a_join": "SELECT a.k, a.i, u.name FROM a JOIN u ON a.k = u.k",
    "a_self": "SELECT x.i, y.i AS j FROM a x JOIN a y ON x.k = y.k AND x.g = y.g",
    "a_self_max": "SELECT i % 5 AS r, max(j) AS m, count(*) AS c FROM a_self GROUP BY i % 5",
    "a_max_of_max": "SELECT max(mi) AS m, min(xl) AS n FROM a_minmax",
}

JOINS = {
    "j_one": "SELECT t.k, t.i, t.s, u.name, u.w FROM t JOIN u ON t.k = u.k",
    "j_two": "SELECT t.*, u.name FROM t JOIN u ON t.k = u.k AND t.g = u.g",
    "j_computed": "SELECT t.i, u.l FROM t JOIN u ON t.i % 5 = u.l + 1",
    "j_null_safe": "SELECT t.k, t.g, u.name FROM t JOIN u ON t.g <=> u.g AND t.k = u.k",
    "j_residual": "SELECT t.i, u.l FROM t JOIN u ON t.k = u.k AND t.i > u.l AND (t.b OR u.w > 0)",
    "j_where": "SELECT t.s, u.name FROM t, u WHERE t.k = u.k AND t.i > 0 AND u.w < 100",
    "j_self": "SELECT x.i AS i, y.i AS j FROM t x JOIN t y ON x.k = y.k WHERE x.i < y.i AND x.b",
    "j_three": "SELECT t.i, u.name, a.s FROM t JOIN u ON t.k = u.k JOIN a ON u.k = a.k AND a.i > 30 WHERE t.b",
    "j_types": "SELECT t.k, u.l FROM t JOIN u ON t.i = u.l",
    "j_dates": "SELECT t.day, a.i FROM t JOIN a ON month(t.day) = month(a.at) AND t.b = a.b WHERE t.k = 0 AND a.k < 2",
    "j_double": "SELECT t.d, a.i FROM t JOIN a ON t.d = a.d",
    "j_only_left": "SELECT t.k FROM t JOIN u ON t.k = u.k",
    "j_agg": "SELECT u.name, count(*) AS c, sum(t.i) AS s, max(t.d) AS x, sum(t.i * u.l) AS p FROM t JOIN u ON t.k = u.k GROUP BY u.name",
    "j_agg_all": "SELECT count(*) AS c, sum(t.i * u.w) AS s, avg(t.m) AS m FROM t JOIN u ON t.k = u.k AND t.g = u.g",
    "j_of_aggs": """SELECT x.k, x.c, y.s FROM (SELECT k, count(*) AS c FROM t GROUP BY k) x
                    JOIN (SELECT k, sum(w) AS s FROM u GROUP BY k) y ON x.k = y.k""",
    "j_agg_of_aggs": """SELECT x.c, count(*) AS n, sum(y.s) AS s FROM (SELECT k, count(*) AS c FROM t GROUP BY k) x
                        JOIN (SELECT k, sum(l) AS s FROM u GROUP BY k) y ON x.k <=> y.k GROUP BY x.c""",
    "j_with_own_agg": """SELECT t.k, t.i, m.x FROM t JOIN (SELECT k, max(i) AS x FROM t GROUP BY k) m
                         ON t.k = m.k AND t.i = m.x""",
    "j_distinct": "SELECT DISTINCT u.g, t.b FROM t JOIN u ON t.k = u.k",
    "j_union": "SELECT t.k, z.v FROM t JOIN (SELECT k, l AS v FROM u UNION ALL SELECT k, l FROM a WHERE i > 0) z ON t.k = z.k WHERE t.b",
}

UNIONS_AND_VIEWS = {
    "n_all": "SELECT k, i FROM t UNION ALL SELECT k, i FROM a",
    "n_distinct": "SELECT k, g FROM t UNION SELECT k, g FROM a",
    "n_same": "SELECT k FROM t WHERE i > 0 UNION ALL SELECT k FROM t WHERE i > 20",
    "n_widened": "SELECT i AS v FROM t UNION ALL SELECT l FROM u UNION ALL SELECT k FROM a",
    "n_twice": "SELECT * FROM (SELECT g FROM t) UNION ALL SELECT * FROM (SELECT g FROM t)",
    "n_depths": """SELECT k, count(*) AS c FROM t GROUP BY k UNION ALL
                   SELECT c, count(*) FROM (SELECT k, count(*) AS c FROM a GROUP BY k) GROUP BY c""",
    "n_agg": "SELECT k, sum(i) AS s, count(*) AS c FROM (SELECT k, i FROM t UNION ALL SELECT k, i FROM a) GROUP BY k",
    "v_base": "SELECT k, g, i, d, s, b FROM t WHERE i > -40",
    "v_agg": "SELECT k, count(*) AS c, sum(i) AS s, max(d) AS x FROM v_base GROUP BY k",
    "v_agg_having": "SELECT k, c FROM v_agg WHERE c > 2",
    "v_of_agg": "SELECT c, count(*) AS n, min(k) AS k, sum(s) AS s FROM v_agg GROUP BY c",
    "v_of_of_agg": "SELECT sum(n) AS n, max(c) AS c, count(*) AS r FROM v_of_agg",
    "v_join_agg": "SELECT t.k, t.i, v_agg.c FROM t JOIN v_agg ON t.k = v_agg.k AND t.i > v_agg.c",
    "v_join_views": "SELECT h.k, h.c, f.n FROM v_agg_having h JOIN v_of_agg f ON h.c = f.c",
    "v_self": "SELECT p.k AS k, q.k AS l FROM v_agg p JOIN v_agg q ON p.c = q.c",
    "v_union": "SELECT k, c FROM v_agg UNION ALL SELECT k, n FROM v_of_agg",
    "v_distinct": "SELECT DISTINCT c FROM v_agg",
    "v_global": "SELECT count(*) AS c, sum(s) AS s FROM v_agg_having JOIN v_agg USING (c)",
    "v_of_global": "SELECT c + 1 AS c FROM v_global WHERE c >= 0",
}

GROUPS = {
    "filters": FILTERS,
    "aggregates": AGGREGATES,
    "append_only": APPEND_ONLY,
    "joins": JOINS,
    "unions_and_views": UNIONS_AND_VIEWS,
}
