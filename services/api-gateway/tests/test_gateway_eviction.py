"""Caches of daggers are as small as the fleet, and are seldom searched for what is gone."""

from __future__ import annotations

from daggers.v1 import events_pb2

from api_gateway.state.eviction import LEAST, Eviction
from eventlog.testing import record
from fleet import Dagger, Fleet

META = events_pb2.RequestMeta(actor="test")


class CountingFleet(Fleet):
    """A fleet that counts how often it is asked for a dagger."""

    def __init__(self) -> None:
        super().__init__()
        self.lookups = 0

    def living(self, name: str) -> Dagger | None:
        self.lookups += 1
        return super().living(name)


def test_a_large_fleet_fills_a_cache_in_a_time_that_grows_as_it_does() -> None:
    fleet, eviction, entries = CountingFleet(), Eviction(), dict[str, int]()
    count = 40 * LEAST
    for sequence in range(count):
        name = f"d{sequence}"
        fleet.apply(record(events_pb2.DaggerRequested(meta=META, name=name), sequence=sequence))
        eviction.make_room(entries, fleet)
        entries[name] = sequence

    assert len(entries) == count
    assert fleet.lookups < 2 * count


def test_daggers_that_are_gone_go_before_they_are_as_many_as_those_that_stay() -> None:
    fleet, eviction, entries = Fleet(), Eviction(), dict[str, int]()
    fleet.apply(record(events_pb2.DaggerRequested(meta=META, name="stays"), sequence=0))
    for number in range(10 * LEAST):
        eviction.make_room(entries, fleet)
        entries["stays" if number == 0 else f"gone-{number}"] = number

    assert "stays" in entries
    assert len(entries) <= LEAST
