"""Schemas of a registry, each asked for once by a process. ``confluent-kafka`` has the client."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from json import JSONDecodeError
from typing import Any

from tidemill.connectors.schema_registry.options import CA, TOKEN, URL, USER_INFO
from tidemill.errors import TidemillError

_PROPERTIES = {
    URL.key: "url",
    USER_INFO.key: "basic.auth.user.info",
    TOKEN.key: "bearer.auth.token",
    CA.key: "ssl.ca.location",
}
_MOST_REFERENCES = 100
_NOT_FOUND, _REFUSED = 404, (401, 403)
_SECONDS = 10
_OF_ANSWERS = (JSONDecodeError, UnicodeDecodeError, RecursionError, AttributeError, KeyError, TypeError)
"""What the client raises for an answer with status 200 that is no JSON, or JSON of another form."""


@dataclass(frozen=True)
class Written:
    """A schema of a registry.

    Attributes
    ----------
    kind : str
        ``AVRO``, ``JSON`` or ``PROTOBUF``.
    text : str
    references : tuple of str
        Schemas whose types it names, each after those that it names itself.
    """

    kind: str
    text: str
    references: tuple[str, ...] = ()


NO_SCHEMA = Written("", "")
"""What stands for an answer of a registry that is no schema."""


class _NoSchemaError(Exception):
    """The registry has answered, with something that is no schema; the message says what."""


def schema_by_id(registry: tuple[tuple[str, str], ...], number: int) -> Written | None:
    """The schema of a number; None where the registry has none, ``NO_SCHEMA`` where it has something else.

    Neither of these is remembered. Something else counts as an answer only from what is a registry otherwise, which a
    page of a proxy is not.

    Parameters
    ----------
    registry : tuple of (str, str)
        See :func:`~tidemill.connectors.schema_registry.options.registry_of`.
    number : int

    Raises
    ------
    TidemillError
        TM5096 when the registry does not answer, or refuses; TM5097 without the library.
    """
    try:
        return _by_id(registry, number)
    except KeyError:
        return None
    except _NoSchemaError as error:
        if not _is_registry(registry):
            raise _unanswered(registry, str(error)) from error
        _client(registry).clear_caches()
        return NO_SCHEMA


@lru_cache(maxsize=4096)
def _by_id(registry: tuple[tuple[str, str], ...], number: int) -> Written:
    """KeyError where there is none, and _NoSchemaError, which are not remembered."""
    found = _asked(registry, "get_schema", number)
    if found is None:
        raise KeyError(number)
    return _written(registry, found)


def newest_schema(registry: tuple[tuple[str, str], ...], subject: str) -> Written | None:
    """The newest schema of a subject; None where there is no such subject. Errors as :func:`schema_by_id`."""
    try:
        found = _asked(registry, "get_latest_version", subject)
        return None if found is None else _written(registry, found.schema)
    except _NoSchemaError as error:
        raise _unanswered(registry, str(error)) from error


def _is_registry(registry: tuple[tuple[str, str], ...]) -> bool:
    """Whether something answers as registries do; those of long ago do not know which types there are.

    Errors as :func:`schema_by_id`.
    """
    try:
        types = _asked(registry, "get_schema_types")
    except _NoSchemaError:
        return False
    return types is None or isinstance(types, list)


def _written(registry: tuple[tuple[str, str], ...], schema: Any) -> Written:
    texts: dict[tuple[str, int], str] = {}

    def follow(references: Any) -> None:
        for reference in references or ():
            place = (reference.subject, reference.version)
            if place in texts or len(texts) > _MOST_REFERENCES:
                continue
            found = _asked(registry, "get_version", *place)
            if found is not None:
                follow(found.schema.references)
                texts[place] = _text(found.schema.schema_str)

    follow(schema.references)
    return Written(_text(schema.schema_type), _text(schema.schema_str), tuple(texts.values()))


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise _NoSchemaError(f"a schema that is {given!r:.100}")
    return given


def _asked(registry: tuple[tuple[str, str], ...], method: str, *about: Any) -> Any:
    """What the registry answers; None where there is nothing, _NoSchemaError for what its client cannot read."""
    try:
        from confluent_kafka.schema_registry.error import SchemaRegistryError
    except ImportError as error:
        raise TidemillError(
            "TM5097",
            "a schema registry needs a package that is not installed",
            got=str(error),
            hint="pip install 'tidemill[avro]', also where tasks run",
        ) from error
    try:
        ask = getattr(_client(registry), method)
        try:
            return ask(*about)
        except _OF_ANSWERS as error:
            raise _NoSchemaError(f"an answer that is no schema: {type(error).__name__}: {error}") from error
    except _NoSchemaError:
        raise
    except SchemaRegistryError as error:
        if error.http_status_code == _NOT_FOUND:
            return None
        what = f"{error.http_status_code}: {error.error_message}"
        raise _unanswered(registry, what, refused=error.http_status_code in _REFUSED) from error
    except Exception as error:
        raise _unanswered(registry, f"{type(error).__name__}: {error}".splitlines()[0]) from error


@lru_cache(maxsize=32)
def _client(registry: tuple[tuple[str, str], ...]) -> Any:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    properties: dict[str, Any] = {_PROPERTIES[name]: value for name, value in registry if name != TOKEN.key}
    properties |= {"timeout": _SECONDS, "max.retries": 1}
    if token := dict(registry).get(TOKEN.key):
        properties |= {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": token}
        properties |= {"bearer.auth.logical.cluster": "none", "bearer.auth.identity.pool.id": "none"}
    return SchemaRegistryClient(properties)


def _unanswered(registry: tuple[tuple[str, str], ...], said: str, refused: bool = False) -> TidemillError:
    for name, value in registry:
        if name in (USER_INFO.key, TOKEN.key):
            said = said.replace(value, "***").replace(value.partition(":")[2] or value, "***")
    return TidemillError(
        "TM5096",
        "a schema registry does not answer as it should",
        got=f"{dict(registry)[URL.key]}: {said}",
        hint="check schema.registry.basic.auth.user.info"
        if refused
        else "check schema.registry.url; nothing was lost: it is asked again",
    )
