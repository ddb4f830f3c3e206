"""The certificate of a server and its key."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

from tidemill.errors import TidemillError

_OF_ANOTHER = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""OpenSSL's reasons for a key that does not fit; the last one for a key of another algorithm."""
_OUT_OF_DATE = {9: "it is not valid yet", 10: "it has expired"}
"""By OpenSSL's codes of verification: what no client would trust."""


def tls_context(certificate: str, key: str) -> ssl.SSLContext | None:
    """How connections are encrypted; None without a certificate.

    Parameters
    ----------
    certificate, key : str
        PEM files; both empty when the server has none.

    Raises
    ------
    TidemillError
        TM8022 for files that cannot be read or are no PEM, a key of another certificate, one with a password, or a
        certificate that is not valid today.
    """
    if not certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for what, path in (("certificate", certificate), ("key", key)):
        try:
            with Path(path).open("rb"):
                pass
        except OSError as error:  # that of the context does not say which of the files
            raise _unusable(f"the {what} {path}: {error.strerror}") from error
    encrypted = False

    def no_password() -> str:  # without it OpenSSL asks for one at the terminal
        nonlocal encrypted
        encrypted = True
        return ""

    try:
        context.load_cert_chain(certificate, key, no_password)
    except (OSError, ValueError) as error:  # every error of TLS is an OSError
        why = "the key has a password" if encrypted else _reason(error)
        raise _unusable(f"{certificate} with {key}: {why}") from error
    expires_at(certificate, context)
    return context


def expires_at(certificate: str, context: ssl.SSLContext) -> datetime | None:
    """Until when a certificate is valid, as a client sees it that trusts just this one; None if that cannot be told.

    Parameters
    ----------
    certificate : str
        The file that the context has loaded.
    context : SSLContext
        Of a server.

    Raises
    ------
    TidemillError
        TM8022 when it is not valid today.
    """
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN  # nobody else is asked who issued it
    trusting.load_verify_locations(certificate)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue  # the other side is next
        except ssl.SSLCertVerificationError as error:
            if error.verify_code in _OUT_OF_DATE:
                raise _unusable(f"{certificate}: {_OUT_OF_DATE[error.verify_code]}") from error
            return None  # for whatever else clients decide what they trust
        except ssl.SSLError:
            return None
    found = client.getpeercert() or {}
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(found["notAfter"])), UTC) if found else None


def _reason(error: OSError | ValueError) -> str:
    reason = getattr(error, "reason", None)
    if reason is None:
        return "no certificate and key in PEM"
    if reason in _OF_ANOTHER:
        return "the key is that of another certificate"
    return str(reason).replace("_", " ").lower()


def _unusable(got: str) -> TidemillError:
    return TidemillError(
        "TM8022",
        "the certificate or its key cannot be used",
        got=got,
        hint="PEM files: the certificate (with those between it and its authority), and its key without a password",
    )
