"""Settings as the command line gives them: ``--master``, ``--epoch-bytes`` and ``--set NAME=VALUE``."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from typing import Any, get_type_hints

from tidemill.config import Settings, bounds, choices
from tidemill.errors import TidemillError
from tidemill.options.kinds import parse_size

_SPARK = "spark_conf"
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
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
    return _mill_settings(master, epoch_bytes, [parse_setting(assignment) for assignment in given])


def settings_of_both(
    master: str | None, epoch_bytes: str | None, given: Iterable[str], server: type[Any]
) -> tuple[Settings, dict[str, Any]]:
    """As :func:`settings`, with assignments to settings of a server among them: these as a dictionary.

    ``server`` is the dataclass that declares them.
    """
    found = [parse_setting(assignment, (Settings, server)) for assignment in given]
    names = get_type_hints(server)
    mine = {name: value for name, value in found if name in names}
    return _mill_settings(master, epoch_bytes, [(n, v) for n, v in found if n not in names]), mine


def _mill_settings(master: str | None, epoch_bytes: str | None, given: Iterable[tuple[str, object]]) -> Settings:
    found: dict[str, object] = {}
    if master is not None:
        found["master"] = master
    if epoch_bytes is not None:
        found["epoch_bytes"] = parse_size("--epoch-bytes", epoch_bytes)
    spark: dict[str, str] = {}
    for name, value in given:
        if name.startswith(f"{_SPARK}."):
            spark[name.removeprefix(f"{_SPARK}.")] = str(value)
        else:
            found[name] = value
    size = found.get("epoch_bytes")
    if isinstance(size, int):
        found.setdefault("split_bytes", max(_LEAST_SPLIT, min(Settings().split_bytes, size // 4)))
    return Settings(**found, spark_conf=spark)  # type: ignore[arg-type]


def parse_setting(assignment: str, declared: tuple[type[Any], ...] = (Settings,)) -> tuple[str, object]:
    """The name and value in ``NAME=VALUE``; Spark's own settings are ``spark_conf.KEY=VALUE``.

    ``declared`` are dataclasses whose fields are the settings.

    Raises
    ------
    TidemillError
        TM7005 when there is no such setting, TM7006 when it cannot have this value.
    """
    name, equals, text = assignment.partition("=")
    name, text = name.strip().replace("-", "_") if not name.startswith(_SPARK) else name.strip(), text.strip()
    if not equals:
        raise TidemillError("TM7006", "a setting is given as NAME=VALUE", got=assignment, hint=_hint(name, declared))
    if name.startswith(f"{_SPARK}.") and name != f"{_SPARK}.":
        return name, text
    where = next((d for d in declared if name in get_type_hints(d)), None)
    if where is None or name == _SPARK:
        raise TidemillError("TM7005", "there is no setting of this name", got=name, hint=_hint(name, declared))
    value, wanted = _value(where, name, text)
    if value is None:
        raise TidemillError("TM7006", "a setting cannot have this value", got=f"{name}={text}", hint=wanted)
    return name, value


def _value(declared: type[Any], name: str, text: str) -> tuple[object | None, str]:
    """The value that a text stands for, None for one that is none, and what would be one."""
    kind = get_type_hints(declared)[name]
    if kind is str:
        allowed = choices(declared, name)
        return text if not allowed or text in allowed else None, " or ".join(allowed) or "a text"
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower()), "true or false"
    if kind == tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip()), "texts, separated by commas"
    least, most = bounds(declared, name)
    if kind is float:
        most = _MOST_SECONDS if most is None else most
        return _between(_seconds(text), least, most), f"a number of seconds, from {least:g} to {most:g}"
    is_size = name.endswith("_bytes")
    what = "a number of bytes, optionally with k, m or g (4m)" if is_size else "a whole number"
    limits = f"{what}, {least} or more" if most is None else f"{what}, from {least} to {most}"
    return _between(_whole(text, is_size), least, most), limits


def _between(value: float | None, least: float, most: float | None) -> float | None:
    return value if value is not None and least <= value and (most is None or value <= most) else None


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _whole(text: str, is_size: bool) -> int | None:
    match = re.fullmatch(r"([0-9]+)([kmg]?)b?" if is_size else r"([0-9]+)()", text.lower())
    return None if match is None else int(match[1]) * _FACTORS[match[2]]


def _hint(name: str, declared: tuple[type[Any], ...]) -> str:
    """The names that are near to one, or all of them."""
    names = [f"{_SPARK}.KEY" if n == _SPARK else n for d in declared for n in get_type_hints(d)]
    if name in names:
        return f"--set {name}=..."
    close = difflib.get_close_matches(name.lower(), names, n=3)
    return f"did you mean {' or '.join(close)}?" if close else f"valid names: {', '.join(names)}"
