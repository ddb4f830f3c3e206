"""The kernels of text functions give what plain Python gives, whatever of their arguments is a column."""

from __future__ import annotations

import decimal
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
import text_twins as twins

from tidemill.errors import EvaluationError
from tidemill.task.expressions import Call, Expression, Literal, Ref
from tidemill.task.functions.columns import sizes
from tidemill.task.functions.evaluate import evaluate

S, B, N, L, D = pa.string(), pa.binary(), pa.int32(), pa.int64(), pa.float64()
ROWS = 160
URL_PARTS = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO")
_LETTERS = "aabbcX, .-'Zz09éÉß日本😀\t"


def _text(chance: random.Random, most: int = 12) -> str:
    size = chance.choice([0, 1, 2, chance.randrange(most), chance.randrange(most), 70 if chance.random() < 0.1 else 3])
    return "".join(chance.choices(_LETTERS, k=size))


def _of(letters: str, most: int) -> Callable[[random.Random], str]:
    return lambda chance: "".join(chance.choices(letters, k=chance.randrange(most)))


def _decimal(digits: int, scale: int) -> Callable[[random.Random], decimal.Decimal]:
    def value(chance: random.Random) -> decimal.Decimal:
        unscaled = chance.randrange(-(10 ** chance.randrange(1, digits + 1)) + 1, 10**digits)
        if chance.random() < 0.5:
            unscaled = unscaled // 1000 * 1000 + 500
        return decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=40))

    return value


def _double(chance: random.Random) -> float:
    tie = chance.randrange(-4000, 4000) / 16
    return chance.choice([tie, chance.gauss(0, 1e4), chance.gauss(0, 1) * 10.0 ** chance.randrange(-20, 20), -0.0, 0.1])


def _address(chance: random.Random) -> str:
    user = chance.choice(["", "", "", "me:secret@"])
    host = chance.choice(["h", "www.example.org", "a-b.c.", "10.0.0.1", "[::1]", "x_y"])
    port = chance.choice(["", ":80", ":"]) if host != "x_y" and not user else ""
    path = chance.choice(["", "/", "/a/b.html", "/%C3%A9/x", "/é"])
    query = chance.choice(["", "?", "?k=1&b=2", "?b=x?k=3&k=4", "?k2=%20", "?k"])
    return (
        f"{chance.choice(['http', 'https', 'x+y'])}://{user}{host}{port}{path}{query}{chance.choice(['', '#', '#f'])}"
    )


VALUES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "text": (S, _text),
    "long": (S, lambda chance: _text(chance, 90)),
    "part": (S, lambda chance: chance.choice(["", "a", "ab", "b", "é", "日本", "aa", ",", ", ", _text(chance, 4)])),
    "one": (S, lambda chance: chance.choice("*é本")),
    "list": (S, lambda chance: ",".join(_text(chance, 4) for _ in range(chance.randrange(4)))),
    "digits": (S, _of("0123456789", 20)),
    "number": (S, lambda chance: chance.choice(["", " ", "-", " -"]) + _of("0123456789abcXYZé ", 18)(chance)),
    "hex": (S, _of("0123456789abcdefABCDEF" + "é" * 1, 9)),
    "base64": (S, _of("ABcd01+/=\r\n é" + "A" * 30, 12)),
    "whole": (S, lambda chance: twins.base64_(chance.randbytes(chance.randrange(9)))),
    "url": (S, lambda chance: "".join(chance.choices(["%41", "%C3%A9", "%+f", "%", "a", "+", "é", "%F"], k=3))),
    "places": (S, lambda chance: "".join(chance.choices(["%41", "%c3%a9", "%C3", "%+f", "a", "+", "é"], k=5))),
    "bytes": (B, lambda chance: chance.randbytes(chance.randrange(0, 150))),
    "address": (S, _address),
    "url part": (S, lambda chance: chance.choice(URL_PARTS)),
    "query": (S, lambda chance: "QUERY"),
    "key": (S, lambda chance: chance.choice(["k", "b", "k2"])),
    "few": (B, lambda chance: chance.randbytes(chance.randrange(4))),
    "pattern": (S, lambda chance: "".join(chance.choices(["%", "_", "\\%", "\\_", "a", "b", "c", "é", " "], k=4))),
    "count": (N, lambda chance: chance.choice([0, 1, -1, 2, -2, 3, -4, 9, -70])),
    "wide": (N, lambda chance: chance.choice([0, 1, -1, 5, 17, 80])),
    "base": (N, lambda chance: chance.choice([10, 16, 2, 36, -10, -16, 37, 1])),
    "long int": (L, lambda chance: chance.choice([0, -1, 2**63 - 1, -(2**63), chance.randrange(-300, 300)])),
    "double": (D, _double),
    "decimal": (pa.decimal128(12, 4), _decimal(12, 4)),
    "big decimal": (pa.decimal128(30, 5), _decimal(30, 5)),
    "array": (pa.list_(S), lambda chance: chance.choices([None, "", _text(chance, 4)], k=chance.randrange(4))),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    function: str
    kinds: tuple[str, ...]
    type: pa.DataType
    twin: Callable[..., Any]
    options: tuple[tuple[str, Any], ...] = ()
    constants: tuple[int, ...] = ()
    """Arguments that are constants in Spark too."""
    strict: bool = True


