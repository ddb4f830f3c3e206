"""The arguments of the command ``query`` without Typer, which takes longer to import than most views to be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_PLAIN = {"--root": "root", "--format": "format_"}


def plain_arguments(arguments: Sequence[str]) -> dict[str, Any] | None:
    """Those of ``query --root ROOT [--format FORMAT] STATEMENT``, in any order, by the names of parameters.

    The parameters are those of :func:`tidemill.cli.query.command.query`. None for any other arguments, which Typer
    reads.
    """
    if arguments[:1] != ["query"]:
        return None
    found: dict[str, str] = {}
    rest = iter(arguments[1:])
    for argument in rest:
        name = _PLAIN.get(argument, "" if argument.startswith("-") else "statement")
        value = argument if name == "statement" else next(rest, "-")
        if not name or name in found or (value.startswith("-") and name != "statement"):
            return None
        found[name] = value
    return found if {"statement", "root"} <= found.keys() else None
