"""Write what alert rules observed to `daggers.observations`. It never ends or delays a dagger for long: what
Kafka does not take is written with the next batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from daggers.v1 import rules_pb2, spec_pb2

from chassis.logging import logger
from daggerspec import alertrules, cloudevents
from daggerspec.topics import OBSERVATIONS
from kafkaclient.replacing import Replaceable, answers, discard
from runtime.clients.kafka import client, client_properties

PATIENCE_S: Final = 5.0
"""Seconds for which a batch waits for Kafka."""
_TYPE: Final = rules_pb2.RuleObserved.DESCRIPTOR.full_name


def event_id(observed: rules_pb2.RuleObserved) -> str:
    """Return the id of an observation: the same each time it is observed."""
    key = alertrules.key_digest(observed.key)
    window, state = observed.window.ToMicroseconds(), observed.state
    return f"{observed.dagger}/{observed.rule}/{observed.digest}/{key}/{window}/{state}"


class Observations:
    """Writes observations to the platform's Kafka."""

    def __init__(self, platform: spec_pb2.KafkaAddress) -> None:
        self._platform = platform
        self._producers: Replaceable[Producer] | None = None

    def write(self, observed: Sequence[rules_pb2.RuleObserved]) -> Sequence[rules_pb2.RuleObserved]:
        """Write observations in their order; return those that Kafka has not acknowledged in time."""
        if not observed:
            return ()
        acknowledged: set[int] = set()

        def note_delivery(number: int) -> Callable[[KafkaError | None, Message], None]:
            def note(error: KafkaError | None, _: Message) -> None:
                if error is None:
                    acknowledged.add(number)

            return note

        producers = self._producers = self._producers or self._open()
        producer = producers.current
        try:
            for number, one in enumerate(observed):
                headers = cloudevents.headers(
                    ce_id=event_id(one),
                    ce_type=_TYPE,
                    source=f"/runtime/{one.dagger}/{one.generation}",
                    subject=one.dagger,
                    time=cloudevents.timestamp(datetime.now(UTC)),
                )
                value = one.SerializeToString(deterministic=True)
                producer.produce(
                    OBSERVATIONS, value, one.dagger, headers=[*headers], on_delivery=note_delivery(number)
                )
            producer.flush(PATIENCE_S)
        except (BufferError, KafkaException) as problem:
            logger().warning("observations.not_sent", why=str(problem))
        left = [one for number, one in enumerate(observed) if number not in acknowledged]
        if not left:
            producers.note_success()
        else:
            producer.purge()
            logger().warning("observations.delayed", waiting=len(left))
            if producers.note_failure():
                logger().warning("kafka.producer_replaced")
        return left

    def _open(self) -> Replaceable[Producer]:
        properties = client_properties(self._platform)
        mine = {"linger.ms": 5, "acks": "all", "enable.idempotence": True, "message.timeout.ms": 30_000}
        return Replaceable(
            lambda _: client(Producer, {**properties, **mine}), lambda: answers(properties), discard
        )
