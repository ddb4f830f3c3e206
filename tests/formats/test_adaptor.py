"""Adaptors against the same function called here: messages, splits, types, modes, and sources that misbehave."""

from __future__ import annotations

import datetime
import os
import random
import struct
import time
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill.formats
from tidemill.ddl import parse_columns
from tidemill.errors import TidemillError
from tidemill.formats.adaptor import pool
from tidemill.formats.adaptor.checking import check_source
from tidemill.formats.adaptor.format import ADAPTOR_OPTIONS, AdaptorFormat
from tidemill.formats.adaptor.process import Process, Task
from tidemill.formats.base import RowError, Rows
from tidemill.formats.registry import lookup

WORDS = '''
def decode(size, data):
    """A row for each word of a message, with its place."""
    assert size == len(data) and type(data) is bytes
    return [(place, word) for place, word in enumerate(data.decode().split())]
'''


def words(data: bytes) -> list[tuple[int, str]]:
    """The twin of ``WORDS``."""
    return list(enumerate(data.decode().split()))


def framed(messages: Iterable[bytes], width: str = "<I") -> bytes:
    return b"".join(struct.pack(width, len(m)) + m for m in messages)


def opened(source: str, columns: str = "place INT, word STRING", **options: Any) -> tidemill.formats.OpenFormat:
    return tidemill.formats.open("adaptor", columns, adaptorSource=source, **options)


def rows_of(found: pa.Table | Iterable[Rows]) -> list[tuple[Any, ...]]:
    if isinstance(found, pa.Table):
        return [tuple(row.values()) for row in found.to_pylist()]
    return [tuple(row.values()) for part in found for row in part.batch.to_pylist()]


def split_rows(data: bytes, cuts: list[int], size: Callable[[], int], **options: str) -> list[tuple[Any, ...]]:
    """Rows of all splits of a file, fed in buffers of any size."""
    schema = parse_columns("place INT, word STRING")
    reader = lookup("adaptor").reader(schema, {"adaptorsource": WORDS, **options}, schema.names)
    found = []
    for start, end in pairwise([0, *cuts, len(data)]):
        split = reader.split(start=start, end=end, file_size=len(data), in_quotes=None, header=None)  # type: ignore
        at, positions = split.read_from, [-1]
        while not split.done:
            stop = min(len(data), at + size())
            rows = split.feed(data[at:stop], stop == len(data))
            assert not rows.errors and list(rows.positions) == sorted(rows.positions)
            for row in range(rows.count):
                message = rows.raw(row)
                assert data.rindex(message, 0, rows.positions[row] + len(message)) <= rows.positions[row]
                assert rows.batch.column(1)[row].as_py() in message.decode().split()
            positions += rows.positions.tolist()
            found += rows_of([rows])
            at = stop
        assert positions == sorted(positions)
    return found


@pytest.mark.parametrize(("width", "options"), [("<I", {}), (">I", {"endianness": "big"}), ("<H", {"sizebytes": "2"})])
def test_framed_messages_are_decoded(width: str, options: dict[str, str], seed: int) -> None:
    chance = random.Random(seed)
    messages = [b" ".join(b"w%d" % chance.randrange(99) for _ in range(chance.randrange(5))) for _ in range(300)]
    expected = [row for m in messages for row in words(m)]
    data = framed(messages, width)
    cuts = sorted(chance.sample(range(1, len(data)), 3))
    for size in (lambda: len(data), lambda: chance.randrange(1, 40), lambda: chance.randrange(100, 2000)):
        assert split_rows(data, cuts, size, **options) == expected


def test_lines_are_messages_wherever_splits_begin(seed: int) -> None:
    chance = random.Random(seed)
    lines = [" ".join(f"ü{chance.randrange(99)}" for _ in range(chance.randrange(4))) for _ in range(200)]
    for end, last in (("\n", "\n"), ("\r\n", "\r\n"), ("\n", "")):
        data = (end.join(lines) + last).encode()
        expected = [row for line in lines for row in words(line.encode())]
        cuts = sorted(chance.sample(range(1, len(data)), 5))
        found = split_rows(data, cuts, lambda: chance.randrange(1, 300), messageframing="lines")
        assert found == expected
    assert rows_of(opened(WORDS, messageFraming="lines").read(b"\xef\xbb\xbfa b\n")) == [(0, "a"), (1, "b")]


