"""Where operators and expressions stand in the text of a query, as Catalyst records it.

Every node of Catalyst, also of an optimised plan, has an *origin*: the text it was parsed from and the range of it.
A numbered error collects the Java nodes that it passes on its way up (:func:`passing`); the innermost one with an
origin is the place to show. Origins are read only when there is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tidemill.errors import TidemillError
from tidemill.plan.catalyst.trees.tree import JsonTree, elements
from tidemill.plan.sql.statements import Source

_SHOWN = 60


@contextmanager
def passing(node: JsonTree) -> Iterator[None]:
    """An error that is raised inside passes this node."""
    try:
        yield
    except TidemillError as error:
        java = node.fields.get("java")
        if java is not None:
            error.passed.append((java.node, _is_plan(node)))
        raise


def shown(query: str, start: int, stop: int, at: tuple[int, int]) -> str:
    """A range of a query for a message: its place, then its text.

    Parameters
    ----------
    start, stop : int
        First and last character.
    at : tuple of int
        Line and column of the script that the query begins at.
    """
    line, column = Source(query).place(start)
    place = f"at line {line}, column {column} of the query"
    fragment = " ".join(query[start : stop + 1].split())
    if (start, stop + 1) != (0, len(query)):
        place += f": {fragment if len(fragment) <= _SHOWN else fragment[:_SHOWN] + '...'}"
    if at != (1, 1):
        line, column = Source(query, *at).place(start)
        place += f" (line {line}, column {column} of the script)"
    return place


def placed(error: TidemillError, query: str, at: tuple[int, int], *texts: str) -> TidemillError:
    """The error with the place of what it passed, if that is known and less than the whole query.

    Else that of the first of ``texts`` that is in the query.
    """
    ranges = (_range(node, query) for passed in error.passed for node in _with_expressions(*passed))
    found = next((r for r in ranges if r is not None), None) or find(None, texts, query)
    if found is None:
        return error
    got = f"{error.got}, {shown(query, *found, at)}"
    return type(error)(error.number, error.what, got=got, hint=error.hint)


def of_class(plan: Any, name: str) -> list[tuple[Any, bool]]:
    """The expression of a Java plan whose class has this simple name, in the form of ``TidemillError.passed``."""
    return next(([(n, False)] for n in _nodes(plan, True) if n.getClass().getSimpleName() == name), [])


def find(plan: Any | None, texts: Sequence[str], query: str) -> tuple[int, int] | None:
    """The range of an expression that an error names by its text, but gives no place for.

    Parameters
    ----------
    plan : Java LogicalPlan or None
        The plan that was refused.
    texts : sequence of str
        What the error names, the best first.
    """
    wanted = [_plain(t) for t in (*texts, *(t.split("(")[0] for t in texts)) if _plain(t)]
    for text in wanted:
        for node in _nodes(plan, True) if plan is not None else ():
            found = _range(node, query)
            if found is not None and _plain(query[found[0] : found[1] + 1]).rsplit(".", 1)[-1] == text:
                return found
    for text in wanted:
        spaced = r"\s*".join(re.escape(t) for t in re.findall(r"\w+|\W", text))
        match = re.search(rf"(?<![\w.]){spaced}(?!\w)", query, re.IGNORECASE)
        if match is not None:
            return match.start(), match.end() - 1
    return None


def _plain(text: str) -> str:
    text = "".join(text.split()).replace("`", "").strip('"').lower()
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def _range(java: Any, query: str) -> tuple[int, int] | None:
    origin = java.origin()
    start, stop, text = origin.startIndex(), origin.stopIndex(), origin.sqlText()
    if not (start.isDefined() and stop.isDefined() and text.isDefined()) or text.get() != query:
        return None
    found = int(start.get()), int(stop.get())
    return None if found == (0, len(query.rstrip()) - 1) else found


def _is_plan(node: JsonTree) -> bool:
    return ".expressions." not in str(node.fields.get("class", "")) and "exprId" not in node.fields


def _with_expressions(java: Any, is_plan: bool) -> Iterator[Any]:
    """A node, and if it is an operator what it calculates."""
    yield java
    for expression in elements(java.expressions()) if is_plan else ():
        yield from _nodes(expression, False)


def _nodes(java: Any, is_plan: bool) -> Iterator[Any]:
    """An operator or expression and all below."""
    yield java
    for expression in elements(java.expressions()) if is_plan else ():
        yield from _nodes(expression, False)
    for child in elements(java.children()):
        yield from _nodes(child, is_plan)