def _options(function: str, options: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((options | {"escape": "\\"} if function == "like_java" else options).items()))


def _case(
    function: str, kinds: str, type_: pa.DataType, twin: Callable[..., Any] | None = None, **options: Any
) -> Case:
    twin = twin or getattr(twins, function)
    return Case(function, tuple(kinds.split(" | ")), type_, twin, _options(function, options))


CASES = [
    _case("replace", "text | part | part", S), _case("translate", "text | part | text", S),
    _case("translate", "text | text | text", S),
    _case("substring_index", "text | part | count", S), _case("split_part", "text | part | count", S),
    *(_case(side, "text | part", S) for side in ("trim", "ltrim", "rtrim")),
    *(_case(side, "text | wide | part", S) for side in ("lpad", "rpad")),
    *(_case(side, "few | wide | few", B) for side in ("lpad", "rpad")),
    _case("overlay", "text | part | count | count", S), _case("overlay", "bytes | few | count | count", B),
    _case("initcap", "text", S), _case("quote", "text", S), _case("reverse_bytes", "bytes", B),
    _case("soundex", "text", S),
    _case("levenshtein", "text | text", N), _case("levenshtein", "text | part | count", N),
    _case("levenshtein", "long | long", N), _case("levenshtein", "long | long | wide", N),
    _case("jaro_winkler_similarity", "text | text", D), _case("luhn_check", "digits", pa.bool_()),
    _case("luhn_check", "number", pa.bool_()),
    Case("mask", ("text", "one", "one", "one", "one"), S, twins.mask, (), (1, 2, 3, 4), False),
    _case("find_in_set", "part | list", N), _case("find_in_set", "text | text", N),
    Case("concat_ws", ("part", "text", "array", "text", "array"), S, twins.concat_ws, (), (), False),
    Case("locate", ("text", "part", "count"), N, twins.locate, (), (), False),
    _case("instr_occurrence", "text | part | count | count", N),
    _case("substring", "text | count | count", S), _case("substring", "few | count | wide", B),
    *(_case(f"{name}_java", f"text | {of}", pa.bool_()) for name in ("rlike", "like") for of in ("part", "pattern")),
    *(_case("split_java", f"text | {of} | count", pa.list_(S)) for of in ("part", "pattern")),
    _case("contains_any", "text | part", pa.bool_()), _case("starts_with_any", "text | part", pa.bool_()),
    _case("ends_with_any", "text | part", pa.bool_()),
    _case("bin", "long int", S, twins.bin_), _case("hex", "long int", S, twins.hex_),
    _case("hex", "text", S, twins.hex_), _case("hex", "bytes", S, twins.hex_),
    _case("unhex", "hex", B, mode="try"), _case("base64", "bytes", S, twins.base64_, lines=False),
    _case("base64", "bytes", S, twins.base64_lines, lines=True),
    _case("unbase64", "base64", B, strict=False, mode="try"), _case("unbase64", "whole", B, strict=False, mode="try"),
    _case("unbase64", "base64", B, twins.unbase64_strict, strict=True, mode="try"),
    _case("url_encode", "text", S), _case("url_decode", "url", S, mode="try"),
    _case("url_decode", "places", S, mode="try"), _case("crc32", "bytes", L), _case("conv", "number | base | base", S),
    *(
        _case("digest", "bytes", S, lambda content, name=name: twins.digest(content, name), algorithm=name)
        for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
    ),
    *(_case("format_number", f"{of} | wide", S) for of in ("double", "decimal", "big decimal", "long int")),
    Case(
        "format_string", ("text", "wide", "double"), S, twins.format_string,
        (("format", "[%1$s]%2$d %2$7d %2$-7d%3$,.1f %3$12.3f"),), (), False,
    ),
    Case("parse_url", ("address", "url part"), S, twins.parse_url, (("mode", "ansi"),), (1,)),
    Case("parse_url", ("address", "query", "key"), S, twins.parse_url, (("mode", "ansi"),), (1, 2)),
    _case("bitmap_count", "bytes", L),
    *(
        _case(
            "regexp_extract_all", "text", pa.list_(S), lambda text, p=p, g=g: twins.regexp_extract_all(text, p, g),
            regex=p, group=g,
        )
        for p, g in (("a", 0), ("([a-z])([0-9])?", 2), ("(é|b)+X?", 1), (r"\Aa", 0))
    ),
    _case("regexp_instr", "text", N, lambda text: twins.regexp_instr(text, "[Xb本]"), regex="[Xb本]"),
]  # fmt: skip
_FAIL = {"split_part", "instr_occurrence", "conv", "rlike_java", "like_java", "split_java"}


