"""On which host a dagger is launched."""

from __future__ import annotations

from dataclasses import replace

from daggers.v1 import events_pb2, spec_pb2

from daggerspec.limits import DRIVER_OVERHEAD_MIB
from eventlog.testing import START
from fleet import Dagger, Fleet
from fleet.decide.placement import AGENT_TOO_OLD, Candidate, choose_host
from fleet.fold.dagger import created

from fleet.fold.phases import RUNNING
from fleet.fold.quotas import Full, Room

NEED = 1000 + DRIVER_OVERHEAD_MIB


def dagger(name: str, host: str = "", **more: object) -> Dagger:
    spec = spec_pb2.DaggerSpec(cluster="c", driver_memory_mib=1000)
    new_one = created(events_pb2.DaggerRequested(name=name, spec=spec), 1, START)
    if host:
        new_one = new_one.but(
            driver=events_pb2.DriverHandle(host=host), host=host, phase=RUNNING, generation=1
        )
    return new_one.but(**more)


def choose(*running: Dagger, of: Dagger | None = None, **rooms: int) -> str | Full:
    """Return where a new dagger goes, when these run and hosts have room for so many."""
    fleet, new = Fleet(), of or dagger("new")
    for one in running:
        fleet.daggers[one.name] = one
        fleet.occupied.add(one.name)
    candidates = [Candidate(host=host, room=Room(memory_mib=fits * NEED)) for host, fits in rooms.items()]
    return choose_host(fleet, new, candidates)


def test_the_leaders_host_is_taken_while_it_has_room_and_then_the_one_with_the_most_left() -> None:
    assert choose(own=2, other=9) == "own"
    assert choose(dagger("a", "own"), own=2, other=9) == "own"
    assert choose(dagger("a", "own"), own=1, other=2, third=3) == "third"
    assert choose(dagger("a", "own"), dagger("b", "third"), own=1, other=2, third=2) == "other"


def test_a_host_without_room_is_passed_over_and_without_any_the_leaders_says_why() -> None:
    full = choose(dagger("a", "own"), dagger("b", "other"), own=1, other=1)

    assert choose(dagger("a", "own"), own=1, other=1) == "other"
    assert isinstance(full, Full)
    assert full.reason == "MAX_MEMORY"


def test_a_dagger_runs_again_where_it_ran_if_there_is_room() -> None:
    ran = dagger("new", ran_on="other")

    assert choose(of=ran, own=3, other=1) == "other"
    assert choose(dagger("a", "other"), of=ran, own=3, other=1) == "own"


def test_a_host_whose_agent_was_too_old_is_not_asked_again_at_once() -> None:
    error = events_pb2.DaggerError(reason=AGENT_TOO_OLD)
    refused = dagger("new", host="other", driver=None, last_error=error)

    assert choose(dagger("a", "own"), of=refused, own=1, other=9, third=1) == "third"
    assert (
        choose(dagger("a", "own"), of=replace(refused, last_error=None), own=1, other=9, third=1) == "other"
    )
