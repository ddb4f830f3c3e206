"""The beginning of a connection: encryption, the start-up message, and the password."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidemill.errors import TidemillError
from tidemill.serve.access.settings import ServerSettings
from tidemill.serve.access.tokens import Role, Tokens
from tidemill.serve.postgres.protocol import backend
from tidemill.serve.postgres.protocol.channel import Channel, ConnectionEndedError
from tidemill.serve.postgres.protocol.errors import not_understood
from tidemill.serve.postgres.protocol.frontend import start_up_of, text_of

START_SECONDS = 10.0
"""Within which a client has to say who it is."""
_MOST_BYTES = 10_000
"""Of a message of somebody who is not known yet."""
_CANCEL, _SSL, _GSS = 80_877_102, 80_877_103, 80_877_104
_MAJOR = 3
_HANDSHAKE = 0x16
"""The first byte of TLS, which a client may begin with at once."""


@dataclass(frozen=True)
class CancelRequest:
    """Cancel the statement of another connection."""

    process: int
    secret: int


@dataclass(frozen=True)
class Started:
    """A client that wants to go on.

    Attributes
    ----------
    parameters : mapping
        Of the start-up message.
    answer : bytes
        What to send before anything else; empty for nothing.
    """

    parameters: Mapping[str, str]
    answer: bytes = b""


def start_up(
    connection: socket.socket,
    tls: ssl.SSLContext | None,
    settings: ServerSettings,
    use: Callable[[socket.socket], None],
) -> Started | CancelRequest:
    """Agree on encryption, and read what the client wants.

    Parameters
    ----------
    use : callable
        Is given the encrypted socket before the handshake: whoever holds the connection has to be able to end it.

    Raises
    ------
    ConnectionEndedError
        When the client goes, or takes too long.
    TidemillError
        TM8101 for what is no start of this protocol, TM8102 for another version, TM8104 without encryption where the
        server has a certificate.
    """
    connection.settimeout(START_SECONDS)
    if tls is not None and _begins_with_handshake(connection):
        connection = _encrypted(connection, tls, use)
    for _ in range(3):
        channel = Channel(connection, settings.max_body_bytes, settings.pg_stalled_seconds)
        code, content = _first(channel)
        if code in (_SSL, _GSS):
            if content:
                raise not_understood("bytes before encryption was agreed on")
            agreed = code == _SSL and tls is not None and not isinstance(connection, ssl.SSLSocket)
            connection.sendall(b"S" if agreed else b"N")
            if agreed and tls is not None:
                connection = _encrypted(connection, tls, use)
            continue
        if code == _CANCEL:
            if len(content) != 8:
                raise not_understood(f"a cancel request of {len(content)} bytes")
            return CancelRequest(*struct.unpack("!iI", content))
        if code >> 16 != _MAJOR:
            raise _other_version(code)
        if tls is not None and not isinstance(connection, ssl.SSLSocket):
            raise _not_encrypted()
        return _started(code, content)
    raise not_understood("requests for encryption, one after the other")


def _first(channel: Channel) -> tuple[int, bytes]:
    try:
        return channel.start_up(START_SECONDS, _MOST_BYTES)
    except TimeoutError as error:
        raise ConnectionEndedError("it did not start") from error


def _begins_with_handshake(connection: socket.socket) -> bool:
    try:
        first = connection.recv(1, socket.MSG_PEEK)
    except OSError as error:
        raise ConnectionEndedError(str(error)) from error
    return first == bytes([_HANDSHAKE])


def _encrypted(connection: socket.socket, tls: ssl.SSLContext, use: Callable[[socket.socket], None]) -> ssl.SSLSocket:
    try:
        found = tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        use(found)
        found.do_handshake()
        return found
    except OSError as error:  # every error of TLS is one
        raise ConnectionEndedError(str(error)) from error


def _started(code: int, content: bytes) -> Started:
    found = start_up_of(content)
    unknown = [name for name in found if name.startswith("_pq_.")]
    answer = backend.negotiate(_MAJOR << 16, unknown) if code & 0xFFFF or unknown else b""
    if found.get("replication", "false").lower() not in ("false", "off", "no", "0"):
        raise TidemillError(
            "TM8102",
            "this protocol is not spoken here",
            got="replication",
            hint="changes of views come over HTTP, Flight and WebSocket",
        )
    if not found.get("user"):
        raise not_understood("a start-up message without a user")
    return Started(found, answer)


def _other_version(code: int) -> TidemillError:
    return TidemillError(
        "TM8102",
        "this protocol is not spoken here",
        got=f"version {code >> 16}.{code & 0xFFFF}",
        hint="PostgreSQL's protocol, version 3; HTTP has a port of its own",
    )


def _not_encrypted() -> TidemillError:
    return TidemillError(
        "TM8104",
        "this server takes encrypted connections only",
        got="a connection without TLS",
        hint="sslmode=require, or verify-full with the server's certificate as sslrootcert",
    )


def authenticate(channel: Channel, tokens: Tokens) -> Role:
    """The role of the client: that of the token which is its password.

    Raises
    ------
    ConnectionEndedError
        When the client goes, or takes too long.
    TidemillError
        TM8103 for a password that is no token.
    """
    role = Role.ADMIN
    if not tokens.open:
        channel.write(backend.ASK_FOR_PASSWORD)
        channel.flush()
        try:
            kind, content = channel.message(START_SECONDS, _MOST_BYTES)
        except TimeoutError as error:
            raise ConnectionEndedError("it sent no password") from error
        if kind != b"p":
            raise not_understood(f"a message of kind {kind!r} in the place of a password")
        role = tokens.role(text_of(content))
        if role == Role.NOBODY:
            raise TidemillError(
                "TM8103",
                "the password is no token of this server",
                got="another password",
                hint="a token of the server's file of tokens; its role is that of the connection",
            )
    channel.write(backend.AUTHENTICATED)
    return role
