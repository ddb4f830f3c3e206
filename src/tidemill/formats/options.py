"""Reading the options of formats: names count in any case, a bad value is TM4003."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from tidemill.errors import TidemillError, nearest
from tidemill.formats.values.time_pattern import NO_PATTERN, compile_pattern


def bad_option(name: str, value: str, hint: str) -> TidemillError:
    """TM4003."""
    return TidemillError("TM4003", f"bad value of option {name}", got=repr(value), hint=hint)


def flag(given: Mapping[str, str], name: str, default: bool = False) -> bool:
    """``true`` or ``false``, in any case; names of ``given`` are in lower case."""
    text = given.get(name.lower(), str(default))
    if text.lower() not in ("true", "false"):
        raise bad_option(name, text, "true or false")
    return text.lower() == "true"


def positive(given: Mapping[str, str], name: str, default: int) -> int:
    """A positive integer."""
    text = given.get(name.lower(), str(default))
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise bad_option(name, text, "a positive integer")
    return int(text)


def parse_size(name: str, text: str) -> int:
    """A count or a size such as ``1000``, ``64k``, ``16m`` or ``1g``, in bytes.

    Raises
    ------
    TidemillError
        TM4003 when it is not a positive number.
    """
    factors = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    lowered = text.strip().lower().removesuffix("b")
    factor = factors.get(lowered[-1:], 1)
    digits = lowered[:-1] if factor > 1 else lowered
    if not (digits.isascii() and digits.isdigit()) or int(digits) == 0:
        raise TidemillError(
            "TM4003",
            f"bad value for option {name}",
            got=text,
            hint="a positive number, with k, m or g for bytes",
        )
    return int(digits) * factor


def check_options(name: str, given: Iterable[str], known: Collection[str]) -> None:
    """TM4005 for an option that does not exist; names in any case. A known one may end in ``*``: all that begin so."""
    families = tuple(option.removesuffix("*") for option in known if option.endswith("*"))
    for option in given:
        if option.lower() not in known and not option.lower().startswith(families):
            raise TidemillError(
                "TM4005", f"unknown option for a table USING {name}", got=option, hint=nearest(option, known)
            )


def time_pattern(given: Mapping[str, str], name: str) -> npt.NDArray[np.int32]:
    """A compiled ``dateFormat`` or ``timestampFormat``; ``NO_PATTERN`` when it is not given."""
    text = given.get(name.lower())
    if text is None:
        return NO_PATTERN
    try:
        return compile_pattern(text)
    except ValueError as error:
        raise bad_option(
            name, text, f"{error}; supported: yyyy MM dd HH mm ss S..., other characters, 'quoted text'"
        ) from error
