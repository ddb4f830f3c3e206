"""Avro: fastavro writes values of random schemas, and says what they are."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from guarded_memory import guarded
from tests.mill_factory import MillFactory

from tidemill.errors import FormatError
from tidemill.formats.avro.columns import BadValueError, Decoder
from tidemill.formats.avro.format import AvroFormat
from tidemill.formats.avro.schema import SchemaError, parse_schema
from tidemill.schema import Field
from tidemill.schema import Schema as Columns

Schema = Any
"""As JSON has it."""

_PLAIN = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
)
_EPOCH = datetime(1970, 1, 1)


class Schemas:
    """Random schemas; named types have names of their own.

    Those that are ``simple`` have values that Python has, too, and unions with null alone.
    """

    def __init__(self, chance: random.Random, simple: bool = False) -> None:
        self._chance = chance
        self._simple = simple
        self._names = iter(range(10**6))

    def record(self, depth: int = 3) -> Schema:
        fields = [{"name": f"f{i}", "type": self.some(depth - 1)} for i in range(self._chance.randrange(1, 5))]
        return {"type": "record", "name": f"R{next(self._names)}", "fields": fields}

    def some(self, depth: int) -> Schema:
        chance = self._chance
        match chance.randrange(12):
            case 0 if depth > 0:
                return {"type": "array", "items": self.some(depth - 1)}
            case 1 if depth > 0:
                return {"type": "map", "values": self.some(depth - 1)}
            case 2 if depth > 0:
                return self.record(depth)
            case 3 | 4 | 5 if depth > 0:
                return self._union(depth)
            case 6:
                return {"type": "enum", "name": f"E{next(self._names)}", "symbols": ["A", "B", "C"]}
            case 7:
                size = chance.choice((0, 1, 5))
                return {"type": "fixed", "name": f"F{next(self._names)}", "size": size}
            case 8 | 9 if not self._simple:
                return chance.choice(_LOGICAL)
            case 10:
                decimal = {"logicalType": "decimal", "precision": 38, "scale": 2}
                return {"type": "fixed", "name": f"D{next(self._names)}", "size": 20, **decimal}
        return chance.choice(_PLAIN)

    def _union(self, depth: int) -> Schema:
        chance = self._chance
        if self._simple:
            return chance.choice((["null", self.record(depth - 1)], [chance.choice(_PLAIN[1:]), "null"], ["string"]))
        kinds = chance.sample(("int", "string", "boolean", "bytes", "record"), chance.choice((1, 1, 1, 2, 3)))
        branches = [self.record(depth - 1) if kind == "record" else kind for kind in kinds]
        if chance.randrange(4):
            branches.insert(chance.randrange(len(branches) + 1), "null")
        if chance.randrange(8) == 0:
            return chance.choice((["int", "long"], ["null", "double", "float"]))
        return branches


def value(schema: Schema, chance: random.Random) -> tuple[Any, Any]:
    """A random value as fastavro writes it, and as Arrow has it."""
    if isinstance(schema, list):
        return _of_union(schema, chance)
    kind = schema if isinstance(schema, str) else schema["type"]
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    if logical == "decimal":
        digits = min(schema["precision"], chance.randrange(1, 39))
        made = Decimal(chance.randrange(-(10**digits) + 1, 10**digits)).scaleb(-schema["scale"])
        return made, made
    if logical == "date":
        made = date(1970, 1, 1) + timedelta(chance.randrange(-(10**5), 10**5))
        return made, made
    if logical is not None:
        unit = 1000 if logical.endswith("millis") else 1
        at = _EPOCH + timedelta(microseconds=chance.randrange(-(10**13), 10**13) // unit * unit)
        at = at if logical.startswith("local") else at.replace(tzinfo=UTC)
        return at, at
    made: Any = None
    match kind:
        case "boolean":
            made = bool(chance.randrange(2))
        case "int" | "long":
            bits = 32 if kind == "int" else 64
            made = chance.choice((0, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), chance.randrange(-999, 999)))
        case "float":
            made = float(np.float32(chance.choice((0.5, -1e30, chance.random()))))
        case "double":
            made = chance.choice((-0.0, 1e300, chance.random()))
        case "bytes" | "fixed":
            made = chance.randbytes(chance.randrange(9) if kind == "bytes" else schema["size"])
        case "string":
            made = "".join(chance.choice("aé語😀\0") for _ in range(chance.randrange(5)))
        case "enum":
            made = chance.choice(schema["symbols"])
        case "record":
            pairs = {field["name"]: value(field["type"], chance) for field in schema["fields"]}
            return {n: given for n, (given, _) in pairs.items()}, {n: held for n, (_, held) in pairs.items()}
        case "array":
            items = [value(schema["items"], chance) for _ in range(chance.randrange(4))]
            return [given for given, _ in items], [held for _, held in items]
        case "map":
            entries = {f"k{i}": value(schema["values"], chance) for i in range(chance.randrange(3))}
            return {k: given for k, (given, _) in entries.items()}, [(k, held) for k, (_, held) in entries.items()]
    return made, made


def _of_union(schema: list[Any], chance: random.Random) -> tuple[Any, Any]:
    real = [branch for branch in schema if branch != "null"]
    branch = chance.choice(schema)
    given, held = value(branch, chance)
    kinds = {str(b) for b in real}
    if branch == "null":
        return None, None
    name = branch["name"] if isinstance(branch, dict) and "name" in branch else branch
    given = (name, given) if isinstance(name, str) else given
    if len(real) == 1 or kinds in ({"int", "long"}, {"float", "double"}):
        return given, held
    return given, {f"member{i}": held if b is branch else None for i, b in enumerate(real)}


def written(schema: Schema, value_: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value_)
    return out.getvalue()


def decoded(
    schema: Schema, messages: list[bytes], chosen: frozenset[str] | None = None
) -> tuple[pa.RecordBatch, list[int]]:
    """What the decoder makes of messages that lie at the end of memory that may be read."""
    root = parse_schema(json.dumps(schema))
    sizes = np.array([len(m) for m in messages], np.int64)
    decoder = Decoder(root, frozenset(root.names) if chosen is None else chosen)
    with guarded(b"".join(messages), at_end=True) as held:
        batch, codes = decoder.of_messages(np.frombuffer(held, np.uint8), np.cumsum(sizes) - sizes, sizes)
    batch.validate(full=True)
    return batch, codes.tolist()


def test_random_schemas(seed: int) -> None:
    """Values of all types; and of some fields alone."""
    chance = random.Random(seed)
    for _ in range(120):
        schema = Schemas(chance).record()
        parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
        pairs = [value(schema, chance) for _ in range(chance.randrange(1, 12))]
        messages = [written(parsed, given) for given, _ in pairs]
        batch, codes = decoded(schema, messages)
        assert not any(codes)
        assert batch.to_pylist() == [held for _, held in pairs], schema
        names = [field["name"] for field in schema["fields"]]
        some = chance.sample(names, chance.randrange(len(names) + 1))
        batch, _ = decoded(schema, messages, frozenset(some))
        assert batch.to_pylist() == [{n: held[n] for n in names if n in some} for _, held in pairs]


def test_malformed_values(seed: int) -> None:
    """Whatever bytes are read as whole are what fastavro reads of them; those that are cut are malformed."""
    chance = random.Random(seed)
    read = 0
    for _ in range(150):
        schema = Schemas(chance, simple=True).record()
        parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
        messages = [written(parsed, value(schema, chance)[0]) for _ in range(6)]
        cut = [m[: chance.randrange(len(m))] for m in messages if m]
        alone, _ = _decoded_or_not(schema, messages)
        mixed = [(m, True) for m in messages]
        for message in cut:
            mixed.insert(chance.randrange(len(mixed) + 1), (message, False))
        batch, codes = _decoded_or_not(schema, [m for m, _ in mixed])
        assert (batch is None) == (alone is None)
        if batch is not None and alone is not None:
            assert [not code for code in codes] == [whole for _, whole in mixed]
            assert batch.equals(alone)
        for message in messages:
            damaged = bytearray(message)
            for _ in range(chance.randrange(1, 3)):
                if damaged:
                    damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            batch, codes = _decoded_or_not(schema, [bytes(damaged)])
            if batch is None or codes[0]:
                continue
            read += 1
            source = io.BytesIO(bytes(damaged))
            expected = _plain(fastavro.schemaless_reader(source, parsed), schema)
            assert source.tell() == len(damaged)
            assert repr(batch.to_pylist()) == repr([expected]), schema
    assert read > 50


def _decoded_or_not(schema: Schema, messages: list[bytes]) -> tuple[pa.RecordBatch | None, list[int]]:
    try:
        return decoded(schema, messages)
    except BadValueError:
        return None, []


def _plain(held: Any, schema: Schema) -> Any:
    """What fastavro reads, as Arrow has it."""
    if isinstance(schema, list):
        return None if held is None else _plain(held, next(branch for branch in schema if branch != "null"))
    match schema if isinstance(schema, str) else schema["type"]:
        case "record":
            return {f["name"]: _plain(held[f["name"]], f["type"]) for f in schema["fields"]}
        case "array":
            return [_plain(item, schema["items"]) for item in held]
        case "map":
            return [(k, _plain(v, schema["values"])) for k, v in held.items()]
    return held


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_files(mill_factory: MillFactory, tmp_path: Path, seed: int, codec: str) -> None:
    """Columns are inferred; many blocks; a damaged file is set aside, others go on."""
    chance = random.Random(seed)
    fields = {"k": "long", "s": ["null", "string"], "d": _LOGICAL[4], "a": {"type": "array", "items": "int"}}
    schema = {"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    rows = []
    for number in range(3):
        pairs = [value(schema, chance) for _ in range(200)]
        with (tmp_path / f"{number}.avro").open("wb") as file:
            fastavro.writer(file, schema, [given for given, _ in pairs], codec=codec, sync_interval=500)
        rows += [held for _, held in pairs]
    whole = (tmp_path / "0.avro").read_bytes()
    (tmp_path / "cut.avro").write_bytes(whole[: len(whole) // 2])
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t USING avro OPTIONS (path '{tmp_path}/*.avro', fileAttempts '1')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
    list(mill.drain())
    assert sorted(mill.read("v").to_pylist(), key=repr) == sorted(rows, key=repr)
    errors = {Path(r["path"]).name: r["error"] for r in mill.read("t__files").to_pylist() if r["error"]}
    assert list(errors) == ["cut.avro"]
    assert "TM4041" in errors["cut.avro"]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("nothing", "there is no type nothing"),
        ('"int"', "not a record"),
        ('{"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}', "holds itself"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "X"}]}', "there is no type X"),
        ('{"type": "record", "name": "R"}', "no fields"),
        ('{"type": "record", "fields": []}', "without a name"),
        ("[" * 100_000, "not JSON"),
        ('{"type": "record", "name": "R", "fields": 5}', "no fields"),
        ('{"type": "record", "name": "R", "fields": [5]}', "no fields"),
        ('{"type": "record", "name": "R", "fields": [{"name": "\\ud800", "type": "int"}]}', "no fields"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": '
            '{"type": "enum", "name": "E", "symbols": ["\\ud800"]}}]}',
            "no symbols",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": '
            + '{"type": "array", "items": ' * 200
            + '"int"'
            + "}" * 200
            + "}]}",
            "within each other",
        ),
    ],
)
def test_texts_that_are_no_schema(schema: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        parse_schema(schema)


def test_names_and_namespaces() -> None:
    """Types are named once and meant again; namespaces are inherited."""
    inner = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": ["null", "n.s.In"]}, {"name": "c", "type": "In"}]
    schema = {"type": "record", "name": "Out", "namespace": "n.s", "fields": fields}
    given = {"a": {"x": 1}, "b": {"x": 2}, "c": {"x": 3}}
    message = written(fastavro.parse_schema(json.loads(json.dumps(schema))), given)
    assert decoded(schema, [message])[0].to_pylist() == [given]
    assert decoded({**schema, "namespace": None, "name": "n.s.Out"}, [message])[0].to_pylist() == [given]
    reference = json.dumps({**inner, "namespace": "n.s"})
    alone = {"type": "record", "name": "O", "fields": [{"name": "a", "type": "n.s.In"}]}
    assert parse_schema(json.dumps(alone), [reference]).schema.names == ["a"]


def test_values_that_types_do_not_hold() -> None:
    """A number of too many digits, a text that is none, a time that is too late."""
    number = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 0}
    for type_, message, reason in (
        (number, b"\x04\x03\xe8", "bad_decimal"),
        (number, bytes([2 * 17]) + b"\x01" + bytes(16), "bad_decimal"),
        ("string", b"\x02\xff", "bad_utf8"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xff" * 9 + b"\x01", "bad_timestamp"),
    ):
        schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": type_}]}
        with pytest.raises(BadValueError) as raised:
            decoded(schema, [b"\0", message, b"\0", message])
        assert (raised.value.reason, raised.value.values) == (reason, [1, 3])
        lists = {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": type_}}]}
        with pytest.raises(BadValueError) as raised:
            decoded(lists, [b"\x02" + message + b"\0"])
        assert (raised.value.reason, raised.value.values) == (reason, None)
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": number}]}
    assert decoded(schema, [bytes([2 * 18]) + b"\xff" * 17 + b"\xfe"])[0].to_pylist() == [{"a": Decimal(-2)}]


def test_damaged_files(seed: int) -> None:
    """A file that is cut or has a wrong bit has an error with a number, or is read: never another error."""
    chance = random.Random(seed)
    schema = {"type": "record", "name": "R", "fields": [{"name": "k", "type": "long"}, {"name": "s", "type": "string"}]}
    pairs = [value(schema, chance) for _ in range(50)]
    columns = Columns((Field("k", pa.int64()), Field("s", pa.string())))
    numbers = set()
    for codec in ("null", "deflate", "snappy", "zstandard", "bzip2", "xz"):
        out = io.BytesIO()
        fastavro.writer(out, schema, [given for given, _ in pairs], codec=codec, sync_interval=200)
        whole = out.getvalue()
        assert read(whole, columns) == [held for _, held in pairs]
        for _ in range(40):
            damaged = bytearray(whole)
            if chance.randrange(3):
                damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            else:
                del damaged[chance.randrange(len(damaged)) :]
            try:
                read(bytes(damaged), columns)
            except FormatError as error:
                numbers.add(error.number)
    assert "TM4041" in numbers
    assert numbers <= {"TM4041", "TM4042", "TM4044"}


def read(data: bytes, columns: Columns) -> list[dict[str, Any]]:
    """The rows of a file."""
    reader = AvroFormat().reader(columns, {}, columns.names)
    found = reader.rows(io.BytesIO(data), start=0, end=len(data), file_size=len(data))
    return [row for rows in found for row in rows.batch.to_pylist()]


def test_counts_of_blocks() -> None:
    """Each block is checked by itself, and one of values without bytes has a limit."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "k", "type": "int"}]}
    out = io.BytesIO()
    fastavro.writer(out, schema, [])
    head, sync = out.getvalue(), out.getvalue()[-16:]
    columns = Columns((Field("k", pa.int32()),))
    assert read(head + b"\x04\x04\x02\x04" + sync, columns) == [{"k": 1}, {"k": 2}]
    for blocks in (
        b"\x02\x04\x02\x04" + sync + b"\x04\x02\x06" + sync,  # three values, of which the first has two
        b"\xfe\xff\xff\xff\x0f\x04\x02\x04" + sync,
    ):
        with pytest.raises(FormatError, match="TM4041"):
            read(head + blocks, columns)
    out = io.BytesIO()
    fastavro.writer(out, {**schema, "fields": [{"name": "n", "type": "null"}]}, [])
    with pytest.raises(FormatError, match="TM4041"):
        read(
            out.getvalue() + b"\xfe\xff\xff\xff\xff\xff\x0f\0" + out.getvalue()[-16:],
            Columns((Field("n", pa.int32()),)),
        )


