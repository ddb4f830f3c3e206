"""Every numbered error that the sources can raise, found by reading them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tidemill

PACKAGE = Path(tidemill.__file__).parent
NUMBER = re.compile(r"TM\d{4}")
CONSTRUCTORS = {"TidemillError", "EvaluationError", "FormatError"}


@dataclass(frozen=True)
class Raised:
    """One place that makes an error. ``what`` is empty when it is put together at run time."""

    number: str
    what: str
    place: str


def raised_errors() -> Iterator[Raised]:
    """All calls whose first argument is a number; f-strings with ``…`` for what they fill in."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            texts = [_text(a) for a in node.args[:2]]
            if NUMBER.fullmatch(texts[0]):
                place = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                yield Raised(texts[0], texts[1] if len(texts) > 1 else "", place)


def mentioned() -> dict[str, str]:
    """Every number anywhere in the sources, docstrings included, with one file that has it."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for number in NUMBER.findall(path.read_text()):
            found[number] = str(path.relative_to(PACKAGE))
    return found


def string_numbers() -> set[str]:
    """Numbers that are a string of their own: given to a constructor, directly or through a variable."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and NUMBER.fullmatch(node.value):
                found.add(node.value)
    return found


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else "…" for v in node.values)
    return ""