def _expected(case: Case, values: tuple[Any, ...]) -> Any:
    if case.strict and None in values:
        return None
    try:
        return case.twin(*values)
    except ValueError:
        return None


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.function} {', '.join(case.kinds)}")
def test_a_kernel_equals_plain_python(case: Case, seed: int) -> None:
    chance = random.Random(seed)
    for columns in dict.fromkeys([tuple(range(len(case.kinds))), (0,), (len(case.kinds) - 1,), ()]):
        for nulls in (0.0, 0.3, 1.0) if columns else (0.0, 1.0):
            _compare(case, set(columns) - set(case.constants), nulls, chance)


def _compare(case: Case, columns: set[int], nulls: float, chance: random.Random) -> None:
    args: list[Expression] = []
    arrays, listed = [], []
    for position, kind in enumerate(case.kinds):
        type_, value = VALUES[kind]
        if position in columns:
            cells = [None if chance.random() < nulls else value(chance) for _ in range(ROWS + 5)]
            args.append(Ref(len(arrays), type_))
            arrays.append(pa.array(cells, type_).slice(3, ROWS))
            listed.append(cells[3 : ROWS + 3])
        else:
            cell = None if chance.random() < nulls / 4 else value(chance)
            args.append(Literal(cell, type_))
            listed.append([cell] * ROWS)
    call: Expression = Call(case.function, tuple(args), case.type, True, case.options)
    if case.function in _FAIL:
        call = Call("try", (call,), case.type)
    names = [str(n) for n in range(len(arrays))]
    batch = pa.RecordBatch.from_arrays(arrays, names) if arrays else pa.RecordBatch.from_arrays([pa.nulls(ROWS)], ["0"])
    found = evaluate(call, batch)
    found.validate(full=True)
    for row, (mine, values) in enumerate(zip(found.to_pylist(), zip(*listed, strict=True), strict=True)):
        assert mine == _expected(case, values), (row, values)
    assert evaluate(call, batch.slice(0, 0)).to_pylist() == []


def test_columns_of_wide_places_are_read_as_others_are() -> None:
    array = pa.array(["é b", None, "c"], pa.large_string()).slice(0, 3)
    batch = pa.RecordBatch.from_arrays([array], ["0"])
    call = Call("split_part", (Ref(0, S), Literal(" ", S), Literal(-1, N)), S)
    assert evaluate(call, batch).to_pylist() == ["b", None, "c"]


@pytest.mark.parametrize(
    ("function", "args"),
    [
        ("lpad", ("a", 2**31 - 1, "é")),
        ("replace", ("a" * 4000, "a", "b" * 40_000)),
        ("translate", ("a" * 2_000_000, "a", "😀")),
    ],
)
def test_what_would_be_too_large_is_not_made(
    function: str, args: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "_most", 1 << 20)
    literals = tuple(Literal(value, S if isinstance(value, str) else N) for value in args)
    batch = pa.RecordBatch.from_arrays([pa.nulls(1)], ["0"])
    with pytest.raises(EvaluationError) as caught:
        evaluate(Call(function, literals, S), batch)
    assert caught.value.number == "TM3020"


@pytest.mark.parametrize(
    ("number", "function", "args"),
    [
        ("TM3004", "unhex", ("0g",)),
        ("TM3004", "unbase64", ("A",)),
        ("TM3004", "url_decode", ("%4",)),
        ("TM3004", "split_part", ("a", "b", 0)),
        ("TM3002", "conv", ("9" * 30, 10, 16)),
    ],
)
def test_the_first_row_that_fails_is_told(number: str, function: str, args: tuple[Any, ...]) -> None:
    first = pa.array([None, args[0], args[0]])
    literals = tuple(Literal(value, S if isinstance(value, str) else N) for value in args[1:])
    type_ = B if function in ("unhex", "unbase64") else S
    call = Call(function, (Ref(0, S), *literals), type_, True, (("mode", "ansi"),))
    with pytest.raises(EvaluationError) as caught:
        evaluate(call, pa.RecordBatch.from_arrays([first], ["0"]))
    assert caught.value.number == number
    assert repr(args[0]) in str(caught.value.got)
