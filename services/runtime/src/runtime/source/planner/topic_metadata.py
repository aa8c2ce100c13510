"""Ask for the ends of a reader's topics, and check that they are still the topics it has read so far."""

from __future__ import annotations

import time
from collections.abc import Sequence

from runtime.errors import JobError, TemporaryError, external
from runtime.source.offsets import Offsets, Partition, Positions
from runtime.source.planner.broker import Broker, Topic

_FRESH_S = 10.0


class TopicMetadata:
    """Metadata of topics, for each batch anew. The caller closes `broker`."""

    def __init__(self, broker: Broker, topics: Sequence[str]) -> None:
        self._broker = broker
        self._names = topics
        self._topics: dict[str, Topic] = {}
        self._described_at = float("-inf")
        self._end: dict[Partition, int] = {}

    def ends(self, here: Offsets) -> dict[Partition, int]:
        """Return the end of every partition, new ones included, for a reader that stands at `here`.

        Raises `TemporaryError` when Kafka does not answer or a partition has no leader, and `JobError` when a
        topic was made anew or is shorter than what was read.
        """
        if time.monotonic() - self._described_at > _FRESH_S:
            self._describe(here)
        end = self._broker.end(self._partitions())
        if end != self._end:
            # Something moved: make sure that it moved in the topics we know.
            self._describe(here)
            end = self._broker.end(self._partitions())
        for partition, offset in sorted(here.next.items()):
            if end.get(partition, 0) < offset:
                raise _partition_truncated(partition, offset, end.get(partition, 0))
        self._end = end
        return end

    def look(self, here: Offsets) -> dict[Partition, int]:
        """Return the end of every partition, for a reader that stands at `here` and reads nothing yet.

        Now and then it checks that they are still the same topics. Raises as `ends` does.
        """
        if time.monotonic() - self._described_at > _FRESH_S:
            self._describe(here)
        return self.known_ends()

    def known_ends(self) -> dict[Partition, int]:
        """Return the end of every partition that the last description of the topics has; from any thread.

        Raises: JobError.
        """
        return self._broker.end(self._partitions())

    def find_expired(self, start: Positions) -> dict[Partition, int]:
        """Return the first offset of partitions in which records from `start` on were deleted unread."""
        first = self._broker.first(start)
        return {
            partition: first[partition] for partition, offset in start.items() if first[partition] > offset
        }

    def latest(self) -> Offsets:
        """Return the last known ends."""
        return Offsets({name: topic.id for name, topic in self._topics.items()}, self._end)

    def _partitions(self) -> list[Partition]:
        return [partition for topic in self._topics.values() for partition in topic.partitions]

    def _describe(self, here: Offsets) -> None:
        self._topics = self._broker.topics(self._names)
        for name, id_ in sorted(here.ids.items()):
            if name not in self._topics:
                raise external(
                    "CHECKPOINT_MISMATCH",
                    f"The checkpoint was made for the topic {name!r}, which is not read now.",
                )
            if self._topics[name].id != id_:
                raise _topic_recreated(name)
        if leaderless := [str(p) for topic in self._topics.values() for p in topic.leaderless]:
            raise TemporaryError("PARTITION_UNAVAILABLE", f"No leader for {', '.join(leaderless)}.")
        self._described_at = time.monotonic()


def _topic_recreated(topic: str) -> JobError:
    return external(
        "TOPIC_RECREATED",
        f"The topic {topic!r} was deleted and made anew, so the offsets this dagger has read mean nothing "
        "in it: delete the dagger and apply it again to begin with the new topic.",
    )


def _partition_truncated(partition: Partition, offset: int, end: int) -> JobError:
    return external(
        "TOPIC_TRUNCATED",
        f"{partition} ends at offset {end}, but this dagger has read up to {offset}: records were "
        "lost in Kafka. Delete the dagger and apply it again to begin with what the topic holds.",
    )
