"""Random datetime patterns, and texts that fit them more or less."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Callable

_ZONES = [
    "Z", "z", "+01:00", "-0330", "+05", "+14:00", "-18:00", "+18:01", "+19:00", "+2400", "+00:00", "+0000", "+00",
    "-00:00", "+01:02:03", "+010203", "+1", "+0160", "UTC", "utc+1", "UTC+01:00", "GMT", "GMT+1", "GMT-12:30",
    "GMT+08:00", "GMT0", "gmt+8:05:30", "GMT+", "UT", "Europe/Berlin", "america/new_york", "CET", "EST", "PST", "PDT",
    "JST", "Etc/GMT+5", "Asia/Tokyo", "Europe/London", "EUROPE/lisbon", "UTC0", "GMT+25", "UTC+19:00", "UTC+25:00",
]  # fmt: skip
_LITERALS = [" ", "-", "/", ":", ".", "'T'", "-", " 'at' ", "''", ",", "'x'", "年", " 'o''clock' ", "5", "_"]
_COMMON = [
    "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]", "dd/MM/yyyy hh:mm a", "MMM d, yyyy h:mm:ss a", "d MMMM yyyy", "yyyyMMdd",
    "yyyyMMddHHmmss", "yyMMdd", "M/d/yy H:mm", "yyyy-DDD", "yyyyDDD", "yyyy-MM-dd HH:mm:ss VV", "yyyy-MM-dd HH:mm:ss z",
    "yyyy-MM-dd[ HH:mm[:ss]]", "dd-MMM-yyyy", "yyyy-MM-dd HH:mm:ss.S", "HHmmss", "HHmmssSSS", "yyyy-MM-dd HH:mm:ss O",
    "K:mm a", "[yyyy][MM]", "yyyy-MM-dd HH:mm[:ss] ZZZZ", "yyyy[-MM[-dd]]", "GGGG y", "D d M y",
]  # fmt: skip
_ZONE_LETTERS = [
    "X", "XX", "XXX", "XXXX", "XXXXX", "x", "xx", "xxx", "xxxx", "xxxxx", "Z", "ZZ", "ZZZ", "ZZZZ", "ZZZZZ", "VV",
    "z", "O", "OOOO",
]  # fmt: skip

Spell = Callable[[dt.datetime], str]
_SPELLED: dict[str, Spell] = {
    "yyyy": lambda m: f"{m.year:04d}",
    "yy": lambda m: f"{m.year % 100:02d}",
    "y": lambda m: str(m.year),
    "yyy": lambda m: f"{m.year:03d}",
    "yyyyy": lambda m: f"{m.year:05d}",
    "yyyyyy": lambda m: f"{m.year:06d}",
    "M": lambda m: str(m.month),
    "MM": lambda m: f"{m.month:02d}",
    "MMM": lambda m: m.strftime("%b"),
    "MMMM": lambda m: m.strftime("%B"),
    "L": lambda m: str(m.month),
    "LL": lambda m: f"{m.month:02d}",
    "LLL": lambda m: m.strftime("%b").upper(),
    "LLLL": lambda m: m.strftime("%B").lower(),
    "d": lambda m: str(m.day),
    "dd": lambda m: f"{m.day:02d}",
    "D": lambda m: str(m.timetuple().tm_yday),
    "DD": lambda m: f"{m.timetuple().tm_yday:02d}",
    "DDD": lambda m: f"{m.timetuple().tm_yday:03d}",
    "H": lambda m: str(m.hour),
    "HH": lambda m: f"{m.hour:02d}",
    "h": lambda m: str(m.hour % 12 or 12),
    "hh": lambda m: f"{m.hour % 12 or 12:02d}",
    "k": lambda m: str(m.hour or 24),
    "kk": lambda m: f"{m.hour or 24:02d}",
    "K": lambda m: str(m.hour % 12),
    "KK": lambda m: f"{m.hour % 12:02d}",
    "a": lambda m: "Am" if m.hour < 12 else "PM",
    "m": lambda m: str(m.minute),
    "mm": lambda m: f"{m.minute:02d}",
    "s": lambda m: str(m.second),
    "ss": lambda m: f"{m.second:02d}",
    "G": lambda m: "AD" if m.day > 2 else "bc",
    "GGGG": lambda m: "Anno domini",
}
_PIECES = [*_SPELLED, "yyyy", "yyyy", "MM", "dd", "HH", "mm", "ss"]
_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)


def pattern_of(chosen: random.Random) -> str:
    """A pattern, perhaps one that is refused."""
    if chosen.random() < 0.35:
        return chosen.choice(_COMMON)
    parts: list[str] = []
    letters: set[str] = set()
    depth = 0
    for _ in range(chosen.randint(1, 8)):
        piece = chosen.choice([*_PIECES, *chosen.sample(_ZONE_LETTERS, 3), "S" * chosen.randint(1, 9)])
        if piece[0] in letters and chosen.random() < 0.9:
            continue
        letters.add(piece[0])
        if chosen.random() < 0.12:
            parts.append("[")
            depth += 1
        parts.append(piece)
        if depth and chosen.random() < 0.4:
            parts.append("]")
            depth -= 1
        if chosen.random() < 0.75:
            parts.append(chosen.choice(_LITERALS))
    return "".join(parts) or "yyyy"


def text_of(chosen: random.Random, pattern: str) -> str:
    """A text that a pattern spells, sometimes with something wrong, never blank."""
    moment = _moment(chosen)
    text = "".join(_spelt(chosen, match[0], moment) for match in _TOKEN.finditer(pattern))
    while section := re.search(r"\[([^\[\]]*)\]", text):
        kept = section[1] if chosen.random() < 0.6 else ""
        text = text[: section.start()] + kept + text[section.end() :]
    text = text.replace("[", "").replace("]", "")
    if text and chosen.random() < 0.35:
        place = chosen.randrange(len(text))
        cut, put = chosen.choice(
            [(1, ""), (0, chosen.choice("0123456789+-: ZzaAT/.9")), (1, chosen.choice("0129+-: Z"))]
        )
        text = text[:place] + put + text[place + cut :]
    return text if text.strip() else "x"


def _spelt(chosen: random.Random, token: str, moment: dt.datetime) -> str:
    if token in _SPELLED:
        return _SPELLED[token](moment)
    if token in _ZONE_LETTERS:
        return chosen.choice(_ZONES)
    if token[0] == "S":
        digits = f"{moment.microsecond:06d}000"
        return digits[: chosen.choice([len(token), chosen.randint(1, len(token))])]
    return token[1:-1].replace("''", "'") or "'" if token[0] == "'" else token


def _moment(chosen: random.Random) -> dt.datetime:
    if chosen.random() < 0.3:
        hour, minute, second = chosen.choice([0, 12, 23, 11, 1]), chosen.choice([0, 59, 5]), chosen.choice([0, 59, 7])
        micros = chosen.choice([0, 123456, 999999, 100000])
        day = (chosen.randint(1990, 2030), chosen.randint(1, 12), chosen.randint(1, 28))
        return dt.datetime(*day, hour, minute, second, micros)
    seconds = chosen.randrange(60 * 365 * 86_400)
    return dt.datetime(1975, 1, 1) + dt.timedelta(seconds=seconds, microseconds=chosen.randrange(10**6))
