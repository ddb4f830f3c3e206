"""Bytes as text and text as bytes: character sets, Base64, Base32, hexadecimal, URLs."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import urllib.parse
import zlib

from tidemill.task.expressions import Call
from tidemill.task.functions.by_value import RowFailureError, by_value
from tidemill.task.functions.registry import fails_unless_try

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
            hint="US-ASCII, ISO-8859-1, UTF-8, UTF-16BE, UTF-16LE, UTF-16 and UTF-32 are",
        )
    return upper


@by_value("encode", sql=("encode", "to_binary"), fails=True)
def _encode(call: Call, text: str, charset: str) -> bytes:
    name = _charset(charset)
    try:
        content = text.encode(_CHARSETS[name][0])
    except UnicodeEncodeError:
        raise RowFailureError("the text has characters that the character set has not") from None
    return b"\xfe\xff" + content if name == "UTF-16" and text else content


@by_value("decode_bytes", sql=("decode(bytes, charset)",), fails=True)
def _decode(call: Call, content: bytes, charset: str) -> str:
    name = _charset(charset)
    encoding = _CHARSETS[name][1]
    for mark, marked in _MARKS.get(name, ()):
        if content.startswith(mark):
            content, encoding = content[len(mark) :], marked
            break
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        raise RowFailureError("the bytes are no text of the character set") from None


@by_value("base64")
def _base64(call: Call, content: bytes) -> str:
    text = base64.b64encode(content).decode()
    if not call.option("lines"):
        return text
    return "\r\n".join(text[i : i + 76] for i in range(0, len(text), 76))


_BASE64 = {letter: n for n, letter in enumerate(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")}
_STRICT_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*={0,2}\s*\Z")


@by_value("unbase64", sql=("unbase64", "to_binary(x, 'base64')"), fails=fails_unless_try)
def _unbase64(call: Call, text: str) -> bytes | None:
    """What Java's MIME decoder gives, which passes over what is not of the alphabet."""
    content = _mime_decoded(text.encode(), strict=bool(call.option("strict")))
    if content is None and fails_unless_try(call):
        raise RowFailureError("the text is no Base64", hint="use try_to_binary(x, 'base64') to get NULL")
    return content


def _mime_decoded(source: bytes, *, strict: bool) -> bytes | None:
    if strict and not _valid_base64(source.decode()):
        return None
    bits = count = position = 0
    result = bytearray()
    while position < len(source):
        letter = source[position]
        position += 1
        if letter == ord("="):
            if count == 2:
                following = source[position : position + 1]
                position += 1
                if following != b"=":
                    return None
            elif count == 0:
                return None
            break
        value = _BASE64.get(letter)
        if value is None:
            continue
        bits, count = bits << 6 | value, count + 1
        if count == 4:
            result += bits.to_bytes(3, "big")
            bits = count = 0
    if count == 1:
        return None
    if count:
        result += (bits << 6 * (4 - count)).to_bytes(3, "big")[: count - 1]
    return None if any(letter in _BASE64 or letter == ord("=") for letter in source[position:]) else bytes(result)


def _valid_base64(text: str) -> bool:
    """Spark's own check of ``to_binary(x, 'base64')``: whole groups of four, with padding or without."""
    plain = re.sub(r"[ \t\r\n]", "", text)
    match = re.fullmatch(r"([A-Za-z0-9+/]*)(={0,2})", plain)
    if match is None:
        return False
    letters, padding = len(match[1]), len(match[2])
    return letters % 4 != 1 and (not padding or (letters + padding) % 4 == 0)


@by_value("to_base32")
def _to_base32(call: Call, content: bytes) -> str:
    return base64.b32encode(content).decode()


_BASE32 = {letter: n for n, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")}


def _ascii_upper(text: str) -> str:
    return text.encode().upper().decode()


@by_value("from_base32")
def _from_base32(call: Call, text: str) -> bytes:
    """What is not of the alphabet is passed over, and the text ends at its first ``=``."""
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


@by_value("unhex", sql=("unhex", "to_binary"), fails=lambda call: call.option("mode") == "ansi")
def _unhex(call: Call, text: str) -> bytes | None:
    if re.fullmatch("[0-9a-fA-F]*", text, re.ASCII) is None:
        if call.option("mode") == "ansi":
            raise RowFailureError("the text is no hexadecimal number", hint="use unhex to get NULL")
        return None
    return binascii.unhexlify("0" + text if len(text) % 2 else text)


@by_value("url_encode")
def _url_encode(call: Call, text: str) -> str:
    return urllib.parse.quote_plus(text, safe="*").replace("~", "%7E")


_ESCAPE = re.compile(r"%(?:[0-9a-fA-F]{2}|\+[0-9a-fA-F])")


@by_value("url_decode", sql=("url_decode", "try_url_decode"), fails=fails_unless_try)
def _url_decode(call: Call, text: str) -> str | None:
    if "%" in _ESCAPE.sub("", text):
        if fails_unless_try(call):
            raise RowFailureError("the text is no encoded URL", hint="use try_url_decode to get NULL")
        return None
    return urllib.parse.unquote_plus(re.sub(r"%\+", "%0", text), errors="replace")


@by_value("crc32")
def _crc32(call: Call, content: bytes) -> int:
    return zlib.crc32(content)


@by_value("hmac", fails=True)
def _hmac(call: Call, key: bytes, message: bytes) -> bytes:
    if not key:
        raise RowFailureError("the key is empty")
    return hmac.digest(key, message, str(call.option("algorithm")))
