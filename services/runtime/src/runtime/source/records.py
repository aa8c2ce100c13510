"""Hold records of one partition as columns, whichever client has read them from Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, Message

HEADERS = pa.list_(pa.field("element", pa.struct({"key": pa.string(), "value": pa.binary()})))
"""Type of headers in Spark's own reader of Kafka."""
HEADERS_COLUMN = "__headers"
NO_TIME = -1
"""The Kafka time of a record that has none."""

Ints = npt.NDArray[np.int64]
Properties: TypeAlias = Mapping[str, str | int | bool]
"""Properties of a client: never log or print them, they hold secrets."""


class Limits(NamedTuple):
    """Limits of what is handed on at once; a single record may have more bytes."""

    records: int = 10_000
    """Count of records: what is decoded while it is still in the processor's cache costs a sixth less."""
    bytes: int = 16 * 2**20


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Records:
    """Records in the order of their offsets; all columns have the same length."""

    offsets: Ints
    times: Ints
    """Kafka times, in ms."""
    values: pa.BinaryArray
    """NULL for a record without a value, a tombstone; an empty value is one."""
    keys: pa.BinaryArray
    headers: pa.ListArray | None = None
    """Of type HEADERS, empty for a record without; None where they are not read."""

    def __len__(self) -> int:
        return len(self.offsets)

    def before(self, offset: int) -> Records:
        """Return the records whose offsets are less."""
        count = int(np.searchsorted(self.offsets, offset))
        if count == len(self):
            return self
        headers = None if self.headers is None else self.headers[:count]
        return Records(
            self.offsets[:count], self.times[:count], self.values[:count], self.keys[:count], headers
        )

    def take(self, indexes: Ints) -> Records:
        """Return the records at these indexes."""
        chosen = pa.array(indexes)
        headers = None if self.headers is None else self.headers.take(chosen)
        return Records(
            self.offsets[indexes],
            self.times[indexes],
            self.values.take(chosen),
            self.keys.take(chosen),
            headers,
        )

    def replace_values(self, values: Mapping[int, bytes]) -> Records:
        """Replace the values at some offsets."""
        if not values:
            return self
        replaced = [
            values.get(offset, value)
            for offset, value in zip(self.offsets.tolist(), self.values.to_pylist(), strict=True)
        ]
        return replace(self, values=pa.array(replaced, pa.binary()))

    @staticmethod
    def of(messages: Sequence[Message], *, headers: bool = False) -> Records:
        """Convert messages without errors; with their headers, if those are wanted."""
        # A pair for each message: to read the time is the dearest of all.
        stamps = chain.from_iterable(map(Message.timestamp, messages))
        kinds, times = np.fromiter(stamps, np.int64, 2 * len(messages)).reshape(-1, 2).T
        return Records(
            np.fromiter(map(Message.offset, messages), np.int64, len(messages)),
            np.where(kinds == TIMESTAMP_NOT_AVAILABLE, NO_TIME, times),
            pa.array(map(Message.value, messages), pa.binary()),
            pa.array(map(Message.key, messages), pa.binary()),
            pa.array(map(_headers, messages), HEADERS) if headers else None,
        )


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    """Return the headers in their order, names that come again as well.

    None are an empty list, not NULL: Spark asks after every row how large what it writes is, and Arrow then
    fills the places of all NULLs at the end of a list anew (80 µs for each record).
    """
    headers: Any = message.headers()  # the stubs allow shapes that librdkafka never gives
    return headers or []


@dataclass(frozen=True, slots=True)
class Notice:
    """Event in the place of a record: the end of the partition, or a defect."""

    error: KafkaError
    offset: int
