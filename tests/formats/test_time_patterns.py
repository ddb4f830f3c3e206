"""Spark's datetime patterns: kernels against the plain twin, with random patterns and texts."""

from __future__ import annotations

import datetime as dt
import random
import zoneinfo

import numpy as np
import pyarrow as pa
import pytest
from column_parsing import MALFORMED, parse, parse_plainly
from pattern_texts import pattern_of, text_of

from tidemill.formats.values.times.time_pattern import compile_pattern
from tidemill.formats.values.times.time_zones import spoken_zones, utc_of_local, zone_names
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ

TYPES = (TIMESTAMP, TIMESTAMP_NTZ, pa.date32())


def test_like_the_twin(seed):
    chosen = random.Random(seed)
    fitting = 0
    for _ in range(150):
        pattern = pattern_of(chosen)
        try:
            compile_pattern(pattern)
        except ValueError:
            continue
        texts = [text_of(chosen, pattern).encode() for _ in range(12)]
        texts.append(bytes(chosen.choices(b"0123456789+-:/ TZGMAP\xc3\xff", k=chosen.randrange(20))))
        texts = [text for text in texts if text]
        for type_ in TYPES:
            found = parse(type_, texts, pattern)
            assert found == [parse_plainly(type_, text, pattern) for text in texts], (pattern, texts)
            fitting += sum(value != MALFORMED for value in found)
    assert fitting > 500


def at(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("pattern", "text", "value"),
    [
        ("d/M/yy", b"9/2/24", at(2024, 2, 9)),
        ("d MMM yyyy", b"9 feb 2024", at(2024, 2, 9)),
        ("MMMM d, yyyy", b"May 1, 2024", at(2024, 5, 1)),
        ("MM/dd/yyyy hh:mm:ss a", b"12/31/2023 12:00:01 am", at(2023, 12, 31, 0, 0, 1)),
        ("h a", b"12 PM", at(1970, 1, 1, 12)),
        ("k", b"24", at(1970, 1, 1)),
        ("yyyyDDD", b"2024366", at(2024, 12, 31)),
        ("yyyy-MM-dd[ HH:mm[:ss]]", b"2024-02-09 10:11", at(2024, 2, 9, 10, 11)),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", b"2024-02-09T10:11:12.5+02:00", at(2024, 2, 9, 8, 11, 12, 500000)),
        ("yyyy-MM-dd HH:mmX", b"2024-02-09 10:11-0130", at(2024, 2, 9, 11, 41)),
        ("yyyy-MM-dd HH:mm VV", b"2024-07-09 10:11 Europe/Berlin", at(2024, 7, 9, 8, 11)),
        ("yyyy-MM-dd HH:mm z", b"2024-07-09 10:11 PST", at(2024, 7, 9, 17, 11)),
        ("yyyy-MM-dd HH:mm O", b"2024-07-09 10:11 GMT-5", at(2024, 7, 9, 15, 11)),
        ("yyyy-MM-dd HH:mm VV", b"2024-03-31 02:30 Europe/Berlin", at(2024, 3, 31, 1, 30)),
        ("yyyy-MM-dd HH:mm VV", b"2024-10-27 02:30 Europe/Berlin", at(2024, 10, 27, 0, 30)),
        ("yyyy-MM-dd VV", b"0001-01-01 Europe/Berlin", MALFORMED),
        ("yyyyMMddHHmmssSSS", b"20240209101112500", MALFORMED),
        ("yyyy-MM-dd HH a", b"2024-02-09 10 PM", MALFORMED),
        ("M MMM", b"2 Mar", MALFORMED),
        ("yyyy-DDD", b"2023-366", MALFORMED),
    ],
)
def test_examples(pattern, text, value):
    assert parse(TIMESTAMP, [text], pattern) == [value]
    assert parse_plainly(TIMESTAMP, text, pattern) == value


def test_a_zone_is_malformed_where_there_is_none():
    assert parse(TIMESTAMP_NTZ, [b"2024 Z", b"2024 "], "yyyy [X]") == [MALFORMED, dt.datetime(2024, 1, 1)]


def test_clocks_of_zones(seed):
    chosen = random.Random(seed)
    for zone in chosen.sample(zone_names("ids").ids, 12):
        seconds = [chosen.randrange(-2_000_000_000, 250_000_000_000) for _ in range(300)]
        locals_ = [dt.datetime(1970, 1, 1) + dt.timedelta(seconds=s) for s in seconds]
        clock = zoneinfo.ZoneInfo(zone)
        expected = [s - round(clock.utcoffset(m).total_seconds()) for s, m in zip(seconds, locals_, strict=True)]
        assert (utc_of_local(zone, np.array(seconds) * 1_000_000) // 1_000_000).tolist() == expected, zone


def test_names_of_zones():
    assert spoken_zones("short")["EST"] == "America/New_York"
    assert "EST" not in spoken_zones("ids") and spoken_zones("ids")["Asia/Tokyo"] == "Asia/Tokyo"
    assert not zone_names("").ids


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("EEE, d MMM yyyy", "refuses"), ("YYYY-'W'ww", "week"), ("QQQ yyyy", "refuses"), ("uuuu", "week"),
        ("MMMMM", "refused"), ("yyyyyyy", "refused"), ("hhh", "no part"), ("aa", "no part"), ("VVV", "no part"),
        ("yyyy-MM-ddTHH", "no part"), ("DDDD", "no part"), ("XXXXXX", "no part"), ("yyyy]", "without"),
        ("yyyy{", "reserved"), ("'open", "not closed"), ("S" * 10, "at most 9"), ("", "empty"), ("zzzz", "full names"),
        ("v", "not supported"), ("a\nb", "line break"),
    ],
)  # fmt: skip
def test_refused(pattern, reason):
    with pytest.raises(ValueError, match=reason):
        compile_pattern(pattern)
