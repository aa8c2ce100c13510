"""A snapshot and the tail of the log are the fold of the log, wherever it is cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2, state_pb2
from hypothesis import given
from hypothesis import strategies as st
from libs.fleet.tests.fleet_properties import STEPS, history
from tests.golden import golden

from eventlog import LogPosition, Record
from eventlog.testing import given as written
from fleet import Dagger, Fleet
from fleet.fold.horizon import Horizon
from fleet.snapshot.encoding import Entries
from fleet.snapshot.entries import ChangeSet, EntryChanges, Unusable, encode_changes, restore_fleet

SHORT = Horizon(records=12, block=4)


def known(fleet: Fleet) -> dict[str, Any]:
    """All that a fleet knows, but what is registered, part by part."""
    # What begins with _ says what this fold has read, and is no state of the log.
    values = {name: value for name, value in vars(fleet).items() if name != "catalogue" and name[0] != "_"}
    return values | vars(fleet.catalogue) | {"drivers": fleet.drivers.hosts}


def put(entries: Entries, change: EntryChanges) -> Entries:
    """The entries after a change, as a keeper of them has them."""
    stay = {} if change.everything else entries
    stay = {
        key: data for key, data in stay.items() if not any(low <= key < high for low, high in change.gone)
    }
    return stay | change.entries


def followed(records: Sequence[Record], cuts: set[int], horizon: Horizon) -> tuple[Fleet, Entries]:
    """A fleet, and its entries as they were kept at each cut and at the end."""
    fleet, changes, entries = Fleet(horizon), ChangeSet(), Entries()
    for number, record in enumerate(records, start=1):
        changes.add(record, fleet.apply(record))
        if number in cuts or number == len(records):
            entries = put(entries, encode_changes(fleet, changes))
            changes = ChangeSet(everything=False, since=fleet.sequence)
    return fleet, entries


def assert_continues(records: Sequence[Record], cuts: set[int], horizon: Horizon) -> None:
    """What is kept step by step is what is written at once, and each cut and its tail is the whole."""
    whole, at_once = Fleet(horizon), ChangeSet()
    for record in records:
        whole.apply(record)
    expected = put({}, encode_changes(whole, at_once))
    for cut in sorted(cuts):
        fleet, entries = followed(records[:cut], cuts, horizon)
        again = restore_fleet(fleet.position, entries, horizon)
        assert known(again) == known(fleet)
        changes = ChangeSet(everything=False, since=again.sequence)
        for record in records[cut:]:
            changes.add(record, again.apply(record))
        assert known(again) == known(whole)
        assert list(again.answers) == list(whole.answers)
        assert put(entries, encode_changes(again, changes)) == expected


@pytest.mark.parametrize("horizon", [SHORT, Horizon()])
def test_the_golden_history_cut_anywhere_goes_on_from_its_snapshot(horizon: Horizon) -> None:
    records = list(golden.records(golden.history()))
    for cut in range(1, len(records) + 1):
        assert_continues(records, {cut}, horizon)


@given(STEPS, st.sets(st.integers(1, 60)), st.booleans())
def test_any_history_goes_on_from_its_snapshots(steps: list[Any], cuts: set[int], short: bool) -> None:
    records = history(steps)

    assert_continues(records, cuts & set(range(1, len(records) + 1)), SHORT if short else Horizon())


def test_an_id_is_remembered_for_the_horizon_and_then_is_new() -> None:
    ask = events_pb2.StopRequested(name="d")
    create = events_pb2.DaggerRequested(name="d", spec=spec_pb2.DaggerSpec(sql="SELECT 1"))
    others = [events_pb2.StopRequested(name="nobody")] * 40
    fleet = Fleet(SHORT)
    records = written(create, ask, *others)
    repeats = []
    for record in records:
        if record.sequence >= 2:
            record = records[1]._replace(sequence=record.sequence)
        repeats.append(fleet.apply(record).changed)

    accepted_anew = [sequence for sequence, changed_ in enumerate(repeats) if sequence > 1 and changed_]

    assert accepted_anew == [16, 32]


def test_claims_that_no_dagger_speaks_of_are_forgotten() -> None:
    claims = [events_pb2.SchedulerStarted(scheduler_id=f"s{n}", host=f"h{n}") for n in range(5)]
    fleet = Fleet()
    create = events_pb2.DaggerRequested(name="d")
    intended = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name="d", epoch=2), version=1)
    for record in written(claims[0], create, claims[1], intended, *claims[2:]):
        fleet.apply(record)

    dagger = fleet.daggers["d"]

    assert (sorted(fleet.claims), fleet.host_of(dagger), fleet.leader) == ([2, 6], "h1", fleet.claims[6])


def test_a_state_says_everything_of_a_dagger() -> None:
    assert {field_.name for field_ in fields(Dagger)} == set(state_pb2.DaggerState.DESCRIPTOR.fields_by_name)


@pytest.mark.parametrize("data", [b"\xff\xff", state_pb2.EntryState(version=1).SerializeToString()])
def test_entries_that_are_none_are_refused(data: bytes) -> None:
    with pytest.raises(Unusable, match="its entry clusters/local cannot be read"):
        restore_fleet(LogPosition(4, b"x"), {"clusters/local": data})


def test_entries_of_others_are_left_alone() -> None:
    assert known(restore_fleet(LogPosition(), {"refusals/1": b"\xff"})) == known(Fleet())
