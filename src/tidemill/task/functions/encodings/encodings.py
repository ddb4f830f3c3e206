"""Bytes as text and text as bytes: character sets, Base64, Base32, hexadecimal, URLs."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns.by_value import RowFailureError, by_value, kernel_of
from tidemill.task.functions.columns.compute import Array, null_where
from tidemill.task.functions.columns.numpy_values import Bytes, Longs
from tidemill.task.functions.columns.registry import Value, as_array, fails_unless_try
from tidemill.task.functions.columns.text_buffers import Texts, check_rows, longs, make_texts, of_columns, texts
from tidemill.task.functions.kernels import encoding as kernels
from tidemill.task.functions.text.text_rules import as_text, replace_invalid

Bad = npt.NDArray[np.int8]

_CHARSETS = {
    "UTF-8": ("utf-8", "utf-8"), "UTF8": ("utf-8", "utf-8"), "US-ASCII": ("ascii", "ascii"),
    "ISO-8859-1": ("latin-1", "latin-1"), "UTF-16BE": ("utf-16-be", "utf-16-be"),
    "UTF-16LE": ("utf-16-le", "utf-16-le"), "UTF-16": ("utf-16-be", "utf-16-be"),
    "UTF-32": ("utf-32-be", "utf-32-be"),
}  # fmt: skip
_MARKS = {"UTF-16": ((b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le")),
          "UTF-32": ((b"\x00\x00\xfe\xff", "utf-32-be"), (b"\xff\xfe\x00\x00", "utf-32-le"))}  # fmt: skip


def _charset(name: str) -> str:
    upper = name.upper()
    if upper not in _CHARSETS or upper == "UTF8":
        raise RowFailureError(
            "the character set is not known",
            hint="use US-ASCII, ISO-8859-1, UTF-8, UTF-16BE, UTF-16LE, UTF-16 or UTF-32",
        )
    return upper


def _is_utf8(charset: Value) -> bool:
    return isinstance(charset, pa.Scalar) and charset.is_valid and charset.as_py().upper() == "UTF-8"


@of_columns("encode", sql=("encode", "to_binary"), fails=True)
def _encode(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are text and character set."""
    if _is_utf8(args[1]):
        return as_array(args[0], rows).cast(pa.binary())
    return kernel_of(_encoded)(call, [as_array(args[0], rows), args[1]], rows)


def _encoded(call: Call, text: str, charset: str) -> bytes:
    name = _charset(charset)
    try:
        content = text.encode(_CHARSETS[name][0])
    except UnicodeEncodeError:
        raise RowFailureError("the character set cannot encode the text") from None
    return b"\xfe\xff" + content if name == "UTF-16" and text else content