TYPES = (
    "a BOOLEAN, b TINYINT, c INT, d BIGINT, e FLOAT, f DOUBLE, g STRING, h BINARY, i DATE, j TIMESTAMP, "
    "k TIMESTAMP_NTZ, l DECIMAL(10, 2), m DECIMAL(38, 10)"
)
NEW_YORK = datetime.timezone(-datetime.timedelta(hours=5))
VALUES: list[dict[str, Any]] = [
    {
        "a": True,
        "b": -128,
        "c": 2**31 - 1,
        "d": -(2**63),
        "e": 0.5,
        "f": 1e300,
        "g": "a\0ü\u2028😀",
        "h": bytes(range(256)),
        "i": datetime.date(1, 1, 1),
        "j": datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, datetime.UTC),
        "k": datetime.datetime(1582, 10, 4, 1, 2, 3, 4),
        "l": Decimal("-99999999.99"),
        "m": Decimal("1234567890123456789012345678.0123456789"),
    },
    dict.fromkeys("abcdefghijklm"),
    {
        "c": 5,
        "f": float("inf"),
        "l": 7,
        "j": datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone(-datetime.timedelta(hours=5))),
    },
    {"f": 3, "e": 2, "l": Decimal("0.005"), "g": "", "h": b""},
]


def test_values_of_all_types() -> None:
    head = "import datetime\nfrom decimal import Decimal\ninf = float('inf')\n"
    source = f"{head}VALUES = {VALUES!r}\ndef decode(size, data):\n    return VALUES"
    found = opened(source, TYPES).read(framed([b"x"])).to_pylist()
    expected = [{name: row.get(name) for name in "abcdefghijklm"} for row in VALUES]
    expected[2] |= {"l": Decimal("7.00"), "j": datetime.datetime(2000, 1, 1, 5, tzinfo=datetime.UTC)}
    expected[3] |= {"f": 3.0, "e": 2.0, "l": Decimal("0.01")}
    assert found == expected
    with pytest.raises(TidemillError, match="TM4004"):
        opened(WORDS, "a ARRAY<INT>")


WRONG = [
    ("BOOLEAN", "1", "bad_bool"),
    ("TINYINT", "128", "bad_int8"),
    ("INT", "1.0", "bad_int32"),
    ("INT", "True", "bad_int32"),
    ("BIGINT", "2**63", "bad_int64"),
    ("DOUBLE", "'1'", "bad_float64"),
    ("STRING", "5", "bad_string"),
    ("STRING", "'\\ud800'", "bad_string"),
    ("BINARY", "'text'", "bad_binary"),
    ("DATE", "datetime.datetime(2000, 1, 1)", "bad_date"),
    ("TIMESTAMP", "datetime.datetime(2000, 1, 1)", "bad_timestamp"),
    ("TIMESTAMP_NTZ", "datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)", "bad_timestamp_ntz"),
    ("DECIMAL(4, 2)", "100", "bad_decimal"),
    ("DECIMAL(4, 2)", "0.5", "bad_decimal"),
]


@pytest.mark.parametrize(("type_", "value", "reason"), WRONG)
def test_values_that_a_column_cannot_hold(type_: str, value: str, reason: str) -> None:
    source = f"import datetime\ndef decode(size, data):\n    return [(1, {value}), (2, None)]"
    data = framed([b"m1", b"m2"])
    for mode, kept in (("PERMISSIVE", [(1, None), (2, None)] * 2), ("DROPMALFORMED", [(2, None)] * 2)):
        errors: list[RowError] = []
        found = opened(source, f"n INT, v {type_}", mode=mode).read(data, errors=errors)
        assert rows_of(found) == kept
        assert [(e.position, e.column, e.reason, e.raw, e.dropped) for e in errors] == [
            (4, "v", reason, b"m1", mode == "DROPMALFORMED"),
            (10, "v", reason, b"m2", mode == "DROPMALFORMED"),
        ]
    with pytest.raises(TidemillError, match="TM4020") as error:
        opened(source, f"n INT, v {type_}", mode="FAILFAST").read(data)
    assert reason in error.value.got
    errors = []
    required = opened(source, f"n INT, v {type_} NOT NULL").read(data, errors=errors)
    assert required.num_rows == 0 and {e.reason for e in errors} == {reason, "null_in_not_null"}


