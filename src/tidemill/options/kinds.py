"""Kinds of values that options take: flags, numbers, sizes, intervals, choices."""

from __future__ import annotations

import re
from enum import Enum
from fractions import Fraction
from typing import TypeVar

from tidemill.errors import nearest
from tidemill.options.option import Kind, read_value

E = TypeVar("E", bound=Enum)
S = TypeVar("S", bound=str)

_SIZES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MICROSECONDS = {
    "microsecond": 1,
    "us": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 7 * 86_400_000_000,
    "w": 7 * 86_400_000_000,
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)(?=\s|$)")


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def read_size(text: str) -> int:
    """Bytes of a count or size such as ``1000``, ``64k``, ``16m``, ``1g`` or ``1gb``; ValueError for another text."""
    bare = text.strip().lower().removesuffix("b")
    factor = _SIZES.get(bare[-1:], 1)
    digits = bare[:-1] if factor > 1 else bare
    if not _is_number(digits) or int(digits) == 0:
        raise ValueError
    return int(digits) * factor


def read_interval(text: str) -> int:
    """Microseconds of an interval such as ``10 minutes``, ``90s`` or ``1 hour 30 minutes``; ValueError for another."""
    rest = text.strip().lower().removeprefix("interval ")
    total, at = Fraction(0), 0
    while at < len(rest) and (match := _PART.match(rest, at)) is not None:
        unit = _MICROSECONDS.get(match[2], _MICROSECONDS.get(match[2].removesuffix("s")))
        if unit is None:
            break
        total += Fraction(match[1]) * unit
        at = match.end()
    if not rest or rest[at:].strip():
        raise ValueError
    return int(total)


FLAG = Kind("true or false", _flag)
TEXT = Kind("any text", str)
SIZE = Kind("a positive number, with k, m or g for bytes", read_size)
INTERVAL = Kind("an interval such as '10 minutes', '90s' or '1 hour 30 minutes'", read_interval)


def number(least: int, most: int | None = None) -> Kind[int]:
    """Whole numbers from ``least`` on, to ``most`` if that is given."""
    wanted = f"a whole number from {least} to {most}" if most is not None else f"a whole number from {least} on"

    def read(text: str) -> int:
        if not _is_number(text) or int(text) < least or (most is not None and int(text) > most):
            raise ValueError
        return int(text)

    return Kind("a positive integer" if (least, most) == (1, None) else wanted, read)


POSITIVE = number(1)


def size(least: str = "1", most: str = "") -> Kind[int]:
    """Sizes in bytes, between two of them as they are written."""
    bounds = [f"at least {least}"] if least != "1" else []
    bounds += [f"at most {most}"] if most else []

    def read(text: str) -> int:
        found = read_size(text)
        if found < read_size(least) or (most and found > read_size(most)):
            raise ValueError(" and ".join(bounds))
        return found

    return Kind(", ".join(("a positive number, with k, m or g for bytes", *bounds)), read)


def choice(*values: S) -> Kind[S]:
    """One of some words, in any case; the value is spelt as here."""
    words = {value.lower(): value for value in values}

    def read(text: str) -> S:
        if text.lower() not in words:
            raise ValueError(nearest(text, values) if len(values) > 2 else "")
        return words[text.lower()]

    wanted = " or ".join(f"'{value}'" for value in values)
    return Kind(wanted if len(values) == 2 else f"one of {', '.join(values)}", read)


def member(enum: type[E]) -> Kind[E]:
    """One of the values of an enumeration, in any case."""
    words = choice(*(one.value for one in enum))
    return Kind(words.wanted, lambda text: enum(words.read(text)))


def only(*understood: str, instead: str) -> Kind[str]:
    """An option of Spark's or others' of which few values, or none, are supported; ``instead`` is what to do."""
    words = {value.lower(): value for value in understood}

    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"not supported: {instead}")
        return words[text.lower()]

    values = " or ".join(repr(value) for value in understood)
    return Kind(f"{f'only {values}' if values else 'not supported'}: {instead}", read)


def parse_size(name: str, text: str) -> int:
    """A size that is no option of a table, such as that of an argument of a command. TM4003 for a text that is none."""
    return read_value(name, SIZE, text)
