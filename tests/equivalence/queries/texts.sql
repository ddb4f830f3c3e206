-- Functions of text with columns as patterns, hashes and formats, where a row takes back what it gave.

CREATE MATERIALIZED VIEW texts_hashed AS
SELECT pmod(hash(k, s, d), 7) AS bucket, count(*) AS c, min(xxhash64(s, i)) AS x FROM t GROUP BY pmod(hash(k, s, d), 7);

CREATE MATERIALIZED VIEW texts_of_columns AS
SELECT contains(t.s, u.name) AS has, instr(t.s, substr(u.name, 1, 1)) AS at, replace(t.s, u.name, '-') AS r,
  levenshtein(t.s, u.name) AS far, count(*) AS c
FROM t JOIN u ON t.k = u.k GROUP BY ALL;

CREATE MATERIALIZED VIEW texts_printed AS
SELECT k, format_string('%05d|%s', i, s) AS f, format_number(d, 2) AS n, base64(s) AS b,
  regexp_replace(s, '(.)(.)', '$2$1') AS r, regexp_count(s, '(?i)A') AS a, regexp_substr(s, '[a-z]+') AS first
FROM t;
