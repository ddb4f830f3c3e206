"""Which paths a location can match, whether or not there is a file now."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from tidemill.objectstore.connection import is_object_url, split_url
from tidemill.sources.globs import Alternative, Glob, Part, escaped, hidden, parse_glob
from tidemill.sources.locations.location import Location


@dataclass(frozen=True)
class Extent:
    """The paths that a location matches.

    Parameters
    ----------
    location : Location
        A path without wildcards counts as the name of a file and of a directory.
    """

    location: Location

    @cached_property
    def store(self) -> str:
        """The store of objects, such as ``s3://bucket``; empty for local files."""
        return split_url(self.location.pattern)[0] if self.location.objects else ""

    @cached_property
    def _literal(self) -> str | None:
        text = self._text(self.location.pattern)
        if not self.location.objects and Path(text).exists():
            return text
        return parse_glob(text).literal

    @cached_property
    def _globs(self) -> tuple[Glob, ...]:
        if self._literal is None:
            globs: tuple[Glob, ...] = (parse_glob(self._text(self.location.pattern)),)
        else:
            directory = self._literal.rstrip("/")
            globs = (parse_glob(f"{escaped(directory)}/*" if directory else "*"),)
            if not self._literal.endswith("/"):
                globs = (*globs, parse_glob(escaped(self._literal)))
        return tuple(g.below() for g in globs) if self.location.filters.recursive else globs

    def _text(self, path: str) -> str:
        return split_url(path)[1] if self.location.objects else path

    def _elsewhere(self, path: str) -> bool:
        return (split_url(path)[0] if is_object_url(path) else "") != self.store

    def names(self, path: str, modified: int) -> bool:
        """Whether a listing gives a file of this path and modification time (ns), if it is there."""
        if not (self.location.local or self.location.objects) or self._elsewhere(path):
            return False
        if not self.location.filters.wants(path, modified):
            return False
        return any(glob.shows(self._text(path)) for glob in self._globs)

    def names_of(self, path: str, modified: int) -> set[str]:
        """The paths under which a listing gives a file: its own, and those through links before the first wildcard."""
        names = {path} if self.names(path, modified) else set()
        if self.location.local and not self._elsewhere(path):
            directory, _, name = path.rpartition("/")
            if directory not in self._real:
                self._real[directory] = os.path.realpath(directory or "/").rstrip("/")
            real = f"{self._real[directory]}/{name}"
            for given, resolved in self._links.items():
                other = given + real.removeprefix(resolved)
                if real.startswith(f"{resolved}/") and other != path and self.names(other, modified):
                    names.add(other)
        return names

    @cached_property
    def _links(self) -> dict[str, str]:
        """The directories before the first wildcard, and the same with links resolved."""
        found = ("/".join(p.begins for p in a.parts[: a.fixed]) for a in self._alternatives())
        return {given: os.path.realpath(given or "/").rstrip("/") for given in found}

    @cached_property
    def _real(self) -> dict[str, str]:
        return {}

    def below(self, path: str) -> str:
        """The path of a file relative to the directory before the location's first wildcard."""
        text = self._text(path)
        if self._literal is not None:
            directory = self._literal.rstrip("/")
            return text[len(directory) + 1 :] if text.startswith(f"{directory}/") else text.rpartition("/")[2]
        above = [[p.begins for p in a.parts[: a.fixed]] for glob in self._globs for a in glob.alternatives]
        common = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, zip(*above, strict=False)))
        return "/".join(text.split("/")[common:])

    def reaches(self, directory: str) -> bool:
        """Whether a listing may give a file below a directory of the same kind (a path, or a URL of objects)."""
        if self._elsewhere(directory):
            return False
        text = self._text(directory).rstrip("/")
        return any(_reaches(a, text.split("/") if text else []) for a in self._alternatives()) or (
            not self.location.objects
            and any(_reaches(_resolved(a), os.path.realpath(text).split("/")) for a in self._alternatives())
        )

    def _alternatives(self) -> Iterator[Alternative]:
        for glob in self._globs:
            yield from glob.alternatives


def _reaches(alternative: Alternative, names: list[str]) -> bool:
    """Whether something below a directory of these names may match."""
    parts, at = alternative.parts, {0}
    for depth, name in enumerate(names):
        if depth >= alternative.fixed and hidden(name):
            return False
        for number, part in enumerate(parts):
            if number in at and part.deep:
                at.add(number + 1)
        at = {n + (not parts[n].deep) for n in at if n < len(parts) and (parts[n].deep or parts[n].matches(name))}
    return any(number < len(parts) for number in at)


def _resolved(alternative: Alternative) -> Alternative:
    """The same with links before the first wildcard resolved."""
    above = "/".join(p.begins for p in alternative.parts[: alternative.fixed])
    names = os.path.realpath(above or "/").rstrip("/").split("/")
    return Alternative((*(Part(name) for name in names), *alternative.parts[alternative.fixed :]))
