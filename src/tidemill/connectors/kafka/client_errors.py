"""What Kafka's client says, as numbered errors."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from tidemill.connectors.kafka.errors import missing
from tidemill.errors import TidemillError

_REFUSED = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)
_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})


def refused(error: KafkaError) -> bool:
    """Whether an error says that the brokers do not let the client in."""
    return error.code() in _REFUSED


def numbered(error: KafkaError | KafkaException | Exception | str, servers: str, what: str) -> TidemillError:
    """A numbered error for what a client raised or reported while it did ``what``."""
    cause = error.args[0] if isinstance(error, KafkaException) and error.args else error
    said = cause.str() if isinstance(cause, KafkaError) else str(cause)
    got = f"{servers}: {what}: {said}"
    if isinstance(cause, KafkaError) and cause.code() in _REFUSED:
        return TidemillError(
            "TM5092",
            "Kafka refuses access",
            got=got,
            hint="check kafka.security.protocol, kafka.sasl.* and kafka.ssl.*, and what the user may read",
        )
    if isinstance(cause, KafkaError) and cause.code() in _MISSING:
        return missing(what)
    return TidemillError(
        "TM5091",
        "Kafka does not answer as it should",
        got=got,
        hint="check kafka.bootstrap.servers; nothing was lost: it is asked again",
    )
