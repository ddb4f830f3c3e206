"""Certificates: those that cannot be used are refused at the start, and clients verify those that can."""

from __future__ import annotations

import socket
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from serving import Served

import tidemill as tm
from conftest import ServeFactory
from tidemill.errors import TidemillError
from tidemill.serve.access.certificate_watch import CertificateWatch
from tidemill.serve.access.settings import ServerSettings
from tidemill.serve.logs.server_log import ServerLog


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with ``good.pem`` and ``good.key``, and with files that go wrong."""
    directory = tmp_path_factory.mktemp("pem")
    for name in ("good", "other"):
        _openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext",
            "subjectAltName=IP:127.0.0.1", "-keyout", f"{directory}/{name}.key", "-out", f"{directory}/{name}.pem",
        )  # fmt: skip
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{directory}/curve.key")
    _openssl("rsa", "-aes128", "-passout", "pass:secret", "-in", f"{directory}/good.key", "-out", f"{directory}/locked")
    _openssl("req", "-new", "-key", f"{directory}/good.key", "-subj", "/CN=old", "-out", f"{directory}/request")
    _openssl(
        "x509", "-req", "-in", f"{directory}/request", "-signkey", f"{directory}/good.key", "-days", "-1",
        "-out", f"{directory}/expired.pem",
    )  # fmt: skip
    (directory / "junk").write_text("junk")
    (directory / "empty").touch()
    return directory


@pytest.mark.parametrize(
    ("certificate", "key", "why"),
    [
        ("good.pem", "other.key", "the key is that of another certificate"),
        ("good.pem", "curve.key", "the key is that of another certificate"),
        ("good.pem", "locked", "the key has a password"),
        ("good.pem", "junk", "no certificate and key in PEM"),
        ("junk", "good.key", "no certificate and key in PEM"),
        ("empty", "good.key", "no certificate and key in PEM"),
        ("good.key", "good.pem", "no certificate and key in PEM"),
        ("absent.pem", "good.key", "the certificate .*absent.pem: No such file"),
        ("expired.pem", "good.key", "expired.pem: it has expired"),
        ("good.pem", "absent.key", "the key .*absent.key: No such file"),
        ("good.pem", ".", "the key .*: Is a directory"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_refused_before_anything_listens(
    pem: Path, certificate: str, key: str, why: str
) -> None:
    with pytest.raises(TidemillError, match=f"(?s)TM8022.*{why}"):
        ServerSettings(tls_certificate=str(pem / certificate), tls_key=str(pem / key)).check()


@pytest.fixture(scope="module")
def served(serve_module: ServeFactory, pem: Path) -> Served:
    """An encrypted server."""
    return serve_module(tls_certificate=str(pem / "good.pem"), tls_key=str(pem / "good.key"))


def test_a_client_verifies_the_certificate(served: Served, pem: Path) -> None:
    for verify in (str(pem / "good.pem"), False):
        with tm.connect(served.url, verify=verify) as client:
            assert client.status()["epoch"] == 0
    for untrusted in (True, str(pem / "other.pem")):
        with pytest.raises(TidemillError, match=r"(?s)TM8031.*CERTIFICATE_VERIFY_FAILED.*verify='FILE'"):
            tm.connect(served.url, verify=untrusted)
    for unusable in ("absent.pem", "junk", "empty"):
        with pytest.raises(TidemillError, match=f"(?s)TM8033.*{unusable}"):
            tm.connect(served.url, verify=str(pem / unusable))


def test_whoever_is_not_encrypted_is_cut_off_and_the_server_goes_on(served: Served, pem: Path) -> None:
    port = int(served.url.rpartition(":")[2])
    for begun in (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", bytes.fromhex("160301000501000001ff")):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(begun)
            assert b"200" not in connection.recv(1000)
    with pytest.raises(TidemillError, match="TM8031"):
        tm.connect(served.url.replace("https", "http"))
    with socket.create_connection(("127.0.0.1", port)) as silent:  # others are served while a handshake does not end
        silent.sendall(bytes.fromhex("1603010200010001fc0303"))
        with tm.connect(served.url, verify=str(pem / "good.pem")) as client:
            assert client.status()["views"] == []


def test_encryption_is_not_spoken_where_there_is_no_certificate(serve: ServeFactory) -> None:
    plain = serve()
    with pytest.raises(TidemillError, match=r"(?s)TM8031.*WRONG_VERSION_NUMBER.*http:// in place of https://"):
        tm.connect(plain.url.replace("http", "https"), verify=False)
    assert plain.http.get("/healthz").status_code == 200


def test_until_when_a_certificate_is_valid(pem: Path) -> None:
    """As OpenSSL's command says; for one of an authority, whose chain is in the file, too."""
    _openssl(
        "req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=leaf", "-keyout", f"{pem}/leaf.key",
        "-out", f"{pem}/leaf.request",
    )  # fmt: skip
    _openssl(
        "x509", "-req", "-in", f"{pem}/leaf.request", "-CA", f"{pem}/other.pem", "-CAkey", f"{pem}/other.key",
        "-CAcreateserial", "-days", "30", "-out", f"{pem}/leaf.pem",
    )  # fmt: skip
    (pem / "chain.pem").write_text((pem / "leaf.pem").read_text() + (pem / "other.pem").read_text())
    for certificate, key in (("good", "good"), ("chain", "leaf")):
        settings = ServerSettings(tls_certificate=f"{pem}/{certificate}.pem", tls_key=f"{pem}/{key}.key")
        told = subprocess.run(
            ["openssl", "x509", "-in", settings.tls_certificate, "-noout", "-enddate"], check=True, capture_output=True
        ).stdout.decode()
        until = datetime.strptime(told.strip(), "notAfter=%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC)
        assert settings.certificate_expires_at() == until
    assert ServerSettings().certificate_expires_at() is None


def test_a_certificate_that_will_soon_expire_is_noted_once_a_day(pem: Path) -> None:
    settings = ServerSettings(tls_certificate=f"{pem}/good.pem", tls_key=f"{pem}/good.key")
    until = settings.certificate_expires_at()
    assert until is not None
    log = ServerLog("info")
    watch = CertificateWatch(settings, log)
    for days in (14.1, 13.5, 13.4, 12.6, 12.4, 1.0):
        watch.look(until - timedelta(days=days))
    CertificateWatch(ServerSettings(), log).look()
    assert [(e.event, e.fields) for e in log.entries()] == [("certificate.expires", {"until": until.isoformat()})] * 3
