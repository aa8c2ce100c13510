"""Turn Kafka's errors into those of a job."""

from __future__ import annotations

from confluent_kafka import KafkaError

from runtime.errors import JobError, TemporaryError, external

_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,  # noqa: SLF001 - the library names its local errors so
}
_MISSING = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - as above
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - as above
}


def job_error(error: KafkaError, action: str) -> JobError:
    """Make the error of a job from Kafka's error during `action`; a `TemporaryError` if a retry may help."""
    if error.code() in _DENIED:
        return external(
            "KAFKA_DENIED", f"Kafka refuses {action}: {error.str()}. Check its credentials and ACLs."
        )
    if error.code() in _MISSING:
        return external("TOPIC_MISSING", f"Kafka does not know the topic: {action} failed.", retryable=True)
    return TemporaryError("KAFKA_UNREACHABLE", f"Kafka does not answer: {action} failed ({error.str()}).")
