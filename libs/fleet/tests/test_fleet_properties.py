"""Whatever the log holds: twice is once, a replay is the whole, and nothing impossible is believed."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from daggers.v1 import events_pb2, gateway_pb2
from hypothesis import given, settings
from hypothesis import strategies as st
from libs.fleet.tests.fleet_properties import (
    STEPS,
    Step,
    history,
)

from eventlog import Record
from fleet import Fleet
from fleet.fold import tenancy
from fleet.fold.catalogue import REMOVALS
from fleet.fold.drivers import DriverIndex, Usage
from fleet.fold.phases import (
    BACKING_OFF,
    DEGRADED,
    DELETED,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    UNREACHABLE,
)


def fold(records: list[Record]) -> Fleet:
    fleet = Fleet()
    for message in records:
        fleet.apply(message)
    return fleet


def what_is_known(fleet: Fleet) -> Any:
    return fleet.daggers, fleet.answers, fleet.leader, fleet.claims, vars(fleet.catalogue)


def renumbered(records: list[Record]) -> Iterator[Record]:
    for sequence, each in enumerate(records):
        yield replace(each, sequence=sequence)


@given(STEPS, st.data())
@settings(max_examples=3 * settings.default.max_examples // 2)
def test_any_record_twice_is_once_however_late_it_is_repeated(steps: list[Step], data: st.DataObject) -> None:
    records = history(steps)
    first = data.draw(st.integers(0, len(records) - 1))
    later = data.draw(st.integers(first + 1, len(records)))
    fleet = fold(records[:later])
    before = what_is_known(fleet)

    again = fleet.apply(records[first]._replace(sequence=later))

    assert not again.changed
    assert what_is_known(fleet) == before


@given(STEPS, st.data())
def test_a_prefix_and_the_rest_with_any_overlap_are_the_whole(steps: list[Step], data: st.DataObject) -> None:
    records = history(steps)
    cut = data.draw(st.integers(0, len(records)))
    overlap = data.draw(st.integers(0, cut))
    fleet = fold(records[:cut])

    for each in records[overlap:]:
        fleet.apply(each)

    assert what_is_known(fleet) == what_is_known(fold(records))


@given(STEPS)
@settings(max_examples=3 * settings.default.max_examples)
def test_nothing_impossible_is_believed(steps: list[Step]) -> None:
    fleet = Fleet()
    accepted = dict.fromkeys(("d", "e"), 0)
    generations = dict.fromkeys(("d", "e"), 0)
    for event in history(steps):
        applied = fleet.apply(event)
        for name, dagger in fleet.daggers.items():
            if applied.answer and applied.changed and applied.subject == name:
                accepted[name] = 1 if dagger.create_sequence == event.sequence else accepted[name] + 1
            assert dagger.version == accepted[name]
            assert dagger.observed_version <= dagger.version
            assert dagger.observed_generation <= dagger.generation
            assert dagger.generation == 0 or dagger.generation > dagger.create_sequence
            if dagger.generation != generations[name]:
                handed = isinstance(event.message, events_pb2.CutoverHanded)
                assert handed or dagger.generation in (0, event.sequence)
            assert dagger.shadow is None or dagger.shadow.generation > dagger.generation
            assert dagger.shadow is None or dagger.phase not in (STOPPED, DELETED)
            assert dagger.shadowed <= dagger.version
            generations[name] = dagger.generation
            alive = (STARTING, RUNNING, DEGRADED, UNREACHABLE, STOPPING)
            assert dagger.driver is None or dagger.phase in alive
            assert dagger.driver is None or dagger.generation > 0
            assert dagger.not_before is None or dagger.phase == BACKING_OFF
            assert not dagger.reasons or dagger.phase == DEGRADED
            assert dagger.phase != DELETED or dagger.desired == gateway_pb2.DESIRED_DELETED
            assert (name in fleet.occupied) == dagger.occupied
            sinks = [outage.sink for outage in dagger.outages]
            assert sinks == sorted(set(sinks))
        assert fleet.sequence == event.sequence


@given(STEPS)
@settings(max_examples=3 * settings.default.max_examples)
def test_versions_only_grow_and_nothing_goes_that_is_used(steps: list[Step]) -> None:
    fleet = Fleet()
    greatest: dict[tuple[str, str], int] = {}
    for each in history(steps):
        before = {kind: set(fleet.catalogue.entries(kind)) for kind in REMOVALS.values()}
        applied = fleet.apply(each)
        for kind, names in before.items():
            entries, removed = fleet.catalogue.entries(kind), fleet.catalogue.removed[kind]
            assert not entries.keys() & removed.keys()
            for name in names - entries.keys():
                assert (applied.changed, REMOVALS.get(type(each.message))) == (True, kind)
                assert removed[name] == greatest[kind, name]
                for dagger in fleet.daggers.values():
                    read = [stream.stream for stream in dagger.spec.streams]
                    assert dagger.phase == DELETED or kind != "stream" or name not in read
                    assert dagger.phase == DELETED or kind != "team" or name != dagger.spec.team
                for account in fleet.catalogue.accounts.values():
                    assert kind != "team" or name != account.value.team
                for stream in fleet.streams.values():
                    assert (kind, name) not in (
                        ("cluster", stream.value.cluster), ("message", stream.value.message),
                    )  # fmt: skip
            for name, entry in entries.items():
                assert entry.version >= greatest.get((kind, name), 0)
                if name not in names:
                    assert entry.version == greatest.get((kind, name), 0) + 1
                greatest[kind, name] = entry.version
        assert fleet.joined.keys() == fleet.streams.keys()


@given(STEPS)
@settings(max_examples=3 * settings.default.max_examples)
def test_nobody_has_a_role_that_was_not_given_and_an_account_without_a_record_has_none(
    steps: list[Step],
) -> None:
    fleet = Fleet()
    for each in history(steps):
        fleet.apply(each)
        teams, accounts = fleet.catalogue.teams, fleet.catalogue.accounts
        for name, team in teams.items():
            principals = [member.principal for member in team.value.members]
            assert (team.value.name, principals) == (name, sorted(set(principals)))
            assert {member.role == 4 for member in team.value.members} <= {name == ""}
            bots = [who.removeprefix("account:") for who in principals if who.startswith("account:")]
            assert set(bots) <= accounts.keys()
        for account in accounts.values():
            assert account.value.team in teams
            assert len(account.value.tokens) <= tenancy.TOKENS
        for grant in fleet.catalogue.grants.values():
            assert "" not in grant.value.teams


@given(STEPS)
@settings(max_examples=60)
def test_the_index_of_drivers_is_that_of_all_daggers_however_they_came_to_be(steps: list[Step]) -> None:
    fleet, anew = Fleet(), DriverIndex()
    for record in history(steps):
        fleet.apply(record)
    for dagger in fleet.daggers.values():
        anew.put(dagger, fleet.host_of(dagger))
    occupied = [dagger for dagger in fleet.daggers.values() if dagger.occupied]
    living = [dagger for dagger in fleet.daggers.values() if dagger.phase != DELETED]

    assert fleet.drivers.hosts == anew.hosts
    assert fleet.occupied == {dagger.name for dagger in occupied}
    assert set(fleet.drivers.starting) == {
        name for name, dagger in fleet.daggers.items() if dagger.phase == STARTING
    }
    assert {team: set(names) for team, names in fleet.of_teams.items()} == {
        team: {dagger.name for dagger in living if dagger.spec.team == team}
        for team in {dagger.spec.team for dagger in living}
    }
    assert set(fleet.living_names()) == {dagger.name for dagger in living}
    assert set(fleet.replaying) == {
        name
        for name, dagger in fleet.daggers.items()
        if dagger.replay is not None and dagger.replay.finished is None
    }
    for team in {dagger.spec.team for dagger in fleet.daggers.values()}:
        own = [dagger for dagger in occupied if dagger.spec.team == team]
        assert fleet.drivers.of_team(team) == Usage.of(own)
        for dagger in own:
            others = [other for other in own if other is not dagger]
            assert fleet.drivers.of_team(team, beside=dagger.name) == Usage.of(others)
            there = fleet.drivers.on(fleet.host_of(dagger), beside=dagger.name)
            assert sorted(there.daggers) == [
                other.name
                for other in sorted(occupied, key=lambda other: other.name)
                if other is not dagger and fleet.host_of(other) == fleet.host_of(dagger)
            ]
            assert there.usage == Usage.of(there.daggers.values())
