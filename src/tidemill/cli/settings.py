"""Settings as the command line gives them: ``--master``, ``--epoch-bytes`` and ``--set NAME=VALUE``."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from typing import get_type_hints

from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.options.kinds import parse_size

_TYPES = get_type_hints(Settings)
_SPARK = "spark_conf"
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_POSITIVE = ("epoch_bytes", "split_bytes", "checkpoint_bytes", "compact_after", "compact_bytes")
_MOST_SECONDS = 1e9
_LEAST_SPLIT = 64 << 10


def settings(master: str | None = None, epoch_bytes: str | None = None, given: Iterable[str] = ()) -> Settings:
    """Settings from options. ``given`` are assignments: the last one of a name counts, before other options.

    Splits have at most a quarter of an epoch's bytes, unless ``split_bytes`` is given.

    Raises
    ------
    TidemillError
        TM4003 for ``--epoch-bytes``, TM7005 and TM7006 for assignments.
    """
    found: dict[str, object] = {}
    if master is not None:
        found["master"] = master
    if epoch_bytes is not None:
        found["epoch_bytes"] = parse_size("--epoch-bytes", epoch_bytes)
    spark: dict[str, str] = {}
    for assignment in given:
        name, value = parse_setting(assignment)
        if name.startswith(f"{_SPARK}."):
            spark[name.removeprefix(f"{_SPARK}.")] = str(value)
        else:
            found[name] = value
    size = found.get("epoch_bytes")
    if isinstance(size, int):
        found.setdefault("split_bytes", max(_LEAST_SPLIT, min(Settings().split_bytes, size // 4)))
    return Settings(**found, spark_conf=spark)  # type: ignore[arg-type]


def parse_setting(assignment: str) -> tuple[str, int | float | str]:
    """The name and value in ``NAME=VALUE``; Spark's own settings are ``spark_conf.KEY=VALUE``.

    Raises
    ------
    TidemillError
        TM7005 when there is no such setting, TM7006 when it cannot have this value.
    """
    name, equals, text = assignment.partition("=")
    name, text = name.strip().replace("-", "_") if not name.startswith(_SPARK) else name.strip(), text.strip()
    if not equals:
        raise TidemillError("TM7006", "a setting is given as NAME=VALUE", got=assignment, hint=_hint(name))
    if name.startswith(f"{_SPARK}.") and name != f"{_SPARK}.":
        return name, text
    if name not in _TYPES or name == _SPARK:
        raise TidemillError("TM7005", "there is no setting of this name", got=name, hint=_hint(name))
    if _TYPES[name] is str:
        return name, text
    value = _seconds(text) if _TYPES[name] is float else _whole(text, name.endswith("_bytes"))
    if value is None or (value == 0 and name in _POSITIVE):
        raise TidemillError("TM7006", "a setting cannot have this value", got=f"{name}={text}", hint=_wanted(name))
    return name, value


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value <= _MOST_SECONDS else None


def _whole(text: str, is_size: bool) -> int | None:
    match = re.fullmatch(r"([0-9]+)([kmg]?)b?" if is_size else r"([0-9]+)()", text.lower())
    return None if match is None else int(match[1]) * _FACTORS[match[2]]


def _wanted(name: str) -> str:
    if _TYPES[name] is float:
        return f"a number of seconds, from 0 to {_MOST_SECONDS:g}"
    least = "1" if name in _POSITIVE else "0"
    kind = "a number of bytes, optionally with k, m or g (4m)" if name.endswith("_bytes") else "a whole number"
    return f"{kind}, {least} or more"


def _hint(name: str) -> str:
    """The names that are near to one, or all of them."""
    names = [*(n for n in _TYPES if n != _SPARK), f"{_SPARK}.KEY"]
    if name in names:
        return f"--set {name}=..."
    close = difflib.get_close_matches(name.lower(), names, n=3)
    return f"did you mean {' or '.join(close)}?" if close else f"valid names: {', '.join(names)}"
