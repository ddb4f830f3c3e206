"""Texts of clients as statements: what kind each is, by its first words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from tidemill.errors import TidemillError
from tidemill.plan.sql.statements import SHOWN, split_script, words
from tidemill.serve.postgres.protocol.errors import not_supported
from tidemill.serve.postgres.query.parsing import writes


class Kind(Enum):
    """What is done with a statement."""

    EMPTY = auto()
    QUERY = auto()
    EXPLAIN = auto()
    BEGIN = auto()
    COMMIT = auto()
    ROLLBACK = auto()
    SAVEPOINT = auto()
    SET = auto()
    RESET = auto()
    SHOW = auto()
    DISCARD = auto()
    DEALLOCATE = auto()
    DECLARE = auto()
    FETCH = auto()
    CLOSE = auto()
    IGNORED = auto()
    COPY = auto()
    MILL = auto()


_KINDS = {
    **dict.fromkeys(("SELECT", "WITH", "VALUES", "TABLE", "("), Kind.QUERY),
    "EXPLAIN": Kind.EXPLAIN,
    **dict.fromkeys(("BEGIN", "START"), Kind.BEGIN),
    **dict.fromkeys(("COMMIT", "END"), Kind.COMMIT),
    **dict.fromkeys(("ROLLBACK", "ABORT"), Kind.ROLLBACK),
    **dict.fromkeys(("SAVEPOINT", "RELEASE"), Kind.SAVEPOINT),
    "SET": Kind.SET,
    "RESET": Kind.RESET,
    "SHOW": Kind.SHOW,
    "DISCARD": Kind.DISCARD,
    "DEALLOCATE": Kind.DEALLOCATE,
    "DECLARE": Kind.DECLARE,
    "FETCH": Kind.FETCH,
    "CLOSE": Kind.CLOSE,
    "COPY": Kind.COPY,
    **dict.fromkeys(("UNLISTEN", "CHECKPOINT"), Kind.IGNORED),
    **dict.fromkeys(("CREATE", "ALTER", "DROP", "DESCRIBE", "DESC"), Kind.MILL),
}
_WRITING = (
    *("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "GRANT", "REVOKE", "VACUUM", "ANALYZE", "REINDEX"),
    *("CLUSTER", "REFRESH", "COMMENT", "IMPORT", "SECURITY", "LOCK", "CALL", "DO", "REASSIGN"),
)
_OTHERS = ("PREPARE", "EXECUTE", "LISTEN", "NOTIFY", "LOAD", "MOVE")
_MILLS_SHOW = (*SHOWN, "READERS", "FUNCTIONS", "CREATE", "COLUMNS")

_TOKEN = re.compile(
    r"""
     (?P<space>\s+|--[^\n]*)
    |(?P<comment>/\*)
    |(?P<string>[eE]'(?:[^'\\]|\\.|'')*'|[bBxX]?'(?:[^']|'')*')
    |(?P<tag>\$(?:[A-Za-z_]\w*)?\$)
    |(?P<name>"(?:[^"]|"")*")
    |(?P<end>;)
    |(?P<open>['"])
    |(?P<word>[\w$]+(?:\.\w+)*)
    |(?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
"""PostgreSQL's lexical structure, as far as it tells where a statement ends. A ``tag`` begins a text up to the next."""


class _Token(NamedTuple):
    """A token of a text: the group of :data:`_TOKEN`, its characters, and where it begins and ends."""

    kind: str | None
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Statement:
    """One statement.

    Attributes
    ----------
    words : tuple of str
        Its tokens: words in upper case; texts, and names in quotes, as they are without their quotes.
    written : tuple of str
        The same, with words as they are written.
    starts : tuple of int
        Where each token begins in the text.
    """

    kind: Kind
    text: str
    words: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()

    def from_word(self, number: int) -> str:
        """The text from a token on; empty when there are fewer."""
        return self.text[self.starts[number] :] if number < len(self.starts) else ""


def statements_of(text: str) -> list[Statement]:
    """The statements of a text, which ``;`` divides; one empty one for a text without any.

    Raises
    ------
    TidemillError
        TM8123 when it cannot be divided, TM8110 and TM8111 for statements that are not for this protocol.
    """
    if _is_mills(text):  # texts as in Spark SQL
        sources = [source.text for source in split_script(text)]
    else:
        sources = [text]
    found = [s for source in sources for s in _divided(source)]
    return found or [Statement(Kind.EMPTY, "")]


def _is_mills(text: str) -> bool:
    first = words(text, 1)
    return bool(first) and _KINDS.get(first[0][0]) is Kind.MILL


def _divided(text: str) -> list[Statement]:
    if _is_mills(text):
        return [Statement(Kind.MILL, text)]
    return [_statement(part, text) for part in _parts(text)]


def _parts(text: str) -> Iterator[list[_Token]]:
    """The tokens of each statement, without comments."""
    part: list[_Token] = []
    at = 0
    while at < len(text):
        token = _token(text, at)
        at = token.end
        if token.kind == "end":
            if part:
                yield part
            part = []
        elif token.kind not in ("space", "comment"):
            part.append(token)
    if part:
        yield part


def _token(text: str, at: int) -> _Token:
    """The token that begins at a place. TM8123 for a text or comment without an end."""
    match = _TOKEN.match(text, at)
    if match is None or match.lastgroup == "open":
        raise _not_closed(text, at)
    kind, end = match.lastgroup, match.end()
    if kind == "comment":
        end = _end_of_comment(text, at)
    elif kind == "tag":
        close = text.find(match[0], end)
        if close < 0:
            raise _not_closed(text, at)
        kind, end = "string", close + len(match[0])
    return _Token(kind, text[at:end], at, end)


def _end_of_comment(text: str, at: int) -> int:
    """Where a comment ends that may have others in it."""
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    raise _not_closed(text, at)


def _not_closed(text: str, at: int) -> TidemillError:
    line = text.count("\n", 0, at) + 1
    return TidemillError(
        "TM8123",
        "the SQL of the query cannot be parsed",
        got=f"line {line}: what begins with {text[at : at + 20]!r} has no end",
        hint="the dialect of queries is PostgreSQL's",
    )


def _statement(tokens: Sequence[_Token], text: str) -> Statement:
    start = tokens[0].start
    own = text[start : tokens[-1].end]
    written = tuple(map(_unquoted, tokens))
    quoted = ("string", "name")
    words_ = tuple(w if t.kind in quoted else w.upper() for w, t in zip(written, tokens, strict=True))
    return Statement(_kind(own, words_), own, words_, written, tuple(t.start - start for t in tokens))


def _unquoted(token: _Token) -> str:
    text = token.text
    if token.kind == "string":
        return text[1:-1].replace("''", "'") if text.startswith("'") else text
    if token.kind == "name":
        return text[1:-1].replace('""', '"')
    return text


def _kind(text: str, words: Sequence[str]) -> Kind:
    first = words[0]
    if first == "SHOW" and len(words) > 1 and words[1] in _MILLS_SHOW:
        return Kind.MILL
    if first == "EXPLAIN" and len(words) > 1 and words[1] == "INCREMENTAL":
        return Kind.MILL
    if first in _KINDS:
        return _KINDS[first]
    if first in _WRITING:
        raise writes(text)
    if first in _OTHERS:
        raise not_supported(text.splitlines()[0][:80], "drivers prepare statements in the protocol itself")
    line = text.splitlines()[0][:80]
    raise TidemillError(
        "TM8123",
        "the SQL of the query cannot be parsed",
        got=line,
        hint="a statement begins with SELECT, SHOW, SET, BEGIN or CREATE",
    )
