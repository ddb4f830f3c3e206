"""The tables that strategies' views read, and how these views are created."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tidemill.errors import TidemillError

ORDERS, SIDES = "orders", {"bids": "B", "asks": "S"}
_SIDES = """
CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS
SELECT t, id, broker_id, volume, price FROM orders WHERE side = '{side}'"""


def orders_over(path: str, symbol: str = "") -> list[str]:
    """Statements that create ``orders``, ``bids`` and ``asks``, unless they exist.

    Parameters
    ----------
    path : str
        Of traces, or of an exchange.
    symbol : str
        At that exchange.
    """
    options = [f"path '{path}'", "book 'both'", "partialCancels 'true'"]
    if symbol:
        options.append(f"greeting 'trace {symbol} {{lines}} {{last}}\\n'")
    create = f"CREATE TABLE IF NOT EXISTS {ORDERS} USING orderbook OPTIONS ({', '.join(options)})"
    return [create, *(_SIDES.format(name=name, side=side) for name, side in SIDES.items())]


def views_of(strategies: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The views of strategies by name. TM9604 when two strategies mean different views by a name."""
    found: dict[str, str] = {}
    for views in strategies:
        for name, query in views.items():
            if found.get(name) and query and " ".join(found[name].split()) != " ".join(query.split()):
                raise TidemillError(
                    "TM9604", "two strategies mean different views by one name", got=name, hint="rename one of them"
                )
            found[name] = query or found.get(name, "")
    return found


def create_views(
    execute: Callable[[str], object], views: Mapping[str, str], query_of: Callable[[str], str | None]
) -> None:
    """Create views, unless they exist.

    Parameters
    ----------
    query_of : callable
        Gives the query of a view that exists, None where there is none.

    Raises
    ------
    TidemillError
        TM9604 when a view of this name has another query; as of statements, with the name of the view in ``got``.
    """
    for name, query in views.items():
        if not query:
            continue
        found = query_of(name)
        if found is not None:
            if " ".join(found.split()) != " ".join(query.split()):
                raise TidemillError(
                    "TM9604", "a view of this name has another query", got=name, hint="give the view another name"
                )
            continue
        try:
            execute(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS {query}")
        except TidemillError as error:
            got = f"view {name} of a strategy: {error.got}"
            raise TidemillError(error.number, error.what, got, error.hint) from error
