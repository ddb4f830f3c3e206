/* The tokens of Spark SQL, as far as colours and completion need them. */

export const KEYWORDS = `ADD AFTER ALL ALTER AND ANTI ANY ARRAY AS ASC BETWEEN BIGINT BINARY BOOLEAN BY CASE CAST COLUMN COLUMNS
CREATE CROSS CUBE CURRENT DATE DECIMAL DELTA DESC DESCRIBE DISTINCT DOUBLE DROP ELSE END ESCAPE EXCEPT EXISTS EXPLAIN FALSE FILTER
FIRST FLOAT FOLLOWING FROM FULL GROUP GROUPING HAVING IF IN INCREMENTAL INNER INT INTERSECT INTERVAL INTO IS JOIN KEY LAST LATERAL
LEFT LIKE LIMIT MAP MATERIALIZED NATURAL NOT NULL NULLS ON OPTIONS OR ORDER OUTER OVER PARTITION PAUSE POSITION PRECEDING PRIMARY
QUALIFY RANGE RECURSIVE REPLACE RESET RESUME RIGHT RLIKE ROLLUP ROW ROWS SELECT SEMI SET SETS SHOW SINK SINKS SMALLINT STRING STRUCT
TABLE TABLES TBLPROPERTIES THEN TIMESTAMP TINYINT TRUE UNBOUNDED UNION UNPIVOT USING VALUES VIEW VIEWS WATERMARK WHEN WHERE WINDOW WITH`.split(/\s+/);

const WORDS = new Set(KEYWORDS);
const TOKEN = /(?<comment>--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|(?<literal>'(?:[^'\\]|\\[\s\S])*'?|"(?:[^"\\]|\\[\s\S])*"?)|(?<quoted>`[^`]*`?)|(?<number>\b\d[\w.]*)|(?<word>[A-Za-z_]\w*)|(?<rest>\s+|[^\sA-Za-z_\d'"`]+?(?=[\sA-Za-z_\d'"`]|--|\/\*|$)|.)/g;

/** Tokens `{kind, text, at}` that make up a text; kinds are keyword, name, literal, number, comment and rest. */
export function tokens(text) {
  return [...text.matchAll(TOKEN)].map((match) => {
    const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    const shown = { word: WORDS.has(match[0].toUpperCase()) ? "keyword" : "name", quoted: "name" }[kind] ?? kind;
    return { kind: shown, text: match[0], at: match.index };
  });
}

/** Where a place in a text is; lines and columns begin with 1. */
export function offsetOf(text, line, column) {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((n, l) => n + l.length + 1, 0);
  return Math.min(text.length, before + Math.min(column - 1, (lines[line - 1] ?? "").length));
}