def test_rows_do_not_depend_on_what_a_view_needs() -> None:
    """A value that its column cannot hold is found, whichever columns are needed."""
    fields = [{"name": "a", "type": "int"}, {"name": "b", "type": ["null", "bytes"]}]
    schema = {"type": "record", "name": "R", "fields": fields}
    columns = Columns((Field("a", pa.int64()), Field("b", pa.string())))
    messages = [written(schema, {"a": k, "b": b"\xff" if k % 3 == 1 else b"x"}) for k in range(9)]
    sizes = np.array([len(m) for m in messages], np.int64)
    data = np.frombuffer(b"".join(messages), np.uint8)
    for needed in (["a"], ["b"], ["b", "a"], []):
        values = AvroFormat().values(columns, {"avroSchema": json.dumps(schema)}, needed)
        rows = values.build(data, 0, np.cumsum(sizes) - sizes, sizes)
        assert rows.batch.schema.names == needed
        assert (rows.count, rows.batch.num_rows) == (6, 6)
        assert [(e.reason, e.raw) for e in rows.errors] == [("bad_value", messages[k]) for k in (1, 4, 7)]
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"a": 1, "b": b"\xff"}])
    for needed in (["a"], []):
        reader = AvroFormat().reader(columns, {}, needed)
        with pytest.raises(FormatError, match="TM4043"):
            list(reader.rows(io.BytesIO(out.getvalue()), start=0, end=1 << 30, file_size=len(out.getvalue())))
