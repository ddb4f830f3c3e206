"""Python adaptors of a mill: sources by name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.errors import TidemillError, nearest
from tidemill.formats.adaptor.checking import check_source
from tidemill.formats.adaptor.format import MOST_SOURCE
from tidemill.formats.registry import built_in

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True)
class Adaptor:
    """An adaptor as created.

    Attributes
    ----------
    source : str
        Python with a function ``decode(size, bytes)``.
    """

    name: str
    source: str

    @property
    def version(self) -> str:
        """The SHA-256 of the source, in hexadecimal digits."""
        return version_of(self.source)

    def to_json(self) -> dict[str, Any]:
        """As stored in a manifest."""
        return {"name": self.name, "source": self.source}


def version_of(source: str) -> str:
    """The SHA-256 of a source, in hexadecimal digits."""
    return hashlib.sha256(source.encode()).hexdigest()


def new_adaptor(name: str, source: str) -> tuple[Adaptor, tuple[str, ...]]:
    """An adaptor, whose source is loaded once in a process of its own; with what that process is kept from.

    Raises
    ------
    TidemillError
        TM8341 for a bad name, TM8340 for a source that is too long or cannot be loaded, TM8345 when its process does
        not start.
    """
    if not _NAME.fullmatch(name) or name.lower() in built_in():
        raise TidemillError(
            "TM8341",
            "an adaptor cannot have this name",
            got=name[:80],
            hint=f"letters, digits and _, at most 64, and none of {', '.join(built_in())}",
        )
    if len(source) > MOST_SOURCE:
        raise TidemillError(
            "TM8340",
            "the source of this adaptor cannot be loaded",
            got=f"{len(source):,} characters",
            hint=f"at most {MOST_SOURCE:,}",
        )
    return Adaptor(name.lower(), source), check_source(source)


def known(adaptors: Mapping[str, Adaptor], name: str) -> Adaptor:
    """An adaptor by its name. TM8342 when there is none."""
    found = adaptors.get(name.lower())
    if found is None:
        hint = nearest(name, adaptors) if adaptors else "create it first: POST /v1/adaptors"
        raise TidemillError("TM8342", "there is no adaptor of this name", got=name[:80], hint=hint)
    return found


def adaptor_from_json(data: Mapping[str, Any]) -> Adaptor:
    """What :meth:`Adaptor.to_json` gave."""
    return Adaptor(data["name"], data["source"])
