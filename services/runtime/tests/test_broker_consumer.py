"""A consumer that gives no records is replaced, however well offsets are answered meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.source.offsets import Partition
from runtime.source.planner import broker, samplers
from runtime.source.planner.broker import Broker

WHERE = Partition("orders", 0)


class Message:
    """The first record of the partition."""

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return WHERE.topic

    def partition(self) -> int:
        return WHERE.number

    def __len__(self) -> int:
        return 1


class Consumer:
    """One of which the first is stuck."""

    made = 0

    def __init__(self) -> None:
        self.is_stuck = Consumer.made == 0
        Consumer.made += 1

    def consume(self, *_: Any) -> list[Message]:
        return [] if self.is_stuck else [Message()]

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class Admin:
    """Asked for nothing."""


def test_offsets_that_are_answered_do_not_excuse_a_stuck_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Consumer, "made", 0)
    monkeypatch.setattr("kafkaclient.replacing.PATIENCE_S", 0.1)
    monkeypatch.setattr(broker, "_TIMEOUT_S", 0.1)
    made = {samplers.Consumer: Consumer, broker.AdminClient: Admin}
    for module in (broker, samplers):
        monkeypatch.setattr(module, "answers", lambda _: True)
        monkeypatch.setattr(module, "client", lambda kind, _: made[kind]())
    asked = Broker({"bootstrap.servers": "nowhere:1"}, "group")
    found = []
    for _ in range(4):
        found.append(len(asked.bounded_samples({WHERE: 0}, 1, 1000)))
        asked.end([])  # answered

    assert (found[0], found[-1]) == (0, 1)
