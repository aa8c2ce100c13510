"""Records of one partition, read by their offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from confluent_kafka import Consumer, Message, TopicPartition

from kafkaclient.tail import is_end

_AT_ONCE: Final = 1_000
PATIENCE_S: Final = 60.0
"""Nothing comes for so long: who started the replay starts it again."""
_GAP: Final = 2_000
"""So many records that are not wanted are read rather than jumped over."""


def between(
    consumer: Consumer, topic: str, partition: int, start: int, end: int
) -> Iterator[tuple[int, Message]]:
    """The records from one offset to before another. Raises: KafkaException, TimeoutError."""
    if start >= end:
        return
    consumer.assign([TopicPartition(topic, partition, start)])
    deadline = time.monotonic() + PATIENCE_S
    following = start
    while following < end:
        messages = consumer.consume(min(_AT_ONCE, end - following), timeout=0.5)
        if not messages and time.monotonic() > deadline:
            raise TimeoutError(f"the topic {topic} gives nothing for {PATIENCE_S:.0f} s")
        for message in messages:
            deadline = time.monotonic() + PATIENCE_S
            if is_end(message):
                following = end  # the last offsets hold no records
                break
            following = (message.offset() or 0) + 1
            if following <= end:
                yield following - 1, message
    consumer.unassign()  # else what stands behind is fetched, and waits in memory for nobody


def some(
    consumer: Consumer, topic: str, partition: int, offsets: Sequence[int], low: int
) -> Iterator[tuple[int, Message | None]]:
    """The records at these offsets, sorted; None for one that is gone. The partition begins at `low`.

    Raises: as `between`.
    """
    for run in _runs(offsets):
        wanted = iter(run)
        waited = next(wanted, None)
        for offset, message in between(consumer, topic, partition, max(run[0], low), run[-1] + 1):
            while waited is not None and waited < offset:
                yield waited, None
                waited = next(wanted, None)
            if waited == offset:
                yield offset, message
                waited = next(wanted, None)
        while waited is not None:
            yield waited, None
            waited = next(wanted, None)


def _runs(offsets: Sequence[int]) -> Iterator[list[int]]:
    """The offsets in runs that are read in one go."""
    run: list[int] = []
    for offset in offsets:
        if run and offset - run[-1] > _GAP:
            yield run
            run = []
        run.append(offset)
    if run:
        yield run
