"""Read the event times of records, and find those that are from the future."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from confluent_kafka import Message
from daggers.v1 import spec_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from runtime.decode.decoder import Decoder, find_message, message_pool
from runtime.source.plan import ReaderPlan, milliseconds
from runtime.source.records import Ints, Records


def descriptor(descriptors: bytes, message: str) -> Descriptor:
    """Return the message's descriptor; `descriptors` is a serialised FileDescriptorSet."""
    return find_message(message_pool(FileDescriptorSet.FromString(descriptors)), message)


@dataclass(frozen=True, slots=True)
class EventTimes:
    """Reader of a stream's event times, and their bounds: ahead of the clock by at most `tolerance_ms`, later
    than others by at most the watermark's `delay_ms`."""

    decoder: Decoder | None
    """None: records are not decoded, and their Kafka times are their event times."""
    tolerance_ms: int
    delay_ms: int

    @staticmethod
    def of_plan(plan: ReaderPlan) -> EventTimes:
        """Build the reader of event times for a plan's records."""
        message = descriptor(plan.descriptors, plan.message)
        decoder = Decoder(message, (), plan.time_field) if plan.time_field else None
        return EventTimes(decoder, plan.tolerance, plan.delay)

    @staticmethod
    def of_stream(stream: spec_pb2.ResolvedStream, descriptors: FileDescriptorSet) -> EventTimes:
        """Build the reader of event times for a stream whose message is among the descriptors."""
        message = find_message(message_pool(descriptors), stream.stream.message)
        return EventTimes(
            Decoder(message, (), stream.stream.time_field),
            milliseconds(stream.input.future_tolerance),
            milliseconds(stream.input.watermark_delay),
        )

    def of(self, messages: Sequence[Message], now_ms: int) -> Iterator[tuple[Message, int]]:
        """Yield each message with a usable event time, and that time in us.

        These are the messages that a batch planned at `now_ms` passes on.
        """
        for place, micros in self.of_records(Records.of(messages), now_ms):
            yield messages[place], micros

    def of_records(self, records: Records, now_ms: int) -> Iterator[tuple[int, int]]:
        """Yield the index of each record with a usable event time, and that time in us, as `of` does."""
        if self.decoder is None:
            times_ms = np.minimum(known_ms(records.times, now_ms), now_ms)
            yield from enumerate((times_ms * 1000).tolist())
            return
        places = np.flatnonzero(records.values.is_valid())
        decoded = self.decoder.decode(records.values.drop_null())
        places = np.delete(places, list(decoded.broken))
        written_ms = known_ms(records.times[places], now_ms)
        latest = latest_us(written_ms, now_ms, self.tolerance_ms).tolist()
        events = decoded.rowtime.cast(pa.int64()).to_pylist()
        for place, micros, limit in zip(places.tolist(), events, latest, strict=True):
            if micros is not None and micros <= limit:
                yield place, micros


def known_ms(times_ms: Ints, otherwise_ms: int) -> Ints:
    """Replace missing Kafka times (ms); some producers write none, or nonsense from before Kafka."""
    return np.where(times_ms > 0, times_ms, otherwise_ms)


def latest_us(written_ms: Ints, planned_ms: int, tolerance_ms: int) -> Ints:
    """Return the latest event times (us) of records with these Kafka times that are not from the future.

    That is `tolerance_ms` after the earlier of the record's Kafka time, which its producer may have written
    by the same wrong clock, and the time when its batch was planned, which a replay knows too.
    """
    return (np.minimum(written_ms, planned_ms) + tolerance_ms) * 1000
