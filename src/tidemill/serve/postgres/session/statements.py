"""Texts of clients as statements: what kind each is, by its first words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from tidemill.errors import TidemillError
from tidemill.plan.sql.statements import split_script
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
    **dict.fromkeys(("UNLISTEN", "CHECKPOINT"), Kind.IGNORED),
    **dict.fromkeys(("CREATE", "ALTER", "DROP", "DESCRIBE", "DESC"), Kind.MILL),
}
_WRITING = (
    *("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "COPY", "GRANT", "REVOKE", "VACUUM", "ANALYZE", "REINDEX"),
    *("CLUSTER", "REFRESH", "COMMENT", "IMPORT", "SECURITY", "LOCK", "CALL", "DO", "REASSIGN"),
)
_OTHERS = ("PREPARE", "EXECUTE", "LISTEN", "NOTIFY", "LOAD", "MOVE")
_MILLS_SHOW = ("VIEWS", "TABLES", "QUEUES", "SINKS", "READERS", "FUNCTIONS", "CREATE", "COLUMNS")

_TOKEN = re.compile(
    r"""
     (?P<space>\s+|--[^\n]*)
    |(?P<comment>/\*)
    |(?P<string>[eE]'(?:[^'\\]|\\.|'')*'|[bBxX]?'(?:[^']|'')*'|\$(?P<tag>[A-Za-z_]\w*|)\$.*?\$(?P=tag)\$)
    |(?P<name>"(?:[^"]|"")*")
    |(?P<end>;)
    |(?P<open>['"])
    |(?P<word>[\w$]+(?:\.\w+)*)
    |(?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
"""PostgreSQL's lexical structure, as far as it tells where a statement ends."""
_FIRST_WORD = re.compile(r"(?<![^\s;])[A-Za-z]+")


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
    first = _FIRST_WORD.search(text)
    if first is not None and _KINDS.get(first[0].upper()) is Kind.MILL:
        return [Statement(Kind.MILL, source.text) for source in split_script(text)]  # texts as in Spark SQL
    found = [_statement(part, text) for part in _parts(text)]
    return found or [Statement(Kind.EMPTY, "")]


def _parts(text: str) -> Iterator[list[re.Match[str]]]:
    """The tokens of each statement, without comments."""
    part: list[re.Match[str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup == "open":
            raise _not_closed(text, at)
        at = _end_of_comment(text, at) if match.lastgroup == "comment" else match.end()
        if match.lastgroup == "end":
            if part:
                yield part
            part = []
        elif match.lastgroup not in ("space", "comment"):
            part.append(match)
    if part:
        yield part


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


def _statement(tokens: Sequence[re.Match[str]], text: str) -> Statement:
    start = tokens[0].start()
    own = text[start : tokens[-1].end()]
    written = tuple(map(_unquoted, tokens))
    quoted = ("string", "name")
    words = tuple(w if t.lastgroup in quoted else w.upper() for w, t in zip(written, tokens, strict=True))
    return Statement(_kind(own, words), own, words, written, tuple(t.start() - start for t in tokens))


def _unquoted(token: re.Match[str]) -> str:
    text = token[0]
    if token.lastgroup == "string":
        return text[1:-1].replace("''", "'") if text.startswith("'") else text
    if token.lastgroup == "name":
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
