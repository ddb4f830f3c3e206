"""The process of an adaptor: takes messages, calls ``decode``, and gives columns back as JSON. Standard library only.

It is started as a script. A request is a number of bytes (4, little-endian) and as many bytes: first a JSON object that
says what to decode, then for each batch ``(count, sizes, bytes of all messages)``. An answer is a number of bytes and a
JSON object. Nothing is taken from the environment, and nothing that the adaptor prints is read.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import importlib.util
import json
import operator
import os
import struct
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

_NAME = "<adaptor>"
_MOST_TEXT = 300
_EPOCH = datetime.datetime(1970, 1, 1)
_DAY_ZERO = _EPOCH.date().toordinal()
_MICROSECOND = datetime.timedelta(microseconds=1)
_ABSENT = object()

Encode = Callable[[Any], Any]


class _FlawError(Exception):
    """A value that its column cannot hold."""


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _FlawError
    return value


def _integer(bits: int) -> Encode:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def encode(value: Any) -> int:
        if isinstance(value, bool) or not low <= (found := operator.index(value)) <= high:
            raise _FlawError
        return found

    return encode


def _double(value: Any) -> float:
    if isinstance(value, bool | str | bytes):
        raise _FlawError
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _FlawError
    value.encode()
    return value


def _binary(value: Any) -> str:
    return base64.b64encode(memoryview(value)).decode()


def _date(value: Any) -> int:
    if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
        raise _FlawError
    return value.toordinal() - _DAY_ZERO


def _timestamp(value: Any) -> int:
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        raise _FlawError
    return (value.astimezone(datetime.UTC).replace(tzinfo=None) - _EPOCH) // _MICROSECOND


def _local(value: Any) -> int:
    if not isinstance(value, datetime.datetime) or value.tzinfo is not None:
        raise _FlawError
    return (value - _EPOCH) // _MICROSECOND


def _decimal(precision: int, scale: int) -> Encode:
    step, context = decimal.Decimal(1).scaleb(-scale), decimal.Context(prec=precision)

    def encode(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
            raise _FlawError
        found = decimal.Decimal(value).quantize(step, decimal.ROUND_HALF_UP, context)
        if not found.is_finite():
            raise _FlawError
        return format(found, "f")

    return encode


_PLAIN: dict[str, Encode] = {
    "bool": _boolean,
    "double": _double,
    "text": _text,
    "binary": _binary,
    "date": _date,
    "timestamp": _timestamp,
    "local": _local,
}


def _encoder(kind: list[Any]) -> Encode:
    name, *more = kind
    if name == "int":
        return _integer(*more)
    return _decimal(*more) if name == "decimal" else _PLAIN[name]


class _Decoder:
    """Calls an adaptor for batches of messages.

    ``columns`` are ``(name, kind)`` of all columns of the table; ``wanted`` says which are given back, in their order.
    """

    def __init__(self, decode: Callable[[int, bytes], Any], task: Mapping[str, Any]) -> None:
        self._decode = decode
        self._names = [name for name, _ in task["columns"]]
        self._wanted = [(i, _encoder(task["columns"][i][1])) for i in task["wanted"]]
        self._most = int(task["rows"])

    def batch(self, body: bytes) -> dict[str, Any]:
        """``counts`` of rows, ``columns``, ``failed`` messages ``(message, error, line)`` and ``flaws`` in values
        ``(row, place among the wanted)``.
        """
        (count,) = struct.unpack_from("<I", body)
        sizes = struct.unpack_from(f"<{count}I", body, 4)
        at, counts, failed = 4 + 4 * count, [], []
        columns: list[list[Any]] = [[] for _ in self._wanted]
        flaws: list[tuple[int, int]] = []
        total = 0
        for message, size in enumerate(sizes):
            try:
                rows = self._rows(self._decode(size, body[at : at + size]))
            except BaseException as error:
                failed.append((message, *_told(error)))
                rows = []
            at += size
            for row in rows:
                for place, (value, (_, encode)) in enumerate(zip(row, self._wanted, strict=True)):
                    columns[place].append(None if value is None else _encoded(value, encode, total, place, flaws))
                total += 1
            counts.append(len(rows))
        return {"counts": counts, "columns": columns, "failed": failed, "flaws": flaws}

    def _rows(self, found: Any) -> list[list[Any]]:
        """The wanted values of all rows that ``decode`` gave."""
        if found is None:
            return []
        if not isinstance(found, Iterable) or isinstance(found, str | bytes | Mapping):
            raise TypeError(f"decode gave {type(found).__name__}, not an iterable of rows")
        rows = []
        for row in found:
            rows.append(self._values(row))
            if len(rows) > self._most:
                raise ValueError(f"more than {self._most} rows of one message")
        return rows

    def _values(self, row: Any) -> list[Any]:
        if isinstance(row, Mapping):
            unknown = row.keys() - set(self._names)
            if unknown:
                raise TypeError(f"a row has the unknown column {sorted(map(str, unknown))[0]!r}")
            return [row.get(self._names[i]) for i, _ in self._wanted]
        if not isinstance(row, tuple | list):
            raise TypeError(f"a row is {type(row).__name__}, not a tuple, list or dict")
        if len(row) != len(self._names):
            raise TypeError(f"a row has {len(row)} values, and the table has {len(self._names)} columns")
        return [row[i] for i, _ in self._wanted]


def _encoded(value: Any, encode: Encode, row: int, place: int, flaws: list[tuple[int, int]]) -> Any:
    try:
        return encode(value)
    except Exception:  # whatever a value does when it is looked at
        flaws.append((row, place))
        return None


def _told(error: BaseException) -> tuple[str, int | None]:
    """What an error says, and the line of the adaptor that raised it."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == _NAME]
    if isinstance(error, SyntaxError) and error.filename == _NAME:
        lines.append(error.lineno)
    try:
        text = str(error.msg if isinstance(error, SyntaxError) else error)
    except Exception as unprintable:  # of a class of the adaptor's own
        text = f"(its text raises {type(unprintable).__name__})"
    return f"{type(error).__name__}: {text}"[:_MOST_TEXT], lines[-1] if lines else None


