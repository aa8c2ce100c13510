"""Share the consumers that sample a cluster among all planners of a process.

A consumer has four threads and connections of its own, and samples for a moment. So a cluster has as many as
sample it at a time; they are closed with the last planner that asks this cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Consumer

from kafkaclient.replacing import Replaceable, answers, discard
from runtime.clients.kafka import PropertiesKey, client, key_of

_SETTINGS = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    # Samples are a few records: nothing is fetched ahead, and little beside them. Of batches that are larger
    # brokers give one.
    "queued.min.messages": 1,
    "fetch.message.max.bytes": 128 * 1024,
    "fetch.queue.backoff.ms": 1,
    "fetch.wait.max.ms": 100,
}
_guard = threading.Lock()
_samplers: dict[PropertiesKey, Samplers] = {}


class Samplers:
    """The sampling consumers of a cluster. Thread-safe."""

    def __init__(self, properties: Mapping[str, str], group: str) -> None:
        """group: is never joined, but librdkafka wants one."""
        self.key = key_of(properties)
        self.users = 0
        self._properties = {**properties, "group.id": group, **_SETTINGS}
        self._resting: list[Replaceable[Consumer]] = []

    @contextmanager
    def take(self) -> Iterator[Replaceable[Consumer]]:
        """Have one for the context, without an assignment. Raises: JobError where it cannot be made."""
        with _guard:
            rested = self._resting.pop() if self._resting else None
        sampler = rested or Replaceable(
            lambda _: client(Consumer, self._properties), lambda: answers(self._properties), discard
        )
        try:
            yield sampler
        finally:
            with _guard:
                is_used = self.users > 0
                if is_used:
                    self._resting.append(sampler)
            if not is_used:
                discard(sampler.current)

    def forget(self) -> None:
        """Discard those that rest: they may be stuck."""
        with _guard:
            stuck, self._resting = self._resting, []
        for sampler in stuck:
            discard(sampler.current)


def use(properties: Mapping[str, str], group: str) -> Samplers:
    """Return the samplers of a cluster, to be left by `leave`."""
    wanted = Samplers(properties, group)
    with _guard:
        samplers = _samplers.setdefault(wanted.key, wanted)
        samplers.users += 1
    return samplers


def leave(samplers: Samplers) -> None:
    """Use them no more; the last one closes them."""
    with _guard:
        samplers.users -= 1
        is_last = samplers.users == 0
        if is_last:
            del _samplers[samplers.key]
    if is_last:
        samplers.forget()
