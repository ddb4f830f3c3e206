"""Who may do what: tokens with roles."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from tidemill.errors import TidemillError


class Role(IntEnum):
    """What a caller may do; each role may do what those below it may."""

    NOBODY = 0
    READ = 1
    WRITE = 2
    ADMIN = 3


def not_allowed(needed: Role, has: Role) -> TidemillError:
    """TM8004: the caller's role does not allow this."""
    return TidemillError(
        "TM8004",
        "this needs another role",
        got=f"role {has.name.lower()}, needed: {needed.name.lower()}",
        hint="use a token of that role",
    )


@dataclass(frozen=True)
class Tokens:
    """Digests of tokens with their roles. None at all makes everybody an admin.

    The tokens themselves are not kept, so no dump of memory or log shows them.
    """

    digests: tuple[tuple[bytes, Role], ...] = ()

    @staticmethod
    def read(path: str) -> Tokens:
        """The tokens of a file; empty lines and lines that begin with ``#`` are comments.

        Raises
        ------
        TidemillError
            TM8003 when the file cannot be read, or a line is not ``role token``.
        """
        if not path:
            return Tokens()
        try:
            lines = Path(path).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise _bad_file(path, str(error)) from error
        found: list[tuple[bytes, Role]] = []
        for number, line in enumerate(lines, 1):
            parts = line.split()
            if not parts or parts[0].startswith("#"):
                continue
            if len(parts) != 2 or parts[0].upper() not in ("READ", "WRITE", "ADMIN"):
                raise _bad_file(path, f"line {number} is not `role token`")
            if len(parts[1]) < 16:
                raise _bad_file(path, f"the token in line {number} has fewer than 16 characters")
            found.append((_digest(parts[1]), Role[parts[0].upper()]))
        if not found:
            raise _bad_file(path, "it has no token")
        return Tokens(tuple(found))

    @property
    def open(self) -> bool:
        """Whether there are no tokens, so that everybody is an admin."""
        return not self.digests

    def role(self, token: str | None) -> Role:
        """The role of whoever shows a token. All digests are compared, each in constant time."""
        if self.open:
            return Role.ADMIN
        shown, role = _digest(token or ""), Role.NOBODY
        for digest, its in self.digests:
            if hmac.compare_digest(shown, digest):
                role = its
        return role if token else Role.NOBODY


def owner(token: str | None) -> str:
    """A text for whoever shows a token: a digest, so that no token is stored. The same for all without one."""
    return _digest(token).hex() if token else ""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _bad_file(path: str, got: str) -> TidemillError:
    return TidemillError(
        "TM8003",
        "the file of tokens cannot be used",
        got=f"{path}: {got}",
        hint="a line for each token: `read`, `write` or `admin`, a space, and at least 16 characters",
    )
