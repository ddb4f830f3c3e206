"""Parts of a catalog that stay as a manifest stores them until they are asked for.

To read a view takes neither its query nor what tables and sinks are declared with, and the modules of these take
longer to import than the view to be read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tidemill.errors import TidemillError

C = TypeVar("C")
Decode = Callable[[Any], object]


@dataclass(frozen=True)
class Encoded:
    """What a manifest has in place of the value of a field."""

    data: Any


class _Field:
    def __init__(self, name: str, decode: Decode) -> None:
        self._name, self._decode = name, decode

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:
            return self
        found = instance.__dict__[self._name]
        if isinstance(found, Encoded):
            try:
                found = self._decode(found.data)
            except (KeyError, TypeError) as error:
                raise of_another_version(error) from error
            instance.__dict__[self._name] = found
        return found

    def __set__(self, instance: object, value: object) -> None:
        instance.__dict__[self._name] = value


def stored(**fields: Decode) -> Callable[[type[C]], type[C]]:
    """Decorate a dataclass some fields of which are also given as :class:`Encoded`: each is decoded when first read.

    Parameters
    ----------
    fields
        Makes the value of a field of the data.
    """

    def decorate(found: type[C]) -> type[C]:
        for name, decode in fields.items():
            setattr(found, name, _Field(name, decode))
        return found

    return decorate


def of_another_version(error: Exception) -> TidemillError:
    """TM1002: a catalog has what this version of Tidemill does not know."""
    return TidemillError(
        "TM1002",
        "this root was written by another version of Tidemill",
        got=f"catalog: {error}",
        hint="open it with the version that wrote it; nothing was changed",
    )