@of_columns("decode_bytes", sql=("decode(bytes, charset)",), fails=True)
def _decode(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are bytes and character set."""
    text = as_text(as_array(args[0], rows)) if _is_utf8(args[1]) else None
    return kernel_of(_text_of)(call, [as_array(args[0], rows), args[1]], rows) if text is None else text


def _text_of(call: Call, content: bytes, charset: str) -> str:
    name = _charset(charset)
    encoding = _CHARSETS[name][1]
    for mark, marked in _MARKS.get(name, ()):
        if content.startswith(mark):
            content, encoding = content[len(mark) :], marked
            break
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        raise RowFailureError("the bytes are not valid in the character set") from None


@of_columns("base64")
def _base64(call: Call, args: list[Value], rows: int) -> Value:
    content, lines = texts(args[0], rows), bool(call.option("lines"))
    return make_texts(call.type, content.valid, lambda ends, room: kernels.base64(*content.parts, lines, ends, room))


def _decoded(
    call: Call, args: list[Value], rows: int, write: Callable[[Texts, Bad, Longs, Bytes], None], what: str, hint: str
) -> Array:
    """The bytes that a kernel decodes from texts; invalid texts fail, or give NULL in the mode ``try``."""
    text, bad = texts(args[0], rows), np.zeros(rows, np.int8)
    result = make_texts(call.type, text.valid, lambda ends, room: write(text, bad, ends, room))
    wrong = text.valid & (bad != 0)
    if call.option("mode") == "ansi":
        check_rows(call, args, wrong, what, hint=hint)
    return null_where(pa.array(wrong), result) if wrong.any() else result


@of_columns("unbase64", sql=("unbase64", "to_binary(x, 'base64')"), fails=fails_unless_try)
def _unbase64(call: Call, args: list[Value], rows: int) -> Value:
    """Decode as Java's MIME decoder does, which skips characters outside the alphabet."""
    strict = bool(call.option("strict"))

    def write(text: Texts, bad: Bad, ends: Longs, room: Bytes) -> None:
        kernels.unbase64(*text.parts, strict, bad, ends, room)

    return _decoded(
        call, args, rows, write, "the text is not valid Base64", "use try_to_binary(x, 'base64') to get NULL"
    )


@by_value("to_base32")
def _to_base32(call: Call, content: bytes) -> str:
    return base64.b32encode(content).decode()


_BASE32 = {letter: n for n, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")}


def _ascii_upper(text: str) -> str:
    return text.encode().upper().decode()


@by_value("from_base32")
def _from_base32(call: Call, text: str) -> bytes:
    """Characters outside the alphabet are skipped, and the text ends at its first ``=``."""
    digits = [_BASE32[letter] for letter in _ascii_upper(text.partition("=")[0]) if letter in _BASE32]
    result = bytearray()
    for start in range(0, len(digits), 8):
        group = digits[start : start + 8]
        bits = 0
        for digit in group:
            bits = bits << 5 | digit
        size = max(5 * len(group) // 8, 1)
        result += (bits >> max(5 * len(group) - 8 * size, 2 * (len(group) == 1))).to_bytes(size, "big")
    return bytes(result)


@of_columns("unhex", sql=("unhex", "to_binary"), fails=lambda call: call.option("mode") == "ansi")
def _unhex(call: Call, args: list[Value], rows: int) -> Value:
    def write(text: Texts, bad: Bad, ends: Longs, room: Bytes) -> None:
        kernels.unhex(*text.parts, bad, ends, room)

    return _decoded(call, args, rows, write, "the text is not a hexadecimal number", "use unhex to get NULL")


@of_columns("url_encode")
def _url_encode(call: Call, args: list[Value], rows: int) -> Value:
    text = texts(args[0], rows)
    return make_texts(call.type, text.valid, lambda ends, room: kernels.url_encode(*text.parts, ends, room))


@of_columns("url_decode", sql=("url_decode", "try_url_decode"), fails=fails_unless_try)
def _url_decode(call: Call, args: list[Value], rows: int) -> Value:
    def write(text: Texts, bad: Bad, ends: Longs, room: Bytes) -> None:
        kernels.url_decode(*text.parts, bad, ends, room)

    raw = replace(call, type=pa.binary())
    content = _decoded(raw, args, rows, write, "the text is not an encoded URL", "use try_url_decode to get NULL")
    return replace_invalid(call, content)


@of_columns("conv", fails=True)
def _conv(call: Call, args: list[Value], rows: int) -> Value:
    """A number in another base, in 64 unsigned bits; the number ends at the first character that is not a digit."""
    number, bad = texts(args[0], rows), np.zeros(rows, np.int8)
    (source, known), (target, given) = (longs(arg, rows) for arg in args[1:])
    valid = number.valid & known & given
    result = make_texts(
        call.type, valid, lambda ends, room: kernels.conv(*number.parts, source, target, bad, ends, room)
    )
    check_rows(call, args, valid & (bad == 3), "the result does not fit its type", "TM3002", "conv has 64 bits")
    none = valid & (bad == 2)
    return null_where(pa.array(none), result) if none.any() else result


@by_value("hmac", fails=True)
def _hmac(call: Call, key: bytes, message: bytes) -> bytes:
    if not key:
        raise RowFailureError("the key is empty")
    return hmac.digest(key, message, str(call.option("algorithm")))
