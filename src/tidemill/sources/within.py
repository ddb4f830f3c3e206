"""Where tables may have their files: the setting ``allowed_paths``."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path

from tidemill.connectors.registry import GENERATOR_SCHEME, STREAM_SCHEMES, scheme_of
from tidemill.errors import TidemillError
from tidemill.objectstore.connection import is_object_url, split_url
from tidemill.sources.files import local_pattern
from tidemill.sources.globs import parse_glob

_OWN = (GENERATOR_SCHEME, "ingest")
"""Schemes of rows that come from nowhere else."""


class Within:
    """Directories and URLs below which files may be read, and written into archives.

    Parameters
    ----------
    allowed : str
        Separated by commas; a scheme alone (``tcp+listen://``) stands for all its URLs. Nothing stands for everything.

    Raises
    ------
    TidemillError
        TM5002 and others for paths that are not understood.
    """

    def __init__(self, allowed: str = "") -> None:
        self._given = [part.strip() for part in allowed.split(",") if part.strip()]
        self._directories = [os.path.realpath(local_pattern(p)) for p in self._given if not _is_url(p)]
        self._urls = [p if p.endswith("://") else _plain(p).rstrip("/") for p in self._given if _is_url(p)]

    def check(self, table: str, options: Mapping[str, str]) -> None:
        """Whether all that a table may read lies within; names of options in lower case.

        Raises
        ------
        TidemillError
            TM5045 when some of it does not.
        """
        for name in ("path", "sourcearchivedir"):
            if name in options and not all(map(self._has, _beginnings(options[name]))):
                raise self.outside(f"{options[name]} of table {table}")

    def has_file(self, path: str) -> bool:
        """Whether a file that was listed lies within: a local one through all links on the way to it."""
        return not self._given or _is_url(path) or self._has(path)

    def outside(self, got: str) -> TidemillError:
        """TM5045: something lies elsewhere."""
        return TidemillError(
            "TM5045",
            "this lies outside of what the mill may read",
            got=got,
            hint=f"allowed_paths is {', '.join(self._given)}",
        )

    def _has(self, beginning: str) -> bool:
        if not self._given or scheme_of(beginning) in _OWN:
            return True
        if _is_url(beginning):
            plain = _plain(beginning)
            return any(
                plain.startswith(u) if u.endswith("://") else plain == u or plain.startswith(f"{u}/")
                for u in self._urls
            )
        real = os.path.realpath(beginning)
        return any(real == d or real.startswith(f"{d.rstrip('/')}/") for d in self._directories)


def _is_url(path: str) -> bool:
    return "://" in path and not path.startswith("file:")


def _plain(url: str) -> str:
    """Without ways up, and with one name for each scheme of a store."""
    if is_object_url(url):
        store, key = split_url(url)
        return f"s3{store.removeprefix('s3a')}/{key}" if store.startswith("s3a:") else f"{store}/{key}"
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{posixpath.normpath(rest) if rest else ''}"


def _beginnings(path: str) -> Iterator[str]:
    """What all files begin with that a path may name, whole names only; each place of a stream."""
    if scheme_of(path) in STREAM_SCHEMES:
        yield from (part.strip() for part in path.split(","))
    elif is_object_url(path):
        store, key = split_url(path)
        for alternative in parse_glob(key).alternatives:
            parts = alternative.parts if parse_glob(key).literal is not None else alternative.parts[: alternative.fixed]
            yield "/".join([store, *(p.begins for p in parts)])
    elif _is_url(path):
        yield path
    else:
        pattern = local_pattern(path)
        if Path(pattern).exists():
            yield pattern
            return
        glob = parse_glob(pattern)
        for alternative in glob.alternatives:
            parts = alternative.parts if glob.literal is not None else alternative.parts[: alternative.fixed]
            yield "/".join(p.begins for p in parts) or "/"
