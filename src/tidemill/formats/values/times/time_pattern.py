"""Compile Spark's datetime patterns, as Spark reads them when it parses, into a table for the kernels.

A pattern is what ``java.time.format.DateTimeFormatterBuilder`` makes of it, strict and without regard to case, with the
changes that Spark makes first (``DateTimeFormatterHelper``): ``y`` is a year that may be negative unless there is an
era, fractions of a second have 1 to that many digits, and letters that may be read in two ways are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

LITERAL = 0
YEAR = 1
MONTH = 2
DAY = 3
HOUR = 4
MINUTE = 5
SECOND = 6
FRACTION = 7
"""Steps of a plain pattern, see :class:`TimePattern`; the first seven but one are fields of the others, too."""
YEAR_OF_ERA = 8
ERA = 9
DAY_OF_YEAR = 10
CLOCK_HOUR = 11
HALF_DAY_HOUR = 12
HALF_DAY_CLOCK_HOUR = 13
HALF_DAY = 14
OFFSET = 15
ZONE = 16
ZONE_OFFSET = 17
FIELDS = 18
"""Fields of a text; those of a fraction are nanoseconds, ``ZONE`` is a number of :mod:`~.time_zones`."""

NUMBER = 20
DIGITS = 21
WORD = 22
SHIFT = 23
GMT_SHIFT = 24
ZONE_NAME = 25
OPEN = 26
CLOSE = 27
"""Steps of other patterns, beside ``LITERAL``: a number, digits of a fraction, one of some words, an offset such as
``+01:00``, one such as ``GMT+1``, the name of a zone, and where an optional section begins and ends."""

UNSIGNED = 0
SIGNED = 1
PLUS_WHEN_LONGER = 2
OF_CENTURY = 3
"""Kinds of numbers; of a year beyond its width Java wants a plus, and two digits alone mean 2000 to 2099."""

_MOST_DIGITS = 19
_MOST_SHIFT = 5
_LONGEST_WORD = 13

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_WORDS: dict[tuple[int, int], tuple[str, ...]] = {
    (MONTH, 3): tuple(name[:3] for name in _MONTHS),
    (MONTH, 4): _MONTHS,
    (HALF_DAY, 1): ("AM", "PM"),
    (ERA, 3): ("BC", "AD"),
    (ERA, 4): ("Before Christ", "Anno Domini"),
}
_NUMBERS = {
    "d": DAY,
    "H": HOUR,
    "k": CLOCK_HOUR,
    "K": HALF_DAY_HOUR,
    "h": HALF_DAY_CLOCK_HOUR,
    "m": MINUTE,
    "s": SECOND,
}
_REFUSED = dict.fromkeys("YWwuec", "a letter of week-based patterns, which Spark refuses")
_REFUSED |= dict.fromkeys("ABnNp", "a letter that Spark refuses")
_REFUSED |= dict.fromkeys("EFqQ", "a letter that Spark refuses when it reads texts")
_NARROW = ("GGGGG", "MMMMM", "LLLLL", "y" * 7)


@dataclass(frozen=True, eq=False)
class TimePattern:
    """A compiled pattern.

    Attributes
    ----------
    steps : ndarray of int64, shape (steps, 6)
        Kind, field and up to four arguments of each step; none for the default layout of the type.
    words : ndarray of uint8, shape (words, 15)
        The length, the value and the letters of each word of a step.
    plain : bool
        Every step has a fixed width, but for a fraction: ``LITERAL`` (byte, and 32 for a letter, whose case does not
        count), a field, or ``FRACTION`` (most digits), each field once.
    zones : str
        ``ids`` when zones have names such as ``Europe/Berlin``, ``short`` when also names such as ``CET``; else empty.
    """

    steps: npt.NDArray[np.int64]
    words: npt.NDArray[np.uint8]
    plain: bool = True
    zones: str = ""


NO_PATTERN = TimePattern(np.zeros((0, 6), np.int64), np.zeros((0, 2 + _LONGEST_WORD), np.uint8))
"""Stands for the default layout of the type."""


def compile_pattern(pattern: str) -> TimePattern:
    """The steps of a pattern.

    Raises
    ------
    ValueError
        For a pattern that Spark refuses, and for an empty one; also for what only Spark reads: ``v``, ``zzzz``,
        ``g``, and ``z`` beside ``VV``. The text says what is wrong.
    """
    if not pattern:
        raise ValueError("the pattern is empty")
    for marker, what in (("\n", "a line break"), ("\0", "a zero byte")):
        if marker in pattern:
            raise ValueError(f"{what} in a pattern is not supported")
    builder = _Builder(_has_era(pattern))
    _check_letters(pattern)
    if "S" in pattern:
        _append_with_fractions(builder, pattern)
    else:
        builder.append(pattern)
    return builder.finish()


def _outside_quotes(pattern: str) -> list[str]:
    return pattern.split("'")[::2]


def _has_era(pattern: str) -> bool:
    return any("G" in part for part in _outside_quotes(pattern))


def _check_letters(pattern: str) -> None:
    for part in _outside_quotes(pattern):
        for letter in part:
            if letter in _REFUSED:
                raise ValueError(f"{letter!r} is {_REFUSED[letter]}")
        for narrow in _NARROW:
            if narrow in part:
                raise ValueError(f"{narrow!r} is refused by Spark")


def _append_with_fractions(builder: _Builder, pattern: str) -> None:
    """What Spark makes of a pattern with an ``S`` anywhere: its own treatment of quotes."""
    parts = pattern.split("'")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    for number, part in enumerate(parts):
        if number % 2:
            builder.literal(part or "'")
        elif number and not part:
            builder.literal("'")
        else:
            for piece in re.findall("S+|[^S]+", part):
                if piece[0] == "S":
                    builder.fraction(len(piece))
                else:
                    builder.append(piece)


_PLAIN_NUMBERS = (MONTH, DAY, HOUR, MINUTE, SECOND)


def _plain_step(kind: int, field: int, *arguments: int) -> tuple[int, ...] | None:
    """The step of a plain pattern that does the same as one of any pattern; None where there is none."""
    if kind == LITERAL:
        return (kind, field, *arguments)
    if kind == DIGITS:
        return (FRACTION, arguments[1], 0, 0, 0, 0)
    least, most, _, style = arguments
    year = field == YEAR and (least, style) == (4, PLUS_WHEN_LONGER)
    number = field in _PLAIN_NUMBERS and (least, most, style) == (2, 2, UNSIGNED)
    return (field, 0, 0, 0, 0, 0) if kind == NUMBER and (year or number) else None


def _can_be_plain(steps: list[Any]) -> bool:
    """Whether digits cannot be taken for those of another step: a year of four digits takes what follows it."""
    fields = [kind for kind, *_ in steps if kind != LITERAL]
    if len(set(fields)) < len(fields) or not fields:
        return False
    within_year = False
    for kind, byte, *_ in steps:
        digits = kind == FRACTION or (kind == LITERAL and 48 <= byte <= 57)
        if within_year and digits:
            return False
        within_year = kind == YEAR or (within_year and kind != LITERAL)
    return True


class _Builder:
    """Java's ``DateTimeFormatterBuilder``, as far as patterns go."""

    def __init__(self, era: bool) -> None:
        self._year = YEAR_OF_ERA if era else YEAR
        self._steps: list[list[int]] = []
        self._words: list[bytes] = []
        self._number: int | None = None
        """The step that digits behind it, of a fixed number, are taken from."""
        self._open: list[int] = []
        self._zones = ""

    def finish(self) -> TimePattern:
        while self._open:
            self._close()
        plain = [_plain_step(*step) for step in self._steps]
        if None not in plain and _can_be_plain(plain):
            return TimePattern(np.array(plain, np.int64), NO_PATTERN.words)
        return TimePattern(
            np.array(self._steps, np.int64).reshape(-1, 6),
            np.frombuffer(b"".join(self._words), np.uint8).reshape(-1, 2 + _LONGEST_WORD),
            plain=False,
            zones=self._zones,
        )

    def append(self, pattern: str) -> None:
        """Part of a pattern, with quotes but without fractions."""
        position = 0
        while position < len(pattern):
            character = pattern[position]
            if character.isascii() and character.isalpha():
                count = len(pattern) - position - len(pattern[position:].lstrip(character))
                self._letter(character, count)
                position += count
            elif character == "'":
                quoted = re.compile(r"'((?:[^']|'')*)'").match(pattern, position)
                if quoted is None:
                    raise ValueError("a quote is not closed")
                self.literal(quoted[1].replace("''", "'") or "'")
                position = quoted.end()
            else:
                position += 1
                if character == "[":
                    self._begin()
                elif character == "]":
                    if not self._open:
                        raise ValueError("']' without '[' before it")
                    self._close()
                elif character in "{}#":
                    raise ValueError(f"{character!r} is reserved, put it into quotes")
                else:
                    self.literal(character)

    def _add(self, kind: int, field: int = 0, *arguments: int) -> int:
        self._steps.append([kind, field, *arguments, *(0,) * (4 - len(arguments))])
        self._number = None
        return len(self._steps) - 1

    def literal(self, text: str) -> None:
        """Characters that stand for themselves; the case of ASCII letters does not count."""
        for byte in text.encode():
            fold = 32 if chr(byte).isalpha() and byte < 128 else 0
            self._add(LITERAL, byte | fold, fold)

    def fraction(self, digits: int) -> None:
        """Digits of a second."""
        if digits > 9:
            raise ValueError(f"{'S' * digits!r}: a second has at most 9 digits behind the point")
        if digits == 1:
            self._append_number([DIGITS, FRACTION, 1, 1, 0, UNSIGNED])
        else:
            self._add(DIGITS, FRACTION, 1, digits)

    def _append_number(self, step: list[int]) -> None:
        """A number, of which one of fixed width may take digits from the one that it stands behind."""
        fixed = step[2] == step[3] and step[5] in (UNSIGNED, OF_CENTURY)
        base = self._number
        own = len(self._steps)
        self._steps.append(step)
        if base is None or not fixed:
            if base is not None:
                self._steps[base][4] = 0
            self._number = own
        else:
            self._steps[base][4] += step[3]

    def _letter(self, letter: str, count: int) -> None:
        if letter == "y":
            self._append_number(self._year_step(count))
        elif letter in "ML" and count <= 2:
            self._two_digits(MONTH, count)
        elif letter in "ML" and count <= 4:
            self._word(MONTH, count)
        elif letter in _NUMBERS and count <= 2:
            self._two_digits(_NUMBERS[letter], count)
        elif letter == "D" and count <= 3:
            widths = (1, _MOST_DIGITS, 0, SIGNED) if count == 1 else (count, 3, 0, UNSIGNED)
            self._append_number([NUMBER, DAY_OF_YEAR, *widths])
        elif letter == "a" and count == 1:
            self._word(HALF_DAY, 1)
        elif letter == "G" and count <= 4:
            self._word(ERA, max(count, 3))
        else:
            self._zone(letter, count)

    def _year_step(self, count: int) -> list[int]:
        if count == 2:
            return [NUMBER, self._year, 2, 2, 0, OF_CENTURY]
        style = SIGNED if count < 4 else PLUS_WHEN_LONGER
        return [NUMBER, self._year, count, _MOST_DIGITS, 0, style]

    def _two_digits(self, field: int, count: int) -> None:
        widths = (1, _MOST_DIGITS, 0, SIGNED) if count == 1 else (2, 2, 0, UNSIGNED)
        self._append_number([NUMBER, field, *widths])

    def _word(self, field: int, count: int) -> None:
        """One of some words; longer ones first, as one may begin another."""
        words = _WORDS[field, count]
        first = len(self._words)
        numbered = enumerate(words, 1 if field == MONTH else 0)
        for value, word in sorted(numbered, key=lambda pair: -len(pair[1])):
            self._spell(word, value)
        self._add(WORD, field, first, len(words))

    def _spell(self, word: str, value: int) -> None:
        self._words.append(bytes([len(word), value]) + word.encode().ljust(_LONGEST_WORD))

    def _zone(self, letter: str, count: int) -> None:
        text = letter * count
        if letter in "Xx" and count <= _MOST_SHIFT:
            none = "Z" if letter == "X" else "+00" if count == 1 else "+0000" if count % 2 == 0 else "+00:00"
            self._shift(none, count)
        elif letter == "Z" and count <= _MOST_SHIFT:
            if count == 4:
                self._add(GMT_SHIFT, OFFSET, 1)
            else:
                self._shift("Z" if count == _MOST_SHIFT else "+0000", _MOST_SHIFT if count == _MOST_SHIFT else 2)
        elif text in ("O", "OOOO"):
            self._add(GMT_SHIFT, OFFSET, int(count == 4))
        elif text == "VV" or text in ("z", "zz", "zzz"):
            kind = "ids" if text == "VV" else "short"
            if self._zones not in ("", kind):
                raise ValueError("z and VV in one pattern are not supported")
            self._zones = kind
            self._add(ZONE_NAME, ZONE, int(letter == "z"))
        elif text == "zzzz":
            raise ValueError("'zzzz', the full names of zones, is not supported; z and VV are")
        elif text in ("v", "vvvv") or letter == "g":
            raise ValueError(f"{text!r} is not supported")
        else:
            raise ValueError(f"{text!r} is no part of a pattern")

    def _shift(self, none: str, count: int) -> None:
        """An offset: the text of zero, whether there are colons, whether minutes must, and seconds may be there."""
        first = len(self._words)
        self._spell(none, 0)
        self._add(SHIFT, OFFSET, first, int(count in (3, 5)), int(count > 1), int(count > 3))

    def _begin(self) -> None:
        self._open.append(self._add(OPEN))

    def _close(self) -> None:
        begun = self._open.pop()
        self._steps[begun][2] = self._add(CLOSE) + 1
