"""Queries that mean the same in Spark SQL and DuckDB. All begin with the columns ``a`` and ``b``, both BIGINT."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

COLUMNS = "c INT, n BIGINT, k INT, v BIGINT, s STRING"
"""Of every table: which writer, number of the row, and values; ``(c, n)`` is unique where it is not NULL."""

COPY = "SELECT c, n, k, v, s FROM {0}"

OVER_ONE = {
    "filter": "SELECT n AS a, v AS b, s FROM {0} WHERE k < {x}",
    "project": "SELECT n AS a, CAST(k + 1 AS BIGINT) AS b, upper(s) AS s FROM {0} WHERE v % 7 = {x}",
    "group": "SELECT CAST(k AS BIGINT) AS a, COUNT(*) AS b, SUM(v) AS t, MIN(v) AS lo, MAX(v) AS hi FROM {0} "
    "GROUP BY k",
    "distinct": "SELECT DISTINCT CAST(k AS BIGINT) AS a, v % 10 AS b, s FROM {0}",
    "count_distinct": "SELECT CAST(k AS BIGINT) AS a, COUNT(DISTINCT s) AS b FROM {0} GROUP BY k HAVING COUNT(*) > {x}",
    "top": "SELECT a, b, r FROM (SELECT CAST(k AS BIGINT) AS a, v AS b, row_number() OVER (PARTITION BY k "
    "ORDER BY v DESC NULLS LAST, n NULLS LAST, c NULLS LAST) AS r FROM {0}) AS q WHERE r <= 3",
    "first": "SELECT n AS a, v AS b, s FROM {0} ORDER BY v DESC NULLS LAST, n NULLS LAST, c NULLS LAST LIMIT 10",
    "lag": "SELECT n AS a, v - lag(v) OVER (PARTITION BY k ORDER BY n, c) AS b, k FROM {0} "
    "WHERE n IS NOT NULL AND c IS NOT NULL AND k < {x}",
    "above": "SELECT n AS a, v AS b FROM {0} WHERE v > (SELECT MAX(v) - {x} FROM {0})",
}
OVER_TWO = {
    "join": "SELECT x.n AS a, y.v AS b, x.s AS s FROM {0} AS x JOIN {1} AS y ON x.k = y.k AND x.v = y.v",
    "outer": "SELECT CAST(x.k AS BIGINT) AS a, COUNT(y.n) AS b FROM {0} AS x LEFT JOIN {1} AS y "
    "ON x.k = y.k AND y.v < {x} GROUP BY x.k",
    "anti": "SELECT x.n AS a, x.v AS b FROM {0} AS x WHERE x.v < 50 AND NOT EXISTS "
    "(SELECT 1 FROM {1} AS y WHERE y.k = x.k AND y.v = x.v)",
    "union": "SELECT n AS a, v AS b FROM {0} WHERE k = {x} UNION ALL SELECT n AS a, v AS b FROM {1} WHERE k = {x}",
}
OVER_VIEW = {
    "over_group": "SELECT b AS a, COUNT(*) AS b FROM {0} GROUP BY b",
    "over_filter": "SELECT a, MAX(b) AS b FROM {0} WHERE a % 2 = 0 GROUP BY a",
    "over_distinct": "SELECT DISTINCT a, CAST(NULL AS BIGINT) AS b FROM {0}",
}
AT_TAIL = ("filter", "project", "group", "distinct")


@dataclass
class View:
    """A view as the model knows it.

    Attributes
    ----------
    template : str
        Its query, with ``{0}`` and ``{1}`` for what it reads.
    reads : tuple of str
        Names of tables or views.
    begins : int or None
        At the tail: how many rows its table had before.
    """

    name: str
    template: str
    reads: tuple[str, ...]
    properties: dict[str, str] = field(default_factory=dict)
    begins: int | None = None

    def sql(self, names: tuple[str, ...] | None = None) -> str:
        """The query, over other names if any are given."""
        return self.template.format(*(names or self.reads))

    def statement(self, replace: bool = False) -> str:
        """The statement that creates it."""
        given = ", ".join(f"'{k}' = '{v}'" for k, v in self.properties.items())
        properties = f"TBLPROPERTIES ({given}) " if given else ""
        return f"CREATE {'OR REPLACE ' * replace}MATERIALIZED VIEW {self.name} {properties}AS {self.sql()}"


def random_view(chance: random.Random, name: str, tables: list[str], views: list[str]) -> View:
    """A view over one or two tables, or over another view."""
    kind = chance.random()
    if views and kind < 0.25:
        templates, reads = OVER_VIEW, [chance.choice(views)]
    elif len(tables) > 1 and kind < 0.5:
        templates, reads = OVER_TWO, chance.sample(tables, 2)
    else:
        templates, reads = OVER_ONE, [chance.choice(tables)]
    template = chance.choice(list(templates.values())).replace("{x}", str(chance.randrange(2, 7)))
    properties = {}
    if chance.random() < 0.3:
        properties["priority"] = str(chance.randrange(1, 5))
    if chance.random() < 0.2 and reads[0] in tables:
        properties["position"] = chance.choice(("head", "backfill"))
    return View(name, template, tuple(reads), properties)


def tail_view(chance: random.Random, name: str, table: str, rows: int) -> View:
    """A view over the rows of a table behind the first so many."""
    template = OVER_ONE[chance.choice(AT_TAIL)].replace("{x}", str(chance.randrange(2, 7)))
    return View(name, template, (table,), {"position": "tail"}, rows)
