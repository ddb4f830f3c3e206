"""Which source files the machine code of a kernel depends on.

Numba inlines what a kernel calls and freezes the constants that it names, so its code depends on its own file and on
what that imports, transitively. Imports are found with a pattern instead of a parser: it takes a tenth of the time, and
what it finds too much (an import that stands in a docstring) costs a compilation and no wrong answer.
"""

# Paths are plain text: hundreds of pathlib's would take longer than all the rest.
# ruff: noqa: PTH113, PTH118, PTH120, PTH123
from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_COMMENT = re.compile(r"#[^\n]*")
_IMPORT = re.compile(
    r"\bfrom[ \t]+(?P<module>[\w.]+)[ \t]+import\s*(?P<names>\((?:[^)#]|#[^\n]*)*\)|(?:\\\n|[^\n;])*)"
    r"|\bimport[ \t]+(?P<modules>[\w. \t,]+)"
)
_ABOVE = str(Path(__file__).parents[2])
"""The folder that this package is in."""


def imported(text: str, package: str) -> Iterator[tuple[str, str]]:
    """Every import of a source text, wherever in it: the module, and a name taken from it (or ``""``).

    Parameters
    ----------
    text
        Python source.
    package
        The dotted name of the package that the file is in, for relative imports.
    """
    for found in _IMPORT.finditer(text):
        if found["modules"]:
            for module in found["modules"].split(","):
                yield (module.split() or [""])[0], ""
            continue
        module = found["module"]
        if module.startswith("."):
            name = module.lstrip(".")
            above = package.split(".")[: len(package.split(".")) - (len(module) - len(name) - 1)]
            module = ".".join([*above, *([name] if name else [])])
        for part in _COMMENT.sub("", found["names"]).replace("\\\n", " ").strip("() \t\n").split(","):
            yield module, (part.split() or [""])[0]


@cache
def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


@cache
def _file(root: str, module: str) -> str | None:
    place = os.path.join(root, module.replace(".", os.sep))
    return next((p for p in (f"{place}.py", os.path.join(place, "__init__.py")) if os.path.isfile(p)), None)


@cache
def _needed(path: str, module: str, root: str) -> tuple[tuple[str, str], ...]:
    """What one file imports of its own package, whose folder is in ``root``, and of this one: files, module names."""
    roots = {"tidemill": _ABOVE, module.partition(".")[0]: root}
    package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
    found = {}
    for source, name in imported(_text(path), package):
        if within := roots.get(source.partition(".")[0]):
            for candidate in (f"{source}.{name}", source) if name else (source,):
                if file := _file(within, candidate):
                    found[file] = candidate
                    break
    return tuple(sorted(found.items()))


def _folder(path: str, module: str) -> str:
    """The folder that a module's top-level package is in."""
    for _ in range(module.count(".") + path.endswith("__init__.py") + 1):
        path = os.path.dirname(path)
    return path


def closure(path: str, module: str) -> list[str]:
    """A file and all that it imports, transitively, from its own top-level package and from this one; sorted.

    A package's ``__init__.py`` counts where a name is taken from it, not where a module in it is imported. Files of
    other packages (NumPy, Numba) do not count.
    """
    own = _folder(path, module)
    todo, seen = [(path, module)], {path}
    while todo:
        file, name = todo.pop()
        for further in _needed(file, name, _ABOVE if name.startswith("tidemill.") else own):
            if further[0] not in seen:
                seen.add(further[0])
                todo.append(further)
    return sorted(seen)


@cache
def _digest(path: str) -> bytes:
    return hashlib.sha256(_text(path).encode()).digest()


@cache
def key(path: str, module: str) -> str:
    """Sixteen hexadecimal digits that change with any file of :func:`closure`, wherever the packages are installed."""
    whole, own = hashlib.sha256(), _folder(path, module)
    for name, file in sorted((f.removeprefix(own).removeprefix(_ABOVE), f) for f in closure(path, module)):
        whole.update(name.encode() + b"\0" + _digest(file))
    return whole.hexdigest()[:16]
