"""Limits of the starts of a host, and their order."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from daggers.v1 import events_pb2, gateway_pb2, spec_pb2

from eventlog.testing import START
from fleet import Dagger, Fleet
from fleet.decide import starts
from fleet.decide.starts import LONGEST_START, PATIENCE, count_starts, has_free_core, place_in_queue
from fleet.fold.dagger import create_dagger
from fleet.fold.hosts import Standing
from fleet.fold.phases import BACKING_OFF, PENDING, RUNNING, STARTING, STOPPING
from fleet.fold.shadow import Shadow

CRITICAL = spec_pb2.DaggerSpec(cluster="c", priority=spec_pb2.PRIORITY_CRITICAL)


def dagger(name: str, **more: object) -> Dagger:
    spec = spec_pb2.DaggerSpec(cluster="c")
    return create_dagger(events_pb2.DaggerRequested(name=name, spec=spec), 1, START).but(**more)


def fleet(*daggers: Dagger, cores: int = 2) -> Fleet:
    state = Fleet()
    state.standings["h"] = Standing(registered=events_pb2.HostRegistered(host="h", cores=cores))
    for one in daggers:
        state.put(one)
    return state


def test_a_host_has_as_many_starts_as_cores_and_one_that_lasts_takes_none() -> None:
    started = [dagger(name, phase=STARTING, host="h", generation=1) for name in "ab"]
    running = dagger("c", phase=RUNNING, host="h", generation=1, driver=events_pb2.DriverHandle(host="h"))
    state = fleet(*started, running)
    soon, late = START + timedelta(seconds=1), START + LONGEST_START

    assert not has_free_core(state, "h", count_starts(state, soon), critical=False)
    assert has_free_core(state, "h", count_starts(state, late), critical=False)
    assert has_free_core(fleet(*started, cores=3), "h", count_starts(state, soon), critical=False)
    assert has_free_core(fleet(cores=0), "h", count_starts(state, soon), critical=False)


def test_a_critical_dagger_waits_for_starts_of_critical_ones_alone() -> None:
    others = [dagger(name, phase=STARTING, host="h", generation=1) for name in "ab"]
    critical = [dagger(name, spec=CRITICAL, phase=STARTING, host="h", generation=1) for name in "cd"]
    soon = START + timedelta(seconds=1)
    found = []
    for started in (others, [*others, critical[0]], critical):
        state = fleet(*started)
        counts = count_starts(state, soon)
        found.append([has_free_core(state, "h", counts, critical=each) for each in (False, True)])

    assert found == [[False, True], [False, True], [False, False]]


def test_a_driver_that_is_stopped_to_be_started_anew_takes_a_core_already_and_one_with_a_shadow_for_it() -> (
    None
):
    handle = events_pb2.DriverHandle(host="h")
    stopping = dagger("a", phase=STOPPING, host="h", generation=1, driver=handle)
    ending = stopping.but(name="b", desired=gateway_pb2.DESIRED_STOPPED)
    shadow = Shadow(generation=2, version=2, time=START, epoch=0)
    edited = dagger("c", phase=RUNNING, host="h", generation=1, driver=handle, shadow=shadow)
    decided = edited.but(name="d", shadow=replace(shadow, boundary=START))
    soon = START + timedelta(seconds=1)

    assert count_starts(fleet(stopping, ending, edited, decided), soon).all == {"h": 2}
    assert count_starts(fleet(stopping, edited), START + LONGEST_START).all == {}


def test_who_runs_is_replaced_where_another_version_is_asked_for_and_no_stop_was_issued() -> None:
    handle = events_pb2.DriverHandle(host="h")
    old = dagger("d", phase=RUNNING, version=2, observed_version=1, generation=1, driver=handle)

    assert starts.wants_replacement(old)
    assert starts.may_wait(old, START)
    assert not starts.may_wait(old, START + PATIENCE)
    assert not starts.may_wait(dagger("e"), START)
    assert not starts.wants_replacement(old.but(observed_version=2))
    assert not starts.wants_replacement(old.but(phase=STOPPING))
    assert not starts.wants_replacement(old.but(desired=gateway_pb2.DESIRED_STOPPED))


def test_critical_and_stopped_ones_go_first_then_all_by_the_hash_of_their_names() -> None:
    names = [f"d{number}" for number in range(20)]
    waiting = [dagger(name, phase=PENDING) for name in names]
    waiting += [
        dagger("critical", spec=CRITICAL),
        dagger("moved", phase=STOPPING, phase_time=START + timedelta(seconds=1)),
    ]
    now = START + timedelta(seconds=5)
    queue = [one.name for one in sorted(waiting, key=lambda one: place_in_queue(one, now))]

    assert queue[:2] == ["critical", "moved"]
    assert sorted(queue[2:]) == sorted(names)
    assert queue[2:] != sorted(names)


def test_who_has_waited_for_long_goes_before_who_came_later_but_critical_ones() -> None:
    now = START + PATIENCE
    old = dagger("old")
    young = dagger("critical", spec=CRITICAL, phase_time=now)
    retried = dagger("retried", not_before=now)
    queue = sorted((retried, young, old), key=lambda one: place_in_queue(one, now))

    assert [one.name for one in queue] == ["critical", "old", "retried"]


def test_who_was_stopped_in_its_turn_is_first_of_its_class_once_its_driver_has_ended() -> None:
    now = START + 2 * PATIENCE
    old = dagger("old")
    ended = dagger("z", phase=STOPPING, phase_time=now)
    ends = ended.but(name="a", generation=1, driver=events_pb2.DriverHandle(host="h"))
    critical = [one.but(name=f"critical-{one.name}", spec=CRITICAL) for one in (old, ended)]
    queue = sorted((ends, old, ended, *critical), key=lambda one: place_in_queue(one, now))

    assert [one.name for one in queue] == ["critical-z", "critical-old", "z", "old", "a"]


def test_who_wants_a_launch() -> None:
    stopped = dagger("s", desired=gateway_pb2.DESIRED_STOPPED)

    assert starts.wants_launch(dagger("d"))
    assert not starts.wants_launch(stopped)
    assert not starts.wants_launch(dagger("r", phase=STARTING))


def test_what_waits_for_its_turn_says_for_which_host_and_how_many_go_first() -> None:
    now = START + timedelta(seconds=1)
    started = [dagger(name, spec=CRITICAL, phase=STARTING, host="h", generation=1) for name in "ab"]
    others = [one.but(spec=dagger("a").spec) for one in started]
    critical, other = dagger("critical", spec=CRITICAL), dagger("other", phase=STOPPING, ran_on="h")
    later = dagger("later", phase=BACKING_OFF, not_before=now + timedelta(seconds=9))
    full = dagger("full", last_error=events_pb2.DaggerError(reason="MAX_MEMORY"))
    state = fleet(*started, critical, other, later, full)
    waits = starts.describe_waits(state, now)
    state.standings["free"] = Standing(registered=events_pb2.HostRegistered(host="free", cores=1))

    assert waits == {
        "critical": "host h starts as many daggers as there are cores",
        "other": "host h starts as many daggers as there are cores; ahead of it in the queue: 1",
    }
    assert starts.describe_waits(state, now).keys() == {"other"}
    assert starts.describe_waits(fleet(*started, critical, cores=3), now) == {}
    assert starts.describe_waits(fleet(*others, critical, other), now).keys() == {"other"}