RAISING = """
import json

def decode(size, data):
    text = data.decode()
    if text == "raise":
        raise ValueError("no such side: Q")
    if text == "deep":
        return check(text)
    if text == "exit":
        raise SystemExit(3)
    if text == "short":
        return [(1,)]
    if text == "unknown":
        return [{"place": 1, "other": 2}]
    if text == "number":
        return 5
    if text == "text":
        return ["ab"]
    if text == "generator":
        return late()
    if text == "none":
        return None
    print("noise on standard output")
    return [[0, text]]

def check(text):
    json.loads("{")

def late():
    yield 1, "one"
    raise KeyError("late")
"""


def test_errors_of_the_source_concern_their_message_alone() -> None:
    texts = ["a", "raise", "deep", "b", "exit", "short", "unknown", "number", "text", "generator", "none", "c", "\xff"]
    messages = [t.encode("latin-1") for t in texts]
    errors: list[RowError] = []
    found = opened(RAISING).read(framed(messages), errors=errors)
    assert rows_of(found) == [(0, "a"), (0, "b"), (0, "c")]
    at = {bytes(m): p for m, p in zip(messages, _positions(messages), strict=True)}
    told = {e.raw: e.reason for e in errors}
    assert [(e.position, e.column, e.dropped) for e in errors] == [(at[e.raw], None, True) for e in errors]
    assert told[b"raise"] == "adaptor_raised: ValueError: no such side: Q (line 7 of the adaptor)"
    assert told[b"deep"].startswith("adaptor_raised: JSONDecodeError") and "line 28 of" in told[b"deep"]
    assert told[b"exit"].startswith("adaptor_raised: SystemExit: 3")
    assert told[b"short"] == "adaptor_raised: TypeError: a row has 1 values, and the table has 2 columns"
    assert told[b"unknown"] == "adaptor_raised: TypeError: a row has the unknown column 'other'"
    assert told[b"number"] == "adaptor_raised: TypeError: decode gave int, not an iterable of rows"
    assert told[b"text"] == "adaptor_raised: TypeError: a row is str, not a tuple, list or dict"
    assert "KeyError: 'late' (line 32 of the adaptor)" in told[b"generator"]
    assert "UnicodeDecodeError" in told[b"\xff"] and len(errors) == 9
    with pytest.raises(TidemillError, match="TM4020"):
        opened(RAISING, mode="FAILFAST").read(framed(messages))


def _positions(messages: list[bytes]) -> list[int]:
    found, at = [], 0
    for message in messages:
        found.append(at + 4)
        at += 4 + len(message)
    return found


HALVES = """
def decode(size, data):
    if data == b"text":
        raise ValueError(chr(0xd800))
    if data == b"long":
        raise ValueError(chr(0xdfff) * 1000)
    if data == b"line":
        raise SyntaxError("m", ("<adaptor>", chr(0xd800), 1, chr(0xd800)))
    if data == b"override":
        return [(1, Text(chr(0xd800)))]
    if data == b"key":
        return [{chr(0xd800): 1}]
    return [(1, chr(0xd800)), (2, data.decode())]

class Text(str):
    def encode(self, *_):
        return b""
"""


