"""Settings from the command line: every field of Settings can be given, and what cannot be is told."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from commands import here
from tidemill.cli.run.settings import parse_setting, settings, settings_of_both
from tidemill.cli.settings_page import page
from tidemill.config import Settings, described_settings
from tidemill.errors import TidemillError
from tidemill.serve.access.settings import ServerSettings

TEXTS: dict[str, tuple[str, object]] = {
    "master": ("local[3]", "local[3]"),
    "mode": ("resident", "resident"),
    "epoch_bytes": ("8m", 8 << 20),
    "split_bytes": ("512k", 512 << 10),
    "partitions": ("7", 7),
    "small_epoch_bytes": ("0", 0),
    "broadcast_bytes": ("1G", 1 << 30),
    "checkpoint_seconds": ("2.5", 2.5),
    "checkpoint_epochs": ("3", 3),
    "checkpoint_bytes": ("64mb", 64 << 20),
    "buffer_directory": ("/dev/shm/a=b {host}", "/dev/shm/a=b {host}"),
    "buffer_epochs": ("2", 2),
    "buffer_bytes": ("1000", 1000),
    "history_epochs": ("5", 5),
    "compact_after": ("4", 4),
    "compact_bytes": ("1m", 1 << 20),
    "garbage_grace_seconds": ("1e3", 1000.0),
    "listing_seconds": ("0", 0.0),
    "allowed_paths": ("/data/in,s3://b", "/data/in,s3://b"),
    "memory_bytes": ("2g", 2 << 30),
    "time_zone": ("+05:30", "+05:30"),
    "spark_conf": ("", {}),
}

SERVER_TEXTS: dict[str, tuple[str, object]] = {
    "host": ("::1", "::1"),
    "port": ("65535", 65535),
    "flight_port": ("0", 0),
    "pg_port": ("5432", 5432),
    "tokens": ("/etc/tokens", "/etc/tokens"),
    "tls_certificate": ("a.pem", "a.pem"),
    "tls_key": ("b.pem", "b.pem"),
    "hosts": ("mill.example, other", ("mill.example", "other")),
    "max_connections": ("50", 50),
    "max_body_bytes": ("1m", 1 << 20),
    "max_statement_length": ("5000", 5000),
    "max_rows": ("7", 7),
    "max_cursors": ("8", 8),
    "max_subscribers": ("0", 0),
    "max_statements": ("3", 3),
    "requests_per_second": ("100", 100),
    "cache_bytes": ("0", 0),
    "progress_seconds": ("0.5", 0.5),
    "idle_seconds": ("1", 1.0),
    "pg_duckdb_bytes": ("0", 0),
    "pg_memory_bytes": ("64m", 64 << 20),
    "pg_max_connections": ("2", 2),
    "pg_statement_seconds": ("0", 0.0),
    "pg_stalled_seconds": ("0.1", 0.1),
    "log_level": ("debug", "debug"),
    "log_format": ("json", "json"),
    "log_entries": ("50", 50),
    "slow_epoch_seconds": ("0", 0.0),
    "adaptors": ("true", True),
    "traces": ("False", False),
}


def test_the_reference_is_what_is_declared() -> None:
    document = Path(__file__).parents[2] / "docs" / "settings.md"
    assert document.read_text() == page(), "python -m tidemill.cli.settings_page > docs/settings.md"


def test_every_setting_can_be_given() -> None:
    assert set(TEXTS) == {f.name for f in fields(Settings)}
    found = settings(given=[f"{name}={text}" for name, (text, _) in TEXTS.items() if name != "spark_conf"])
    assert found == Settings(**{name: value for name, (_, value) in TEXTS.items()})  # type: ignore[arg-type]
    assert {n: type(v) for n, v in vars(found).items()} == {n: type(v) for n, v in vars(Settings()).items()}


def test_every_setting_of_a_server_can_be_given() -> None:
    assert list(SERVER_TEXTS) == [f.name for f in fields(ServerSettings)]
    assert not set(SERVER_TEXTS) & set(TEXTS), "a name is a setting of the mill or of the server"
    given = ["partitions=3", *(f"{n.replace('_', '-')}={t}" for n, (t, _) in SERVER_TEXTS.items())]
    mill, server = settings_of_both("local[2]", None, given, ServerSettings)
    assert mill == Settings(master="local[2]", partitions=3)
    assert server == {name: value for name, (_, value) in SERVER_TEXTS.items()}
    assert {n: type(v) for n, v in server.items()} == {n: type(v) for n, (_, v) in SERVER_TEXTS.items()}


def test_settings_of_spark() -> None:
    given = ["spark_conf.spark.sql.shuffle.partitions=3", "spark_conf.spark.driver.extraJavaOptions=-Da=b"]
    conf = {"spark.sql.shuffle.partitions": "3", "spark.driver.extraJavaOptions": "-Da=b"}
    assert settings(given=given) == replace(Settings(), spark_conf=conf)


def test_several_ways_to_give_one() -> None:
    assert settings() == Settings()
    assert settings("local[5]", "1m") == Settings(master="local[5]", epoch_bytes=1 << 20, split_bytes=1 << 18)
    both = settings("local[5]", "1m", ["master=local[6]", "epoch_bytes=2m", "epoch-bytes = 100k"])
    assert both == Settings(master="local[6]", epoch_bytes=100 << 10, split_bytes=64 << 10), "the last one counts"
    assert settings(None, "1m", ["split_bytes=1m"]).split_bytes == 1 << 20
    assert settings(given=["epoch_bytes=1g"]).split_bytes == Settings().split_bytes


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("epoch_byte=4m", "did you mean epoch_bytes"),
        ("Memory-Bytes=4m", "did you mean memory_bytes"),
        ("spark_conf=4", "did you mean spark_conf.KEY?"),
        ("spark_conf.=4", "did you mean spark_conf.KEY?"),
        ("qqq=1", "valid names: master, mode, epoch_bytes, "),
        ("=1", "valid names: master, "),
    ],
)
def test_unknown_names(given: str, hint: str) -> None:
    with pytest.raises(TidemillError, match="TM7005") as caught:
        parse_setting(given)
    assert caught.value.got == given.partition("=")[0].replace("-", "_")
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("epoch_bytes", "--set epoch_bytes=..."),
        ("epoch_bytes=lots", "a number of bytes"),
        ("epoch_bytes=0", "a number of bytes, optionally with k, m or g (4m), 1 or more"),
        ("memory_bytes=-1", "a number of bytes"),
        ("memory_bytes=", "a number of bytes"),
        ("memory_bytes=1.5g", "a number of bytes"),
        ("partitions=2k", "a whole number, 0 or more"),
        ("partitions=²", "a whole number, 0 or more"),
        ("checkpoint_seconds=soon", "a number of seconds"),
        ("checkpoint_seconds=inf", "a number of seconds"),
        ("checkpoint_seconds=nan", "a number of seconds"),
        ("listing_seconds=-0.1", "a number of seconds, from 0 to 1e+09"),
        ("mode=thread", "auto or jobs or resident"),
    ],
)
def test_bad_values(given: str, hint: str) -> None:
    with pytest.raises(TidemillError, match="TM7006") as caught:
        parse_setting(given)
    assert caught.value.got == given
    assert caught.value.hint.startswith(hint)


def test_a_program_cannot_give_a_mode_that_there_is_not() -> None:
    with pytest.raises(TidemillError, match="TM7006") as caught:
        Settings(mode="threads")
    assert (caught.value.got, caught.value.hint) == ("mode=threads", "auto or jobs or resident")


@pytest.mark.parametrize(
    ("given", "number", "hint"),
    [
        ("max_row=1", "TM7005", "did you mean max_rows"),
        ("pg_connections=1", "TM7005", "did you mean pg_max_connections"),
        ("epoch_byte=4m", "TM7005", "did you mean epoch_bytes"),
        ("max_rows=0", "TM7006", "a whole number, 1 or more"),
        ("port=65536", "TM7006", "a whole number, from 0 to 65535"),
        ("pg_memory_bytes=1m", "TM7006", f"a number of bytes, optionally with k, m or g (4m), {16 << 20} or more"),
        ("pg_stalled_seconds=0", "TM7006", "a number of seconds, from 0.1 to 1e+09"),
        ("adaptors=yes", "TM7006", "true or false"),
        ("log_level=loud", "TM8320", "debug, info, warning, error"),
        ("host=0.0.0.0", "TM8001", "--tokens FILE"),
    ],
)
def test_what_a_server_cannot_be_given(given: str, number: str, hint: str) -> None:
    done = here("serve", "--root", "/nowhere", "--set", given)
    assert done.code == 1 and number in done.err and hint in " ".join(done.err.split()), done.err


def test_run_takes_no_setting_of_a_server() -> None:
    with pytest.raises(TidemillError, match="TM7005"):
        settings(given=["max_rows=1"])


@pytest.mark.parametrize(("command", "declared"), [("run", (Settings,)), ("serve", (Settings, ServerSettings))])
def test_help_names_every_setting(command: str, declared: tuple[type[Any], ...]) -> None:
    done = here(command, "--help")
    text = "".join(done.out.replace("│", "").split())
    assert done.code == 0
    assert "--set" in text
    for described in (described_settings(d) for d in declared):
        assert [n for n, _, _ in described if n not in text] == []
        assert [t for _, _, t in described if "".join(t.split()) not in text] == [], "with a line about each"


@pytest.mark.parametrize("declared", [Settings, ServerSettings])
def test_every_setting_is_described(declared: type[Any]) -> None:
    found = {name: (default, text) for name, default, text in described_settings(declared)}
    assert list(found) == [f.name for f in fields(declared)]
    for name, (default, text) in found.items():
        assert text and not text.endswith("."), name
        if default:
            assert parse_setting(f"{name}={default}", (declared,)) == (name, getattr(declared(), name))


def test_described_settings() -> None:
    found = {name: (default, text) for name, default, text in described_settings()}
    assert found["epoch_bytes"] == ("16m", "Most bytes of input admitted to one epoch, over all tables")
    assert found["history_epochs"][0] == "128"
