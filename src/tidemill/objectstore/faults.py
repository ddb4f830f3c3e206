"""What the errors of an object store mean, in numbers; without headers, queries and bodies, which may hold secrets."""

from __future__ import annotations

import re

from obstore.exceptions import (
    InvalidPathError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from tidemill.errors import TidemillError

_CODE = re.compile(r"<Code>\s*(\w+)\s*</Code>")
_STATUS = re.compile(r"status code: (\d{3}[A-Za-z ]*)")
_BAD_NAME = re.compile(r'Path "((?:[^"\\]|\\.)*)"')
_ELSEWHERE = (
    "AuthorizationHeaderMalformed",
    "PermanentRedirect",
    "redirect without LOCATION",
    "IncorrectEndpoint",
    "IllegalLocationConstraint",
)
_NO_CREDENTIALS = ("169.254.169.254", "169.254.170.2", "metadata.google.internal", "CredentialsError")
_SHOWN = 160


def numbered(error: Exception, url: str) -> TidemillError:
    """The numbered error for what a store answered, or for what came instead of an answer."""
    text = str(error)
    got = f"{url}: {_brief(text)}"
    if "NoSuchBucket" in text:
        return TidemillError(
            "TM5031", "there is no such bucket", got=got, hint="check the path's bucket, the endpoint and the account"
        )
    if isinstance(error, FileNotFoundError | NotFoundError):
        return TidemillError(
            "TM5001",
            "a file or directory does not exist",
            got=url,
            hint="check the table's path; a prefix that may be empty ends with / or is a glob",
        )
    if isinstance(error, PreconditionError) or "416 Range" in text:
        return changed(url, "another version than was listed")
    if any(sign in text for sign in _ELSEWHERE):
        return TidemillError(
            "TM5032", "the bucket lies in another region", got=got, hint="give its region in the option region"
        )
    status = _STATUS.search(text)
    refused = isinstance(error, PermissionDeniedError | UnauthenticatedError)
    refused = refused or (status is not None and status[1][:3] in ("401", "403"))
    if refused or any(sign in text for sign in _NO_CREDENTIALS):
        return TidemillError(
            "TM5030",
            "an object store refuses access",
            got=got if refused else f"{url}: there are no credentials",
            hint="check awsAccessKey and awsSecretKey, or the environment, and what they may list and read; after a "
            "restart options with secrets are given again, by the script or by ALTER TABLE",
        )
    if isinstance(error, InvalidPathError | ValueError):
        named = _BAD_NAME.search(text)
        return TidemillError(
            "TM5036",
            "an object has a name that cannot be read",
            got=f"{url}: {named[1] if named else _brief(text)!r}",
            hint="names with //, with . or .. between slashes, or with control characters; rename it, or take a path "
            "that leaves it out",
        )
    return TidemillError(
        "TM5033",
        "an object store does not answer as it should",
        got=got,
        hint="nothing was lost: run it again when the store does; requestTimeout and maxRetries say how long to wait",
    )


def broke_off(error: Exception) -> bool:
    """Whether the answer to a listing began well and did not come to its end: the store's client gives up then."""
    return any(sign in str(error) for sign in ("list response body", "invalid list response"))


def changed(url: str, how: str) -> TidemillError:
    """TM5003: an object is no longer the one that was listed."""
    return TidemillError(
        "TM5003",
        "a file changed after it was listed",
        got=f"{url}: {how}",
        hint="write every object under a name of its own, and once",
    )


def _brief(text: str) -> str:
    """Status and code of an answer, else the first line, without what stands behind a question mark."""
    status, code = _STATUS.search(text), _CODE.search(text)
    if status:
        return " ".join([status[1].strip(), *([code[1]] if code else [])])
    timed_out = "timed out" in text or "TimedOut" in text or "Timeout" in text
    line = re.sub(r"\?\S*", "", (text.splitlines() or [""])[0])[:_SHOWN]
    return f"{line} (timed out)" if timed_out and "timed out" not in line else line
