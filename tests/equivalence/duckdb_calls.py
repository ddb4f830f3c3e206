"""Calls of Spark's functions as DuckDB writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_CALL = re.compile(r"\b([a-z_]+)\(", re.IGNORECASE)
_FILTER = re.compile(r"\s*FILTER \(WHERE ", re.IGNORECASE)
_FORMATS = (("yyyy", "%Y"), ("yy", "%y"), ("MM", "%m"), ("dd", "%d"))
_WHOLE_NUMBER = "'^[+-]?[0-9]+$'"


def _all_there(arguments: Sequence[str]) -> str:
    return " AND ".join(f"({a}) IS NOT NULL" for a in arguments)


def _count_distinct(*arguments: str) -> str | None:
    if len(arguments) < 2 or not arguments[0].startswith("DISTINCT "):
        return None
    plain = (arguments[0].removeprefix("DISTINCT "), *arguments[1:])
    return f"count(DISTINCT CASE WHEN {_all_there(plain)} THEN ({', '.join(plain)}) END)"


def _count(*arguments: str) -> str | None:
    if len(arguments) < 2:
        return None
    if arguments[0].startswith("DISTINCT "):
        return _count_distinct(*arguments)
    return f"count(CASE WHEN {_all_there(arguments)} THEN 1 END)"


def _date_format(value: str, pattern: str) -> str:
    for letters, code in _FORMATS:
        pattern = pattern.replace(letters, code)
    return f"strftime({value}, {pattern})"


def _try_cast(argument: str) -> str | None:
    """Spark reads whole numbers as integers and nothing else; DuckDB rounds others."""
    if not argument.endswith(" AS INT"):
        return None
    text = f"trim({argument.removesuffix(' AS INT')}, E' \\n\\t')"
    return f"(CASE WHEN regexp_matches({text}, {_WHOLE_NUMBER}) THEN TRY_CAST({text} AS INTEGER) END)"


def _trunc(value: str, unit: str) -> str:
    names = {"'MM'": "'month'", "'YEAR'": "'year'", "'week'": "'week'"}
    return f"CAST(date_trunc({names[unit]}, {value}) AS DATE)"


_CALLS: dict[str, Callable[..., str | None]] = {
    "add_months": lambda d, n: f"CAST({d} + INTERVAL ({n}) MONTH AS DATE)",
    "array": lambda *values: f"[{', '.join(values)}]",
    "concat": lambda *values: f"({' || '.join(values)})",
    "count": _count,
    "count_if": lambda c: f"count(CASE WHEN {c} THEN 1 END)",
    "any": lambda c: f"bool_or({c})",
    "some": lambda c: f"bool_or({c})",
    "every": lambda c: f"bool_and({c})",
    "date_add": lambda d, n: f"({d} + {n})",
    "date_format": _date_format,
    "datediff": lambda a, b: f"date_diff('day', {b}, {a})",
    "dayofweek": lambda d: f"(dayofweek({d}) + 1)",
    "median": lambda x: f"median(CAST({x} AS DOUBLE))",
    "nanvl": lambda a, b: f"(CASE WHEN isnan({a}) THEN {b} ELSE {a} END)",
    "pmod": lambda a, b: f"((({a}) % ({b}) + ({b})) % ({b}))",
    "regexp_replace": lambda s, a, b: f"regexp_replace({s}, {a}, {b}, 'g')",
    "regr_count": lambda a, b: f"count(CASE WHEN {_all_there((a, b))} THEN 1 END)",
    "split": lambda s, d: f"string_split({s}, {d})",
    "to_date": lambda t: f"CAST({t} AS DATE)",
    "trunc": _trunc,
    "try_avg": lambda x: f"avg({x})",
    "try_cast": _try_cast,
    "try_sum": lambda x: f"sum({x})",
}
_LISTS = ("collect_list", "collect_set", "array_agg")
_SPREADS = ("var_pop", "stddev_pop")


def with_calls(query: str) -> str:
    """The query with its calls, from the inside outwards, in DuckDB's words."""
    parts, at = [], 0
    while (found := _CALL.search(query, at)) is not None:
        end = closed(query, found.end())
        parts.append(query[at : found.start()])
        name, inside = found.group(1), with_calls(query[found.end() : end - 1])
        if name.lower() in (*_LISTS, *_SPREADS):
            condition = _FILTER.match(query, end)
            more = ""
            if condition is not None:
                stop = closed(query, condition.end())
                more, end = f" AND ({with_calls(query[condition.end() : stop - 1])})", stop
            make_one = _list if name.lower() in _LISTS else _spread
            parts.append(make_one(name.lower(), inside, more))
        else:
            make = _CALLS.get(name)
            text = make(*arguments_of(inside)) if make is not None else None
            parts.append(text if text is not None else f"{name}({inside})")
        at = end
    return "".join((*parts, query[at:]))


def _list(name: str, argument: str, more: str) -> str:
    """A list in ascending order without NULLs, empty rather than NULL."""
    distinct = "DISTINCT " if name == "collect_set" or argument.startswith("DISTINCT ") else ""
    plain = argument.removeprefix("DISTINCT ")
    call = f"list({distinct}{plain} ORDER BY {plain}) FILTER (WHERE ({plain}) IS NOT NULL{more})"
    return f"coalesce({call}, [])"


def _spread(name: str, argument: str, more: str) -> str:
    """For a single value DuckDB says 0 without looking; of an infinite one it is NaN."""
    if more:
        argument = f"(CASE WHEN {more.removeprefix(' AND ')} THEN {argument} END)"
    return f"(CASE WHEN count({argument}) = 1 THEN max({argument}) - max({argument}) ELSE {name}({argument}) END)"


def closed(query: str, at: int) -> int:
    """The position behind the bracket that closes the one opened just before ``at``; brackets in texts do not count."""
    depth, quoted = 1, False
    while depth:
        letter = query[at]
        if letter == "'":
            quoted = not quoted
        elif not quoted:
            depth += {"(": 1, ")": -1}.get(letter, 0)
        at += 1
    return at


def arguments_of(text: str) -> list[str]:
    """What stands between the commas of a call."""
    parts, depth, quoted, start = [], 0, False, 0
    for at, letter in enumerate(text):
        if letter == "'":
            quoted = not quoted
        elif not quoted:
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
            if letter == "," and not depth:
                parts.append(text[start:at].strip())
                start = at + 1
    return [*parts, text[start:].strip()]
