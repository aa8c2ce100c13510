"""The event times of records, and which of them are from the future."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
from confluent_kafka import Message
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from runtime.decode.decoder import Decoder, find_message, message_pool
from runtime.source.plan import ReaderPlan


def descriptor(descriptors: bytes, message: str) -> Descriptor:
    """The message's descriptor; `descriptors` is a serialised FileDescriptorSet."""
    return find_message(message_pool(FileDescriptorSet.FromString(descriptors)), message)


@dataclass(frozen=True, slots=True)
class EventTimes:
    """How event times of a stream are read, and what is known of them: ahead by at most `tolerance_ms`, later
    than others by at most the watermark's `delay_ms`."""

    decoder: Decoder
    tolerance_ms: int
    delay_ms: int

    @staticmethod
    def of_plan(plan: ReaderPlan) -> EventTimes:
        """Those of a reader's records."""
        decoder = Decoder(descriptor(plan.descriptors, plan.message), (), plan.time_field)
        return EventTimes(decoder, plan.tolerance, plan.delay)

    def of(self, messages: Sequence[Message], now_ms: int) -> Iterator[tuple[Message, int]]:
        """Each message whose event time can be used, with that time in us: what a batch that is planned now
        passes on.
        """
        kept, values = valued(messages)
        decoded = self.decoder.decode(values)
        sound = [message for index, message in enumerate(kept) if index not in decoded.broken]
        for message, micros in zip(sound, decoded.rowtime.cast(pa.int64()).to_pylist(), strict=True):
            if micros is not None and micros <= latest(message, now_ms, self.tolerance_ms):
                yield message, micros


def valued(messages: Sequence[Message]) -> tuple[Sequence[Message], list[bytes]]:
    """The messages that have a value, and these values."""
    values = list(map(Message.value, messages))
    if all(values):  # the quickest look at many; an empty value is none of those that are looked for
        return messages, cast("list[bytes]", values)
    kept = [message for message, value in zip(messages, values, strict=True) if value is not None]
    return kept, [value for value in values if value is not None]


def latest(message: Message, planned_ms: int, tolerance_ms: int) -> int:
    """The latest event time (us) of a record that is not from the future.

    That is `tolerance_ms` after the earlier of its Kafka time, which its producer may have written by the
    same wrong clock, and the time when its batch was planned, which a replay knows too.
    """
    return (reference_ms(message, planned_ms) + tolerance_ms) * 1000


def reference_ms(message: Message, planned_ms: int) -> int:
    """The time that a record's event time is compared with."""
    return min(kafka_time(message, planned_ms), planned_ms)


def kafka_time(message: Message, otherwise_ms: int) -> int:
    """The Kafka time (ms) of a record; some producers write none, or nonsense from before Kafka."""
    written = message.timestamp()[1]
    return written if written > 0 else otherwise_ms
