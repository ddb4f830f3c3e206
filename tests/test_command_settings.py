"""Settings from the command line: every field of Settings can be given, and what cannot be is told."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from commands import here
from tidemill.cli.settings import parse_setting, settings
from tidemill.cli.settings_page import page
from tidemill.config import Settings, described_settings
from tidemill.errors import TidemillError

TEXTS: dict[str, tuple[str, object]] = {
    "master": ("local[3]", "local[3]"),
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


def test_the_reference_is_what_is_declared() -> None:
    document = Path(__file__).parent.parent / "docs" / "settings.md"
    assert document.read_text() == page(), "python -m tidemill.cli.settings_page > docs/settings.md"


def test_every_setting_can_be_given() -> None:
    assert set(TEXTS) == {f.name for f in fields(Settings)}
    found = settings(given=[f"{name}={text}" for name, (text, _) in TEXTS.items() if name != "spark_conf"])
    assert found == Settings(**{name: value for name, (_, value) in TEXTS.items()})  # type: ignore[arg-type]
    assert {n: type(v) for n, v in vars(found).items()} == {n: type(v) for n, v in vars(Settings()).items()}


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
        ("qqq=1", "valid names: master, epoch_bytes, "),
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
    ],
)
def test_bad_values(given: str, hint: str) -> None:
    with pytest.raises(TidemillError, match="TM7006") as caught:
        parse_setting(given)
    assert caught.value.got == given
    assert caught.value.hint.startswith(hint)


def test_help_names_every_setting() -> None:
    done = here("run", "--help")
    text = "".join(done.out.replace("│", "").split())
    assert done.code == 0
    assert "--set" in text
    assert [n for n in TEXTS if n not in text] == []
    assert [t for _, _, t in described_settings() if "".join(t.split()) not in text] == [], "with a line about each"


def test_every_setting_is_described() -> None:
    found = {name: (default, text) for name, default, text in described_settings()}
    assert list(found) == [f.name for f in fields(Settings)]
    for name, (default, text) in found.items():
        assert text and not text.endswith("."), name
        if default:
            assert parse_setting(f"{name}={default}") == (name, getattr(Settings(), name))
    assert found["epoch_bytes"] == ("16m", "Most bytes of input admitted to one epoch, over all tables")
    assert found["history_epochs"][0] == "128"