def test_half_of_a_surrogate_pair_concerns_its_message_alone() -> None:
    messages = [b"a", b"text", b"long", b"line", b"override", b"key", b"b"]
    errors: list[RowError] = []
    found = opened(HALVES).read(framed(messages), errors=errors)
    assert rows_of(found) == [(1, None), (2, "a"), (1, None), (2, "b")]
    told = {e.raw: e.reason for e in errors}
    assert told[b"a"] == told[b"b"] == "bad_string"
    assert told[b"text"] == "adaptor_raised: ValueError: \\ud800 (line 4 of the adaptor)"
    assert told[b"long"].startswith("adaptor_raised: ValueError: \\udfff\\udfff") and len(told[b"long"]) < 2000
    assert told[b"line"].startswith("adaptor_raised: SyntaxError: m") and told[b"override"] == "adaptor_bad_answer"
    assert "unknown column '\\ud800'" in told[b"key"] and len(errors) == 7
    assert pa.array([e.reason for e in errors]).null_count == 0
    with pytest.raises(TidemillError, match="TM8340") as error:
        check_source("raise ValueError(chr(0xd800))")
    assert error.value.got == "line 1: ValueError: \\ud800"


STUBBORN = """
import os

def decode(size, data):
    if data == b"loop":
        while True:
            pass
    if data == b"end":
        os._exit(3)
    if data == b"memory":
        return [(1, bytes(1 << 40).decode())]
    if data == b"stack":
        import ctypes
        ctypes.string_at(0)
    if data == b"garbage":
        for descriptor in range(3, 20):
            try:
                os.write(descriptor, b"\\x05\\0\\0\\0hello" * 3)
            except OSError:
                pass
    return [(size, data.decode())]
"""


def test_a_process_that_ends_costs_its_message_alone() -> None:
    messages = [b"a", b"loop", b"b", b"end", b"c", b"memory", b"d"]
    errors: list[RowError] = []
    found = opened(STUBBORN, adaptorTimeout="300ms").read(framed(messages), errors=errors)
    assert rows_of(found) == [(1, "a"), (1, "b"), (1, "c"), (1, "d")]
    assert [(e.raw, e.reason.split(" (")[0]) for e in errors] == [
        (b"loop", "adaptor_timeout"),
        (b"end", "adaptor_ended"),
        (b"memory", "adaptor_raised: MemoryError: "),
    ]
    for message, reasons in ((b"stack", {"adaptor_ended"}), (b"garbage", {"adaptor_bad_answer", "adaptor_ended"})):
        errors = []
        found = opened(STUBBORN).read(framed([b"a", message, b"b"]), errors=errors)
        assert (b"a" in [r[1].encode() for r in rows_of(found)]) or message == b"garbage"
        assert {e.reason for e in errors} <= reasons and errors


def test_after_three_ends_the_rest_is_recorded() -> None:
    messages = [b"a", b"end", b"b", b"end", b"end", b"c", b"loop", b"d"]
    errors: list[RowError] = []
    began = time.monotonic()
    found = opened(STUBBORN, adaptorTimeout="1 hour").read(framed(messages), errors=errors)
    assert rows_of(found) == [(1, "a"), (1, "b")] and time.monotonic() - began < 300
    assert [(e.raw, e.reason) for e in errors] == [
        *((b"end", "adaptor_ended"),) * 3,
        *((m, "adaptor_given_up") for m in (b"c", b"loop", b"d")),
    ]


CONFINED = """
import os, socket, subprocess, threading

def decode(size, data):
    what = data.decode()
    try:
        if what == "network":
            socket.create_connection(("127.0.0.1", 9), timeout=1)
        if what == "processes":
            subprocess.run(["/bin/true"])
        if what == "fork":
            os.fork()
        if what == "files":
            open("PATH", "a").close()
        if what == "remove":
            os.unlink("PATH")
        if what == "thread":
            thread = threading.Thread(target=len, args=("",))
            thread.start()
            thread.join()
        if what == "environment":
            return [(0, " ".join(sorted(os.environ)))]
        if what == "directory":
            return [(0, os.getcwd() + " " + " ".join(os.listdir()))]
        if what == "descriptors":
            return [(sum(os.path.exists(f"/proc/self/fd/{n}") for n in range(64)), "")]
    except OSError as error:
        return [(error.errno, "refused")]
    return [(0, "done")]
"""


