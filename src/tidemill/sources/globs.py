r"""Globs, with one meaning for local files and for objects.

``*`` stands for any characters but ``/``, ``?`` for one of these, ``[a-c]`` for one of some and ``[!a-c]`` (or
``[^a-c]``) for one of all others; ``{a,b}`` for either, also with slashes or globs within; ``**``, alone between
slashes, for any number of directories, and at the end for every file below. ``\`` escapes the next character. Names
are case-sensitive. Other syntax is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tidemill.errors import TidemillError

_MOST_ALTERNATIVES = 1024


_NOT_EMPTY, _NAME = "(?=[^/])", "[^/]*"
_ANY = _NOT_EMPTY + _NAME


@dataclass(frozen=True)
class Part:
    """Which names match at one position of a path.

    Parameters
    ----------
    begins : str
        A prefix of all these names.
    pattern : str or None
        A regular expression of the names; None where ``begins`` is the name.
    deep : bool
        ``**``: any number of names, also none.
    """

    begins: str
    pattern: str | None = None
    deep: bool = False

    @cached_property
    def takes_all(self) -> bool:
        """Whether any name may stand here: ``*`` and ``**``."""
        return self.deep or self.pattern == _ANY

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(re.escape(self.begins) if self.pattern is None else self.pattern, re.DOTALL)

    def matches(self, name: str) -> bool:
        """Whether a name may stand here."""
        return self._compiled.fullmatch(name) is not None


@dataclass(frozen=True)
class Alternative:
    """One way through the braces of a glob: names with slashes between them."""

    parts: tuple[Part, ...]

    @cached_property
    def fixed(self) -> int:
        """How many leading names are without wildcards; the last one never counts, for a listing may hide it."""
        literal = next((i for i, p in enumerate(self.parts) if p.deep or p.pattern is not None), len(self.parts))
        return min(literal, len(self.parts) - 1)

    @cached_property
    def prefix(self) -> str:
        """The longest prefix of all paths."""
        parts = self.parts[: self.fixed]
        return "".join(f"{p.begins}/" for p in parts) + self.parts[self.fixed].begins

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """A regular expression of whole paths."""
        *above, last = self.parts
        text = "".join("(?:[^/]+/)*" if p.deep else f"{_expression(p)}/" for p in above)
        text += "(?:[^/]+/)*[^/]+" if last.deep else _expression(last)
        return re.compile(text, re.DOTALL)

    def matches(self, path: str) -> bool:
        """Whether a path matches, hidden or not."""
        return self.expression.fullmatch(path) is not None

    def hides(self, path: str) -> bool:
        """Whether a path is hidden (:func:`hidden`) by a name that the glob does not spell out."""
        return any(map(hidden, path.split("/")[self.fixed :]))

    def dead_directory(self, path: str) -> str | None:
        """The first directory of a path, with its slash, below which nothing can match; None when there is none."""
        names = path.split("/")[:-1]
        for depth, name in enumerate(names):
            if depth < len(self.parts) and self.parts[depth].deep:
                return None
            fits = depth < len(self.parts) - 1 and self.parts[depth].matches(name)
            if not fits or (depth >= self.fixed and hidden(name)):
                return "/".join(names[: depth + 1]) + "/"
        return None


@dataclass(frozen=True)
class Glob:
    """A parsed glob.

    Parameters
    ----------
    text : str
        As it was written.
    alternatives : tuple of Alternative
    """

    text: str
    alternatives: tuple[Alternative, ...]

    def matches(self, path: str) -> bool:
        """Whether a path matches, hidden or not."""
        return any(a.matches(path) for a in self.alternatives)

    def shows(self, path: str) -> bool:
        """Whether a path matches and is not hidden."""
        return any(a.matches(path) and not a.hides(path) for a in self.alternatives)

    @property
    def literal(self) -> str | None:
        """The path of a glob without wildcards; None for others."""
        if len(self.alternatives) > 1 or any(p.deep or p.pattern is not None for p in self.alternatives[0].parts):
            return None
        return "/".join(p.begins for p in self.alternatives[0].parts)

    def below(self) -> Glob:
        """The same, and every file below a matching directory, at any depth."""
        deep = tuple(Alternative((*a.parts, Part("", deep=True))) for a in self.alternatives if not a.parts[-1].deep)
        return Glob(self.text, (*self.alternatives, *deep))


def hidden(name: str) -> bool:
    """Whether a file or directory is hidden, as in Spark: ``.x``, ``_x`` (but ``_x=1``), ``x._COPYING_``."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def escaped(text: str) -> str:
    """A glob that matches one path only."""
    return re.sub(r"([*?\[{\\])", r"\\\1", text)


@lru_cache(1024)
def parse_glob(text: str) -> Glob:
    """Parse a glob.

    Raises
    ------
    TidemillError
        TM5035 for bad syntax.
    """
    expanded = _expand(text, text)
    return Glob(text, tuple(dict.fromkeys(_alternative(e, text) for e in expanded)))