def _load(source: str) -> Callable[[int, bytes], Any]:
    """The function ``decode`` of a source. Raises whatever the source does, and TypeError where there is none."""
    module = types.ModuleType("adaptor")
    sys.modules["adaptor"] = module
    exec(compile(source, _NAME, "exec"), module.__dict__)
    decode = module.__dict__.get("decode", _ABSENT)
    if not callable(decode):
        raise TypeError("there is no function decode(size, bytes)")
    found: Callable[[int, bytes], Any] = decode
    return found


def _restrictions() -> Any:
    spec = importlib.util.spec_from_file_location("restrictions", Path(__file__).with_name("restrictions.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _read(file: Any) -> bytes | None:
    head = file.read(4)
    return None if len(head) < 4 else file.read(struct.unpack("<I", head)[0])


def _write(file: Any, answer: dict[str, Any]) -> None:
    body = json.dumps(answer, separators=(",", ":")).encode()
    file.write(struct.pack("<I", len(body)) + body)
    file.flush()


def main() -> None:
    """Answer requests until there are no more."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    task = json.loads(_read(requests) or b"{}")
    restrictions = _restrictions()
    held = restrictions.restrict(task["memory"])
    try:
        restrictions.limit_time(task["seconds"])
        decoder = _Decoder(_load(task["source"]), task)
    except BaseException as error:
        text, line = _told(error)
        _write(answers, {"error": text, "line": line})
        return
    _write(answers, {"held": held})
    while (body := _read(requests)) is not None:
        restrictions.limit_time(task["seconds"])
        _write(answers, decoder.batch(body))


if __name__ == "__main__":
    main()
