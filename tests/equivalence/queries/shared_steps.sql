-- Steps read by a step beside them and by one in a later superstep; groups stored behind an exchange.

CREATE MATERIALIZED VIEW x_counts AS
SELECT k, COUNT(*) AS c FROM t WHERE b GROUP BY k;

CREATE MATERIALIZED VIEW x_union AS
SELECT k FROM t WHERE b UNION ALL SELECT t.k FROM t JOIN u ON t.k = u.k;

CREATE MATERIALIZED VIEW x_stored_behind_join AS
SELECT u.name, COUNT(*) AS c, SUM(t.i) AS s FROM t JOIN u ON t.k = u.k GROUP BY u.name;

CREATE MATERIALIZED VIEW x_same_arrangement AS
SELECT t.i, u.l FROM t JOIN u ON t.k = u.k WHERE t.i IS NOT NULL;

CREATE MATERIALIZED VIEW x_rows_and_groups AS
SELECT a.k, a.c, t.i FROM x_counts a JOIN t ON a.k = t.k;
