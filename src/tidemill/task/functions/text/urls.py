"""``parse_url``: the parts of a URL as ``java.net.URI`` finds them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns.by_value import RowFailureError, kernel_of
from tidemill.task.functions.columns.compute import Array, pc
from tidemill.task.functions.columns.registry import Value, as_array, fails_unless_try
from tidemill.task.functions.columns.text_buffers import of_columns

_OTHER = "[^\\x00-\\x7f\\x80-\\x9f\\s]"  # what URI calls "other": not ASCII, no control character, no blank
_ESCAPED = "%[0-9a-fA-F]{2}"
_UNRESERVED = r"a-zA-Z0-9_\-!.~'()*"


def _of(characters: str) -> re.Pattern[str]:
    return re.compile(f"(?:[{characters}]|{_ESCAPED}|{_OTHER})*")


_URIC = _of(_UNRESERVED + r";/?:@&=+$,\[\]")
_PATH = _of(_UNRESERVED + r":@&=+$,;/")
_USER = _of(_UNRESERVED + r";:&=+$,")
_REGISTRY = _of(_UNRESERVED + r"$,;:@&=+")
_SERVER = _of(_UNRESERVED + r";:&=+$,.@\[\]")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.\-]*")
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?"
_TOP = r"[a-zA-Z](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}\.)*{_TOP}\.?")
_IPV4 = re.compile(
    r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|0*[0-9]{1,2})\.){3}(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|0*[0-9]{1,2})"
)
_IPV6 = re.compile(r"\[[0-9a-fA-F:.]*(?:%[a-zA-Z0-9_.]+)?\]")


class _InvalidUrlError(ValueError):
    pass


@dataclass(frozen=True)
class _Url:
    scheme: str | None = None
    authority: str | None = None
    user: str | None = None
    host: str | None = None
    path: str | None = None
    query: str | None = None
    fragment: str | None = None


def _checked(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise _InvalidUrlError(text)
    return text


def _parsed(text: str) -> _Url:
    rest, hash_, fragment_text = text.partition("#")
    fragment = _checked(_URIC, fragment_text) if hash_ else None
    scheme = None
    colon = re.match(r"[^/?#:]*:", rest)
    if colon:
        scheme = _checked(_SCHEME, colon[0][:-1])
        rest = rest[colon.end() :]
        if not rest.startswith("/"):
            if not rest:
                raise _InvalidUrlError(text)
            _checked(_URIC, rest)
            return _Url(scheme, fragment=fragment)
    authority = user = host = None
    if rest.startswith("//"):
        found = re.match(r"[^/?]*", rest[2:])
        authority_text = found[0] if found else ""
        rest = rest[2 + len(authority_text) :]
        if authority_text:
            authority, user, host = _authority(authority_text)
        elif not rest and not hash_:
            raise _InvalidUrlError(text)
    path, mark, query_text = rest.partition("?")
    query = _checked(_URIC, query_text) if mark else None
    return _Url(scheme, authority, user, host, _checked(_PATH, path), query, fragment)


def _authority(text: str) -> tuple[str, str | None, str | None]:
    registry = _REGISTRY.fullmatch(text) is not None
    server = _SERVER.fullmatch(text.replace("%", "") if "]" in text else text) is not None
    if server:
        user, at, place = text.rpartition("@") if text.count("@") == 1 else ("", "", text)
        match = re.fullmatch(rf"({_IPV6.pattern}|{_IPV4.pattern}|{_HOST.pattern})(?::([0-9]*))?", place)
        small = match is not None and (not match[2] or int(match[2]) < 2**31)
        if match and small and (not at or _USER.fullmatch(user)):
            return text, user if at else None, match[1]
    if registry:
        return text, None, None
    raise _InvalidUrlError(text)


_LETTERS = rf"(?:[{_UNRESERVED}:@&=+$,;/]|{_ESCAPED})"
_MORE = rf"(?:[{_UNRESERVED};/?:@&=+$,\[\]]|{_ESCAPED})"
_COMMON = (
    rf"\A(?P<scheme>{_SCHEME.pattern})://(?P<authority>(?P<host>{_HOST.pattern})(?::[0-9]{{0,9}})?)"
    rf"(?P<path>(?:/{_LETTERS}*)?)(?P<query>(?:\?{_MORE}*)?)(?P<fragment>(?:#{_MORE}*)?)\z"
)
"""URLs with a host's name, perhaps a port, and without a user, in ASCII."""
_PLAIN_KEY = re.compile("[A-Za-z0-9_]+")


@of_columns("parse_url", sql=("parse_url", "try_parse_url"), fails=fails_unless_try)
def _parse_url(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are a URL, the name of a part, and for a query perhaps a key: RE2 takes common URLs apart."""
    array = as_array(args[0], rows)
    constants = [arg.as_py() for arg in args[1:] if isinstance(arg, pa.Scalar)]
    if len(constants) < len(args) - 1 or None in constants or not _simple(*constants):
        return as_array(kernel_of(_parse)(call, [array, *args[1:]], rows), rows)
    parts = pc.extract_regex(array, _COMMON)
    result = _common_part(parts, *constants)
    rest = pc.and_(array.is_valid(), parts.is_null())
    if not pc.any(rest).as_py():
        return result
    few = array.filter(rest)
    return pc.replace_with_mask(result, rest, kernel_of(_parse)(call, [few, *args[1:]], len(few)))


def _simple(part: str, key: str | None = None) -> bool:
    return key is None or (part == "QUERY" and _PLAIN_KEY.fullmatch(key) is not None)


def _common_part(parts: Array, part: str, key: str | None = None) -> Array:
    scheme, authority, host, path, query, fragment = (pc.struct_field(parts, n) for n in range(6))
    null = pa.scalar(None, pa.string())
    if key is not None:
        found = pc.extract_regex(query, rf"(?:\A\?|&){key}=(?P<value>[^&]*)")
        return pc.struct_field(found, 0)
    whole = {"HOST": host, "PATH": path, "PROTOCOL": scheme, "AUTHORITY": authority}
    if part in whole:
        return whole[part]
    if part == "FILE":
        return pc.binary_join_element_wise(path, query, "")
    marked = {"QUERY": query, "REF": fragment}.get(part)
    if marked is None:
        return pa.nulls(len(parts), pa.string())
    return pc.if_else(pc.equal(pc.binary_length(marked), 0), null, pc.utf8_slice_codeunits(marked, 1))


def _parse(call: Call, text: str, part: str, key: str | None = None) -> str | None:
    if key is not None and part != "QUERY":
        return None
    try:
        url = _parsed(text)
    except _InvalidUrlError:
        if fails_unless_try(call):
            raise RowFailureError("the text is not a URL", hint="use try_parse_url to get NULL") from None
        return None
    if key is not None:
        found = re.search(f"(?:&|^){key}=([^&]*)", url.query) if url.query is not None else None
        return found[1] if found else None
    file = url.path if url.query is None or url.path is None else f"{url.path}?{url.query}"
    parts = {
        "HOST": url.host, "PATH": url.path, "QUERY": url.query, "REF": url.fragment, "PROTOCOL": url.scheme,
        "FILE": file, "AUTHORITY": url.authority, "USERINFO": url.user,
    }  # fmt: skip
    return parts.get(part)
