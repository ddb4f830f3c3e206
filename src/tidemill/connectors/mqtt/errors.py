"""Errors of tables USING mqtt that need no client."""

from __future__ import annotations

from tidemill.errors import TidemillError


def no_answer(where: str, said: str) -> TidemillError:
    """TM5120: the broker is not there, or broke off."""
    return TidemillError(
        "TM5120",
        "the MQTT broker does not answer as it should",
        got=f"{where}: {said}",
        hint="it is asked again, as long as it lasts; the broker keeps messages with QoS 1 and 2 for the session",
    )


def refused(where: str, said: str) -> TidemillError:
    """TM5121: a client may not do what is needed."""
    return TidemillError(
        "TM5121",
        "the MQTT broker refuses access",
        got=f"{where}: {said}",
        hint="username and password, a certificate, the topics that the user may read, protocolVersion '3.1.1'; after "
        "a restart options with secrets are given again, by the script or by ALTER TABLE",
    )


def bad_file(where: str, error: OSError) -> TidemillError:
    """TM5122: a certificate, or a key."""
    return TidemillError(
        "TM5122",
        "a certificate or key for an MQTT broker cannot be used",
        got=f"{where}: {error.strerror or error}",
        hint="caFile, certFile and keyFile are files in PEM on the host of the mill; keyPassword opens the key",
    )


def forgotten(where: str, client: str) -> TidemillError:
    """TM5123: the session is not at the broker any more."""
    return TidemillError(
        "TM5123",
        "the MQTT broker has forgotten the session: messages may be missing",
        got=f"{where}: client {client}",
        hint="let the broker keep sessions on its disk, and long enough; the table goes on with a new session",
    )


def left_over(where: str, client: str, said: str) -> TidemillError:
    """TM5124: a session nobody reads, for which the broker keeps messages."""
    return TidemillError(
        "TM5124",
        "the session of a table that was dropped is still at the MQTT broker",
        got=f"{where}: {said}",
        hint=f"connect once as client {client} with a clean session, or leave it to the broker's limits",
    )


def not_installed(error: ImportError) -> TidemillError:
    """TM5125: the client is missing."""
    return TidemillError(
        "TM5125",
        "tables USING mqtt need a package that is not installed",
        got=str(error),
        hint="pip install 'tidemill[mqtt]'",
    )
