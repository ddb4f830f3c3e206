"""Options: declared once, each known to the reference; values that are none give one error."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from tidemill.cli.options_page import page
from tidemill.errors import TidemillError
from tidemill.formats.registry import built_in, lookup
from tidemill.formats.rows.malformed import Mode
from tidemill.options.kinds import FLAG, INTERVAL, SIZE, choice, member, number, only, parse_size, size
from tidemill.options.option import Kind, Option, check_options, lowered
from tidemill.options.tables import MAX_ERROR_RATIO, RETAIN_BYTES
from tidemill.runtime.tables.table_options import GROUPS, alterable, is_for_format
from tidemill.sinks.options import SINK_OPTIONS
from tidemill.sinks.registry import SINK_GROUPS, TARGETS
from tidemill.spark_source.source_options import SOURCE_OPTIONS

DOCUMENT = Path(__file__).parent.parent / "docs" / "options.md"


def test_the_reference_is_what_is_declared() -> None:
    assert DOCUMENT.read_text() == page(), "python -m tidemill.cli.options_page > docs/options.md"


def test_every_option_of_a_format_is_declared() -> None:
    declared = {option.key for group in GROUPS for option in group.options}
    for name in built_in():
        assert lookup(name).option_names <= declared, name


def test_an_option_has_one_declaration() -> None:
    """One of a name in each group; in several groups only where they share it, Spark gives one name to two, or defaults
    differ.
    """
    for group in (*GROUPS, SOURCE_OPTIONS):
        assert max(Counter(option.key for option in group.options).values()) == 1, group.title
    named: dict[str, set[int]] = {}
    for group in (*GROUPS, SOURCE_OPTIONS):
        for option in group.options:
            named.setdefault(option.name, set()).add(id(option))
    several = {name for name, found in named.items() if len(found) > 1}
    assert several == {"encoding", "lineSep", "multiLine", "maxSpoolBytes", "retainBytes"}


def test_an_option_of_sinks_has_one_declaration_for_each_target() -> None:
    for kind in TARGETS.values():
        assert max(Counter(o.key for g in (SINK_OPTIONS, kind.options) for o in g.options).values()) == 1, kind.name


def test_defaults_are_values() -> None:
    for group in (*GROUPS, SOURCE_OPTIONS, *SINK_GROUPS):
        for option in group.options:
            if option.default is None or option.shown:
                continue
            text = str(option.default).lower() if isinstance(option.default, bool) else str(option.default)
            assert option.of({option.key: text}) in (option.default, text), option.name


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (FLAG, {"true": True, "FALSE": False}, ["yes", "1", ""]),
        (SIZE, {"1": 1, "64k": 65536, "16MB": 16 << 20, " 1g ": 1 << 30}, ["0", "-1", "1.5m", "k", "", "1t", "²"]),
        (size(least="1m", most="1g"), {"1m": 1 << 20, "1024m": 1 << 30}, ["1k", "2g", "x"]),
        (number(0, 9), {"0": 0, "9": 9}, ["10", "-1", "+1", "1.0", "٣"]),
        (choice("sync", "async"), {"ASYNC": "async"}, ["", "sink"]),
        (member(Mode), {"failFast": Mode.FAILFAST}, ["X"]),
        (only("false", instead="names"), {"False": "false"}, ["true"]),
        (MAX_ERROR_RATIO.kind, {"0.01": Fraction(1, 100), "1": Fraction(1)}, ["1/2", "2", "-0.1", "nan", "x"]),
        (RETAIN_BYTES.kind, {"all": None, "0": 0, "1k": 1024}, ["none", "-1"]),
    ],
)
def test_values(kind: Kind[object], good: dict[str, object], bad: list[str]) -> None:
    option = Option("tryThis", kind, None, "for tests")
    for text, value in good.items():
        assert option.of({"trythis": text}) == value
    for text in bad:
        with pytest.raises(TidemillError) as caught:
            option.of({"trythis": text})
        assert (caught.value.number, caught.value.got) == ("TM4003", repr(text))
        assert caught.value.what == "bad value of option tryThis"
        assert caught.value.hint


def test_intervals() -> None:
    """Against a sum of parts that are made at random."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    units = {"microsecond": 1, "ms": 10**3, "s": 10**6, "minute": 60 * 10**6, "h": 3600 * 10**6, "week": 604800 * 10**6}
    for _ in range(200):
        parts = [(chance.randrange(1000), chance.choice(list(units))) for _ in range(chance.randint(1, 3))]
        words = [f"{n}{chance.choice(['', ' '])}{unit}{'s' * (len(unit) > 2 and n != 1)}" for n, unit in parts]
        text = chance.choice(["", "interval "]) + " ".join(words)
        assert INTERVAL.read(text) == sum(n * units[unit] for n, unit in parts), text
    assert INTERVAL.read("1.5 seconds") == 1_500_000
    for text in ("", "10", "ten minutes", "10 minutes ago", "-1 s", "10 fortnights", "1 month", "interval"):
        with pytest.raises(ValueError, match=r"^$"):
            INTERVAL.read(text)


def test_unknown_options_are_told_with_the_nearest() -> None:
    with pytest.raises(TidemillError) as caught:
        check_options("csv", ["Heder"], lookup("csv").option_names)
    assert (caught.value.number, caught.value.got) == ("TM4005", "Heder")
    assert "header" in caught.value.hint
    check_options("csv", ["PARSER.a", "Header"], lookup("csv").option_names)


def test_secrets_are_not_shown() -> None:
    key = next(o for group in GROUPS for o in group.options if o.name == "awsSecretKey")
    assert key.secret
    assert "hunter2" not in str(key.bad("hunter2", "another"))


def test_what_may_be_altered_and_what_formats_are_told() -> None:
    assert alterable(["maxErrors", "header", "cleanSource", "awsSecretKey", "opColumn"]) == {
        "maxerrors",
        "cleansource",
        "awssecretkey",
    }
    told = {"header", "compression", "readmode", "rescueddatacolumn", "region"}
    not_told = {"watermark", "schemahints", "framing", "cleansource", "modifiedafter"}
    assert {option for option in told | not_told if is_for_format(option)} == told


def test_sizes_of_arguments() -> None:
    assert parse_size("--epoch-bytes", "2m") == 2 << 20
    with pytest.raises(TidemillError, match="bad value of option --epoch-bytes"):
        parse_size("--epoch-bytes", "much")
    assert lowered({"Header": "x"}) == {"header": "x"}
