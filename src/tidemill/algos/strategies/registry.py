"""Finds strategies: those that come with Tidemill by name, others as ``file.py:Class``."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from pathlib import Path

from tidemill.algos.strategies.maker import MarketMaker
from tidemill.algos.strategies.momentum import Momentum
from tidemill.algos.strategies.random_trader import RandomTrader
from tidemill.algos.strategies.sobi import Sobi
from tidemill.algos.strategy import Strategy
from tidemill.errors import TidemillError, nearest

STRATEGIES: Mapping[str, type[Strategy]] = {
    "sobi": Sobi,
    "maker": MarketMaker,
    "momentum": Momentum,
    "random": RandomTrader,
}
"""Whatever is entered here can be named."""


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


_KINDS: Mapping[str, Callable[[str], object]] = {"int": int, "float": float, "str": str, "bool": _flag}
"""Types of options."""


def find_strategy(text: str) -> type[Strategy]:
    """A strategy by its name, or as ``file.py:Class``.

    Raises
    ------
    TidemillError
        TM9601 when there is none; TM9602 when its file cannot be executed.
    """
    path, _, name = text.rpartition(":")
    if not path:
        if text not in STRATEGIES:
            hint = f"{nearest(text, STRATEGIES)}; one of your own is file.py:Class"
            raise TidemillError("TM9601", "there is no such strategy", got=text, hint=hint)
        return STRATEGIES[text]
    if not Path(path).is_file():
        raise TidemillError("TM9601", "there is no such strategy", got=text, hint=f"the file {path} does not exist")
    try:
        found = runpy.run_path(path).get(name)
    except (Exception, SystemExit) as error:
        raise TidemillError(
            "TM9602",
            "the file of a strategy cannot be executed",
            got=f"{path}: {type(error).__name__}: {error}",
            hint="python FILE shows where",
        ) from error
    if not (isinstance(found, type) and issubclass(found, Strategy)):
        raise TidemillError(
            "TM9601", "there is no such strategy", got=text, hint=f"{name} is no subclass of tidemill.algos.Strategy"
        )
    return found


def make_strategy(text: str, options: Mapping[str, str]) -> Strategy:
    """A strategy with options. TM9603 for options that it does not have; as :func:`find_strategy`."""
    cls = find_strategy(text)
    declared = getattr(cls, "__dataclass_fields__", {}).values()
    types = {f.name: str(getattr(f.type, "__name__", f.type)) for f in declared if f.init}
    fields = {name: text for name, text in types.items() if text in _KINDS}
    given: dict[str, object] = {}
    for name, value in options.items():
        if name not in fields:
            raise _bad_option(f"{name}={value}", f"{text} has {', '.join(fields) or 'none'}")
        try:
            given[name] = _KINDS[fields[name]](value)
        except ValueError as error:
            raise TidemillError(
                "TM9603",
                "an option of a strategy cannot have this value",
                got=f"{name}={value}",
                hint=f"{name} of {text} is of type {fields[name]}",
            ) from error
    try:
        return cls(**given)
    except TypeError as error:
        raise _bad_option(str(error), "all options of a strategy have defaults") from error


def _bad_option(got: str, hint: str) -> TidemillError:
    return TidemillError("TM9603", "the strategy has no such option", got=got, hint=hint)
