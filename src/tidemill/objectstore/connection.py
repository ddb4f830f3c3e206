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
from tidemill.options.kinds import FLAG, TEXT, number
from tidemill.options.option import Kind, Option, OptionGroup, bad_option, spelt

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
S3_SCHEMES = ("s3", "s3a")


def _endpoint(text: str) -> str:
    url = urlparse(text)
    if url.scheme not in ("http", "https") or not url.hostname or url.username or url.query:
        raise ENDPOINT.bad(f"{url.scheme}://{url.hostname or ''}", ENDPOINT.kind.wanted)  # a user may be a secret
    return text


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= 86400:
        raise ValueError("a positive number of seconds, at most 86400")
    return seconds


ACCESS_KEY = Option("awsAccessKey", TEXT, None, "access key of S3", "from the environment", alterable=True, secret=True)
SECRET_KEY = Option("awsSecretKey", TEXT, None, "secret key of S3", "from the environment", alterable=True, secret=True)
SESSION_TOKEN = Option(
    "awsSessionToken", TEXT, None, "session token of S3", "from the environment", alterable=True, secret=True
)
ANONYMOUS = Option("anonymous", FLAG, False, "requests are not signed", alterable=True)
REGION = Option("region", TEXT, None, "region of S3", "from the environment", alterable=True)
ENDPOINT = Option(
    "endpoint",
    Kind("a URL such as https://host:port", _endpoint),
    None,
    "endpoint of a server that has S3's API",
    "from the environment",
    alterable=True,
)
ALLOW_HTTP = Option(
    "allowHttp", FLAG, None, "whether the endpoint may be one without encryption", "`AWS_ALLOW_HTTP`", alterable=True
)
TIMEOUT = Option(
    "requestTimeout", Kind("a positive number of seconds", _seconds), 30.0, "seconds for a request", alterable=True
)
RETRIES = Option("maxRetries", number(0, 100), 10, "how many times a request is repeated", alterable=True)

CONNECTION_OPTIONS = OptionGroup(
    "Object stores",
    "Tables over objects of S3; of other stores only `requestTimeout` and `maxRetries`.",
    (ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, ANONYMOUS, REGION, ENDPOINT, ALLOW_HTTP, TIMEOUT, RETRIES),
)

_OF_S3 = CONNECTION_OPTIONS.keys - {TIMEOUT.key, RETRIES.key}
_ENVIRONMENT = ("AWS_", "AZURE_", "GOOGLE_")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 15.0


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
        return RETRIES.of(dict(self.given))

    @property
    def timeout(self) -> float:
        """Seconds that a request may take."""
        return TIMEOUT.of(dict(self.given))

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
                ACCESS_KEY.key: "access_key_id",
                SECRET_KEY.key: "secret_access_key",
                SESSION_TOKEN.key: "session_token",
                REGION.key: "region",
                ENDPOINT.key: "endpoint",
            }
            config = {names[name]: value for name, value in self.given if name in names}
            if ANONYMOUS.of(options):
                config["skip_signature"] = True
            check_encrypted(ENDPOINT.of(options) or configured_endpoint(), self)
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
        allowed = ALLOW_HTTP.of(dict(self.given))
        return os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true" if allowed is None else allowed


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
    given = {name: options[name] for name in sorted(CONNECTION_OPTIONS.keys & options.keys())}
    scheme = path.partition("://")[0].lower() if is_object_url(path) else ""
    for name in given:
        if not scheme:
            raise bad_option(spelt(name), given[name], "leave it out: the files of this path are local")
        if scheme not in S3_SCHEMES and name in _OF_S3:
            hint = f"it is about s3://; for {scheme}:// credentials are in the environment"
            raise bad_option(spelt(name), given[name], hint)
    if (ACCESS_KEY.key in given) != (SECRET_KEY.key in given):
        alone = ACCESS_KEY if ACCESS_KEY.key in given else SECRET_KEY
        raise alone.bad("", "awsAccessKey and awsSecretKey, both or neither")
    for option in CONNECTION_OPTIONS.options:
        option.of(given)
    return Connection(tuple(given.items()))