def _expression(part: Part) -> str:
    return re.escape(part.begins) if part.pattern is None else part.pattern


def _refused(glob: str, why: str) -> TidemillError:
    return TidemillError(
        "TM5035",
        "a glob is not understood",
        got=f"{glob}: {why}",
        hint=r"* ? [a-z] [!a-z] {a,b}, and ** alone between slashes; \ before a character that is meant literally",
    )


def _expand(text: str, glob: str) -> list[str]:
    """All alternatives of a glob with braces; inner braces are expanded by recursion."""
    begin = _find(text, 0, "{", glob)
    if begin < 0:
        return [text]
    choices, at, depth, start = [], begin + 1, 1, begin + 1
    while depth:
        at = _find(text, at, "{},", glob)
        if at < 0:
            raise _refused(glob, "a { without its }")
        if text[at] == "," and depth == 1:
            choices.append(text[start:at])
            start = at + 1
        depth += {"{": 1, "}": -1, ",": 0}[text[at]]
        at += 1
    choices.append(text[start : at - 1])
    heads = [text[:begin] + c for choice in choices for c in _expand(choice, glob)]
    found = [head + tail for tail in _expand(text[at:], glob) for head in heads]
    if len(found) > _MOST_ALTERNATIVES:
        raise _refused(glob, f"more than {_MOST_ALTERNATIVES} alternatives")
    return found


def _find(text: str, at: int, wanted: str, glob: str) -> int:
    """Index of the next of the ``wanted`` characters that is neither escaped nor in brackets; -1 if there is none."""
    while at < len(text):
        if text[at] in wanted:
            return at
        if text[at] == "\\":
            at += 1
        elif text[at] == "[":
            at = _class_end(text, at, glob)
        at += 1
    return -1


def _class_end(text: str, at: int, glob: str) -> int:
    """Index of the bracket that closes the one at ``at``; a closing one that comes first is an ordinary character."""
    end = at + 1 + (text[at + 1 : at + 2] in ("!", "^"))
    end += text[end : end + 1] == "]"
    while end < len(text) and text[end] not in "]/":
        if text[end] == "[" and text[end + 1 : end + 2] in (":", ".", "="):
            raise _refused(glob, f"{text[end : end + 2]} within brackets")
        end += 2 if text[end] == "\\" else 1
    if end >= len(text) or text[end] == "/":
        raise _refused(glob, "a [ without its ]")
    return end


def _alternative(text: str, glob: str) -> Alternative:
    parts: list[Part] = []
    for name in text.split("/"):
        part = Part("", deep=True) if name == "**" else _part(name, glob)
        if not (part.deep and parts and parts[-1].deep):
            parts.append(part)
    return Alternative(tuple(parts))


def _part(name: str, glob: str) -> Part:
    """Parse one name. All stars but the last match as little as possible, without backtracking."""
    begins, pieces, at = "", [""], 0
    plain = True
    while at < len(name):
        sign = name[at]
        if sign == "*":
            if name[at : at + 2] == "**":
                raise _refused(glob, "** beside other characters of a name")
            pieces.append("")
            plain = False
        elif sign == "?":
            pieces[-1] += "[^/]"
            plain = False
        elif sign == "[":
            end = _class_end(name, at, glob)
            pieces[-1] += _class(name[at + 1 : end], glob)
            at, plain = end, False
        else:
            if sign == "\\":
                at += 1
                if at == len(name):
                    raise _refused(glob, "nothing stands behind the last \\")
                sign = name[at]
            pieces[-1] += re.escape(sign)
            begins += sign if plain else ""
        at += 1
    if plain:
        return Part(begins)
    first, *others = pieces
    text = first + "".join(f"(?>[^/]*?{piece})" for piece in others[:-1])
    text += f"{_NAME}{others[-1]}" if others else ""
    return Part(begins, f"{_NOT_EMPTY}{text}")


def _class(text: str, glob: str) -> str:
    """A set of characters as a regular expression; a slash is never one of them."""
    negated = text[:1] in ("!", "^")
    text = text[1:] if negated else text
    signs: list[tuple[str, bool]] = []
    at = 0
    while at < len(text):
        escape = text[at] == "\\"
        at += escape
        signs.append((text[at], escape))
        at += 1
    found, at = "", 0
    while at < len(signs):
        first = last = signs[at][0]
        if at + 2 < len(signs) and signs[at + 1] == ("-", False):
            last = signs[at + 2][0]
            at += 2
        if last < first:
            raise _refused(glob, f"nothing is from {first} to {last}")
        found += re.escape(first) if first == last else f"{re.escape(first)}-{re.escape(last)}"
        at += 1
    return f"(?:(?!/)[{'^' if negated else ''}{found}])"
