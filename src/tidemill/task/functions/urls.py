"""``parse_url``: the parts of a URL as ``java.net.URI`` finds them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidemill.task.expressions import Call
from tidemill.task.functions.by_value import RowFailureError, by_value
from tidemill.task.functions.registry import fails_unless_try

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


class _NoUrlError(ValueError):
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
        raise _NoUrlError(text)
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
                raise _NoUrlError(text)
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
            raise _NoUrlError(text)
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
    raise _NoUrlError(text)


@by_value("parse_url", sql=("parse_url", "try_parse_url"), fails=fails_unless_try)
def _parse_url(call: Call, text: str, part: str, key: str | None = None) -> str | None:
    if key is not None and part != "QUERY":
        return None
    try:
        url = _parsed(text)
    except _NoUrlError:
        if fails_unless_try(call):
            raise RowFailureError("the text is no URL", hint="use try_parse_url to get NULL") from None
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
