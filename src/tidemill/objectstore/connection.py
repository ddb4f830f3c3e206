"""How an object store is reached: by options, else by the environment. Secrets are never shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlparse

import obstore.store

from tidemill.errors import SECRET_OPTIONS, TidemillError

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
S3_SCHEMES = ("s3", "s3a")

SPELT_CONNECTION = (
    "awsAccessKey", "awsSecretKey", "awsSessionToken", "anonymous", "region", "endpoint", "allowHttp",
    "requestTimeout", "maxRetries",
)  # fmt: skip
CONNECTION_OPTIONS = frozenset(name.lower() for name in SPELT_CONNECTION)
"""Options of tables whose files are objects, in lower case."""

_OF_S3 = ("awsaccesskey", "awssecretkey", "awssessiontoken", "anonymous", "region", "endpoint", "allowhttp")
_ENVIRONMENT = ("AWS_", "AZURE_", "GOOGLE_")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 15.0
_TIMEOUT, _RETRIES, _MOST_RETRIES = 30.0, 10, 100


def is_object_url(path: str) -> bool:
    """Whether a path names objects."""
    return path.partition("://")[0].lower() in SCHEMES and "://" in path


def split_url(url: str) -> tuple[str, str]:
    """The store (``s3://bucket``) and the key. A key is taken as it stands: nothing in it is decoded.

    Raises
    ------
    TidemillError
        TM5002 for a URL without a bucket or with a user in it, without showing that.
    """
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    if not bucket or ("@" in bucket and scheme.lower() not in ("abfs", "abfss")) or ":" in bucket:
        raise TidemillError(
            "TM5002",
            "there is no connector for this path",
            got=f"{scheme}://{bucket.rpartition('@')[2]}/{key}",
            hint="s3://bucket/prefix; credentials are options of the table, or in the environment",
        )
    return f"{scheme.lower()}://{bucket}", key


@dataclass(frozen=True, repr=False)
class Connection:
    """How to reach a store; hashable, and can be sent to other processes.

    Parameters
    ----------
    given : tuple of (str, str)
        Options by their names in lower case, sorted.
    """

    given: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        shown = {name: "***" if name in SECRET_OPTIONS else value for name, value in self.given}
        return f"Connection({shown})"

    @property
    def retries(self) -> int:
        """How many times a request is repeated."""
        return int(dict(self.given).get("maxretries", _RETRIES))

    @property
    def timeout(self) -> float:
        """Seconds that a request may take."""
        return float(dict(self.given).get("requesttimeout", _TIMEOUT))

    def pause(self, attempt: int) -> float:
        """Seconds to wait after an attempt, counted from 0."""
        return float(min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE))

    def store(self, url: str) -> Any:
        """The store of a URL such as ``s3://bucket``, opened once per process and environment.

        Raises
        ------
        TidemillError
            TM5034 for an endpoint without encryption that no option allows.
        """
        environment = tuple(sorted(item for item in os.environ.items() if item[0].startswith(_ENVIRONMENT)))
        known = (url, self, environment)
        if known not in _stores:
            _stores[known] = self._open(url)
        return _stores[known]

    def _open(self, url: str) -> Any:
        options = dict(self.given)
        config: dict[str, Any] = {}
        client: dict[str, Any] = {"timeout": timedelta(seconds=self.timeout)}
        if url.partition("://")[0] in S3_SCHEMES:
            names = {
                "awsaccesskey": "access_key_id",
                "awssecretkey": "secret_access_key",
                "awssessiontoken": "session_token",
                "region": "region",
                "endpoint": "endpoint",
            }
            config = {names[name]: value for name, value in self.given if name in names}
            if options.get("anonymous", "").lower() == "true":
                config["skip_signature"] = True
            check_encrypted(options.get("endpoint") or configured_endpoint(), self)
            client["allow_http"] = self.allows_http
        retry = {
            "max_retries": self.retries,
            "backoff": {
                "init_backoff": timedelta(seconds=_FIRST_PAUSE),
                "max_backoff": timedelta(seconds=_LONGEST_PAUSE),
                "base": 2,
            },
        }
        return obstore.store.from_url(url, client_options=client, retry_config=retry, **config)

    @property
    def allows_http(self) -> bool:
        """Whether an endpoint may be one without encryption."""
        return dict(self.given).get("allowhttp", os.environ.get("AWS_ALLOW_HTTP", "false")).lower() == "true"


_stores: dict[tuple[str, Connection, tuple[tuple[str, str], ...]], Any] = {}


def check_encrypted(endpoint: str, connection: Connection) -> None:
    """TM5034 for an endpoint without encryption that no option allows."""
    if endpoint.lower().startswith("http://") and not connection.allows_http:
        raise TidemillError(
            "TM5034",
            "an endpoint without encryption is not allowed",
            got=endpoint,
            hint="an https:// endpoint, or the option allowHttp 'true' (in the environment AWS_ALLOW_HTTP=true)",
        )


def configured_endpoint() -> str:
    """The endpoint of S3 that the environment names; empty when there is none."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def parse_connection(options: Mapping[str, str], path: str) -> Connection:
    """The options of a table that say how its store is reached; names in lower case.

    Raises
    ------
    TidemillError
        TM4003 for a bad value, and for an option that is not about this path.
    """
    given = {name: options[name] for name in sorted(CONNECTION_OPTIONS & options.keys())}
    scheme = path.partition("://")[0].lower() if is_object_url(path) else ""
    for name in given:
        if not scheme:
            raise _bad(name, given[name], "leave it out: the files of this path are local")
        if scheme not in S3_SCHEMES and name in _OF_S3:
            raise _bad(name, given[name], f"it is about s3://; for {scheme}:// credentials are in the environment")
    for name in ("anonymous", "allowhttp"):
        if given.get(name, "true").lower() not in ("true", "false"):
            raise _bad(name, given[name], "true or false")
    if ("awsaccesskey" in given) != ("awssecretkey" in given):
        name = "awsaccesskey" if "awsaccesskey" in given else "awssecretkey"
        raise _bad(name, given[name], "awsAccessKey and awsSecretKey, both or neither")
    if "endpoint" in given:
        url = urlparse(given["endpoint"])
        if url.scheme not in ("http", "https") or not url.hostname or url.username or url.query:
            raise _bad("endpoint", f"{url.scheme}://{url.hostname or ''}", "a URL such as https://host:port")
    if "requesttimeout" in given and not _is_seconds(given["requesttimeout"]):
        raise _bad("requesttimeout", given["requesttimeout"], "a positive number of seconds")
    retries = given.get("maxretries", "0")
    if not (retries.isascii() and retries.isdigit() and int(retries) <= _MOST_RETRIES):
        raise _bad("maxretries", retries, f"a number from 0 to {_MOST_RETRIES}")
    return Connection(tuple(given.items()))


def _is_seconds(text: str) -> bool:
    try:
        return 0 < float(text) <= 86400
    except ValueError:
        return False


def _bad(name: str, value: str, hint: str) -> TidemillError:
    spelt = next(s for s in SPELT_CONNECTION if s.lower() == name)
    got = "***" if name in SECRET_OPTIONS else repr(value)
    return TidemillError("TM4003", f"bad value of option {spelt}", got=got, hint=hint)
