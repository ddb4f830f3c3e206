"""Parses the sockets in a table's ``path``."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from urllib.parse import unquote, urlparse

from tidemill.connectors.registry import SOCKET_SCHEMES, scheme_of
from tidemill.errors import TidemillError

Address = tuple[str, int] | str


@dataclass(frozen=True)
class Endpoint:
    """One socket, or standard input.

    ``url`` is as it was written. ``listens`` says whether peers open connections, or Tidemill does. ``address`` is a
    host and a port, or the path of a Unix socket; empty for standard input.
    """

    url: str
    family: socket.AddressFamily
    listens: bool
    address: Address

    @property
    def is_stdin(self) -> bool:
        """Whether it is standard input."""
        return self.address == ""


def is_socket(path: str) -> bool:
    """Whether a table's path names sockets rather than files."""
    return scheme_of(path) in SOCKET_SCHEMES


def parse_endpoints(path: str) -> tuple[Endpoint, ...]:
    """Parse a path: URLs of sockets, separated by commas.

    Raises
    ------
    TidemillError
        TM5020 for a bad URL, or one that is given twice.
    """
    found = tuple(_endpoint(part.strip()) for part in path.split(","))
    addresses = [e.address for e in found if e.address not in (("", 0),) and not (e.listens and _any_port(e))]
    if len(set(addresses)) < len(addresses):
        raise _bad(path, "each place once")
    return found


def _any_port(endpoint: Endpoint) -> bool:
    return not isinstance(endpoint.address, str) and endpoint.address[1] == 0


def _endpoint(url: str) -> Endpoint:
    hint = "tcp://host:port, tcp+listen://host:port, unix:///path, unix+listen:///path or stdin://"
    found = urlparse(url)
    scheme = found.scheme.lower()
    if scheme not in SOCKET_SCHEMES or found.query or found.fragment or found.username is not None:
        raise _bad(url, hint)
    listens = scheme.endswith("+listen")
    if scheme == "stdin":
        if found.netloc or found.path:
            raise _bad(url, "stdin:// has nothing behind it")
        return Endpoint(url, socket.AF_UNIX, False, "")
    if scheme.startswith("unix"):
        path = unquote(found.path)
        if found.netloc or not path.startswith("/") or len(path.encode()) > _LONGEST_UNIX_PATH:
            raise _bad(url, f"unix:// and an absolute path of at most {_LONGEST_UNIX_PATH} bytes")
        return Endpoint(url, socket.AF_UNIX, listens, path)
    try:
        port = found.port
    except ValueError as error:
        raise _bad(url, hint) from error
    if not found.hostname or port is None or found.path not in ("", "/") or (port == 0 and not listens):
        raise _bad(url, hint)
    family = socket.AF_INET6 if ":" in found.hostname else socket.AF_INET
    return Endpoint(url, family, listens, (found.hostname, port))


_LONGEST_UNIX_PATH = 107


def _bad(got: str, hint: str) -> TidemillError:
    return TidemillError("TM5020", "the path of a socket cannot be understood", got=got, hint=hint)