def test_what_a_process_is_kept_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").write_text("x")
    monkeypatch.setenv("A_SECRET", "x")
    held = set(check_source(WORDS))
    assert "memory" in held
    source = CONFINED.replace("PATH", str(tmp_path / "there"))
    what = ["network", "processes", "fork", "files", "remove", "thread", "environment", "directory", "descriptors"]
    inheritable = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(inheritable, True)
    found = dict(zip(what, rows_of(opened(source).read(framed([w.encode() for w in what]))), strict=True))
    os.close(inheritable)
    for asked, needed in (("processes", "processes"), ("fork", "processes"), ("files", "files"), ("remove", "files")):
        if needed in held:
            assert found[asked][1] == "refused", asked
    if "network" in held:
        assert found["network"][1] == "refused" and found["network"][0] != 111  # a refused connection is one
    if "files" in held:
        assert (tmp_path / "there").exists()
    assert found["thread"] == (0, "done")
    assert found["environment"][1] == "LANG OMP_NUM_THREADS OPENBLAS_NUM_THREADS"
    directory, _, content = found["directory"][1].partition(" ")
    assert "tidemill-adaptor-" in directory and not content
    assert found["descriptors"][0] <= 7
    pool.close_all()
    assert not Path(directory).exists()


def test_sources_that_cannot_be_loaded() -> None:
    for source, got in (
        ("def decode(:\n    pass", "line 1: SyntaxError: "),
        ("x = 1", "TypeError: there is no function decode"),
        ("decode = 5", "TypeError: there is no function decode"),
        ("import nothing_of_this_name", "line 1: ModuleNotFoundError: "),
        ("\n\nraise ValueError('at once')", "line 3: ValueError: at once"),
        ("def decode(size, data):\n    return []\n\0", "ValueError: "),
    ):
        with pytest.raises(TidemillError, match="TM8340") as error:
            check_source(source)
        assert got.split(": ")[-1] in error.value.got and (
            not got.startswith("line") or error.value.got.startswith(got)
        )


def test_what_happened_to_a_process_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, endless = "while True: pass", "import time\ntime.sleep(1000)"
    pipe = "import os\nfor d in range(3, 20):\n  try:\n    os.write(d, b'\\5\\0\\0\\0hello')\n  except OSError: pass"
    for source, got in (
        ("import os\nos._exit(7)", "the process ended with code 7"),
        ("import os\nos._exit(0)", "the process ended with code 0"),
        ("import ctypes\nctypes.string_at(0)", "the process was ended by signal 11"),
        (pipe, "the source wrote into the pipe"),
        (loop, "a time-out"),
        (endless, "a time-out"),
    ):
        monkeypatch.setattr("tidemill.formats.adaptor.process._START_SECONDS", 1.0 if got == "a time-out" else 10.0)
        with pytest.raises(TidemillError, match="TM8345") as error:
            check_source(source)
        assert error.value.got.startswith(got) and error.value.hint, error.value
    monkeypatch.setattr("tidemill.formats.adaptor.process._START_SECONDS", 30.0)
    with pytest.raises(TidemillError, match="TM8345") as error:
        Process(Task(loop, (), (), 1, 512 << 20, -2.0))  # what the limit of computing time does
    assert error.value.got.startswith("a time-out")


def test_processes_are_reused_and_end(seed: int) -> None:
    pool.close_all()
    made: list[Process] = []
    before = Process.__init__

    def counting(self: Process, *given: Any) -> None:
        before(self, *given)
        made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Process, "__init__", counting)
        format_ = opened(WORDS)
        for _ in range(20):
            assert rows_of(format_.read(framed([b"a b"]))) == [(0, "a"), (1, "b")]
    assert len(made) == 1
    pool.close_all()
    assert made[0]._process.poll() is not None


def test_options_are_checked() -> None:
    for wrong in ({"adaptorTimeout": "0s"}, {"adaptorMemory": "1k"}, {"messageFraming": "x"}, {"sizeBytes": "3"}):
        with pytest.raises(TidemillError, match="TM4003"):
            opened(WORDS, **wrong)
    for source in ("", " ", "#" * 70_000):
        with pytest.raises(TidemillError, match="TM4003"):
            opened(source)
    assert AdaptorFormat.option_names == ADAPTOR_OPTIONS.keys
