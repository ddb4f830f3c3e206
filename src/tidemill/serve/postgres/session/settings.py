"""Settings of a connection: SET and SHOW."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from tidemill.errors import TidemillError
from tidemill.serve.postgres.query.session_functions import VERSION
from tidemill.zones import fixed_offset

REPORTED = (
    *("server_version", "server_encoding", "client_encoding", "application_name", "is_superuser", "TimeZone"),
    *("session_authorization", "DateStyle", "IntervalStyle", "integer_datetimes", "standard_conforming_strings"),
    *("default_transaction_read_only", "in_hot_standby"),
)
"""Told to clients at the start and when they change, spelt as PostgreSQL spells them."""
_FIXED = ("server_version", "server_encoding", "integer_datetimes", "is_superuser", "in_hot_standby",
          "server_version_num", "max_identifier_length", "block_size", "lc_collate", "lc_ctype")  # fmt: skip
_UNITS = {"": 0.001, "us": 0.000001, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_LONGEST_NAME, _LONGEST_VALUE, _MOST = 63, 4096, 500


class ConnectionSettings:
    """What SET sets. A transaction that is rolled back takes its changes back; those of SET LOCAL end with it.

    Parameters
    ----------
    zone : str
        The mill's time zone, in which timestamps are shown unless the client sets another.
    """

    def __init__(self, zone: str, user: str) -> None:
        self._defaults = {
            "server_version": VERSION.removeprefix("PostgreSQL "),
            "server_version_num": "150000",
            "server_encoding": "UTF8",
            "client_encoding": "UTF8",
            "application_name": "",
            "is_superuser": "off",
            "session_authorization": user,
            "datestyle": "ISO, MDY",
            "intervalstyle": "postgres",
            "timezone": zone,
            "integer_datetimes": "on",
            "standard_conforming_strings": "on",
            "default_transaction_read_only": "on",
            "transaction_read_only": "on",
            "in_hot_standby": "off",
            "search_path": '"$user", public',
            "transaction_isolation": "repeatable read",
            "default_transaction_isolation": "repeatable read",
            "statement_timeout": "0",
            "extra_float_digits": "1",
            "bytea_output": "hex",
            "client_min_messages": "notice",
            "max_identifier_length": "63",
            "lc_collate": "C.UTF-8",
            "lc_ctype": "C.UTF-8",
            "block_size": "8192",
            "idle_in_transaction_session_timeout": "0",
            "lock_timeout": "0",
            "max_index_keys": "32",
            "row_security": "on",
        }
        self._set: dict[str, str] = {}
        self._local: dict[str, str] = {}
        self._before: dict[str, str] | None = None

    def values(self) -> dict[str, str]:
        """Everything that SHOW ALL shows."""
        return {**self._defaults, **self._set, **self._local}

    def start_value(self, name: str, value: str) -> None:
        """A setting of the start-up message, which RESET goes back to. Errors as :meth:`set`."""
        self.set(name, value)
        self._defaults[name.lower()] = self._set.pop(name.lower())

    def get(self, name: str) -> str:
        """The value of a setting. TM8119 for one that there is not."""
        found = self.values().get(name.lower())
        if found is None:
            raise _cannot(name, "there is no such setting", "SHOW ALL")
        return found

    def set(self, name: str, value: str | None, local: bool = False) -> None:
        """Set a setting, or take it back to its default (None). TM8119 for a value that it cannot have."""
        name = name.lower()
        if len(name) > _LONGEST_NAME or len(value or "") > _LONGEST_VALUE or len(self._set) >= _MOST:
            raise _cannot(name[:_LONGEST_NAME], "too long, or too many", "")
        if value is None:
            self._set.pop(name, None)
            self._local.pop(name, None)
            return
        if name in _FIXED and value != self._defaults[name]:
            raise _cannot(name, value, "it cannot be changed")
        check = _CHECKS.get(name)
        given = check(value) if check is not None else value
        if given is None:
            raise _cannot(name, value, _HINTS.get(name, ""))
        (self._local if local else self._set)[name] = given

    def reset_all(self) -> None:
        """Take everything back to its default."""
        self._set.clear()
        self._local.clear()

    def state(self) -> tuple[dict[str, str], dict[str, str]]:
        """What is set for the session, and for the transaction alone."""
        return dict(self._set), dict(self._local)

    def take_back(self, state: tuple[dict[str, str], dict[str, str]]) -> None:
        """Set again what was set: the inverse of :meth:`state`."""
        self._set, self._local = dict(state[0]), dict(state[1])

    def begin(self) -> None:
        """A transaction begins."""
        self._before = dict(self._set)

    def end(self, committed: bool) -> None:
        """A transaction ends."""
        self._local.clear()
        if not committed and self._before is not None:
            self._set = self._before
        self._before = None

    def reported(self) -> Mapping[str, str]:
        """The settings that the server reports to clients."""
        values = self.values()
        return {name: values[name.lower()] for name in REPORTED}

    @property
    def zone(self) -> str:
        """The time zone in which timestamps are shown."""
        return self.values()["timezone"]

    def statement_seconds(self, most: float) -> float:
        """How long a statement may take: ``statement_timeout``, at most what the server allows; 0 for no limit."""
        own = _seconds(self.values()["statement_timeout"]) or 0.0
        return min(x for x in (own, most) if x > 0) if own > 0 or most > 0 else 0.0


def options_of(text: str) -> Iterator[tuple[str, str]]:
    """The settings in the parameter ``options`` of a start-up message: ``-c name=value``, ``--name=value``."""
    for first, second in re.findall(r"-c\s*((?:\\.|\S)+)|--((?:\\.|\S)+)", text):
        name, _, value = re.sub(r"\\(.)", r"\1", first or second).partition("=")
        yield name.replace("-", "_"), value


def _cannot(name: str, got: str, hint: str) -> TidemillError:
    return TidemillError("TM8119", "this setting cannot be so", got=f"{name}: {got}"[:300], hint=hint)


def _zone(value: str) -> str | None:
    if re.fullmatch(r"[+-]?\d{1,2}(\.\d+)?", value):
        minutes = round(float(value) * 60)
        value = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    if value.lower() in ("default", "local"):
        return None
    try:
        fixed_offset(value)
    except TidemillError:
        return None
    return value


def _encoding(value: str) -> str | None:
    return "UTF8" if value.lower().replace("-", "") in ("utf8", "unicode") else None


def _style(value: str) -> str | None:
    return "ISO, MDY" if value.upper().startswith("ISO") or value.upper() in ("MDY", "DEFAULT") else None


def _one_of(*values: str) -> Callable[[str], str | None]:
    return lambda value: values[0] if value.lower() in values else None


def _seconds(value: str) -> float | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)?", value.strip())
    return None if match is None else float(match[1]) * _UNITS[match[2] or ""]


def _duration(value: str) -> str | None:
    return value if _seconds(value) is not None else None


_CHECKS: dict[str, Callable[[str], str | None]] = {
    "timezone": _zone,
    "client_encoding": _encoding,
    "datestyle": _style,
    "intervalstyle": _one_of("postgres"),
    "bytea_output": _one_of("hex"),
    "standard_conforming_strings": _one_of("on", "true", "1", "yes"),
    "statement_timeout": _duration,
}
_HINTS = {
    "timezone": "a region, such as Europe/Berlin, or an offset, such as +01:00",
    "client_encoding": "everything is UTF8",
    "datestyle": "dates are written as in ISO 8601",
    "intervalstyle": "it is postgres",
    "bytea_output": "it is hex",
    "standard_conforming_strings": "it is on",
    "statement_timeout": "milliseconds, or a number with ms, s, min or h",
}
