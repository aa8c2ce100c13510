"""Quotas of teams: one dagger too many is refused by the fold, one launch too many waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from daggers.v1 import access_pb2, events_pb2, spec_pb2

from eventlog.testing import given
from fleet import ApplyResult, Dagger, Fleet, Refusal
from fleet.fold import ownership, quotas
from fleet.fold.drivers import Usage
from fleet.fold.phases import DELETED
from fleet.fold.quotas import Full, Room

META = events_pb2.RequestMeta(actor="root")
ADMINISTRATOR = events_pb2.RoleGranted(meta=META, principal="user:ada", role=access_pb2.ROLE_ADMINISTRATOR)
CLAIM = events_pb2.SchedulerStarted(scheduler_id="s", host="h")


def team(name: str = "pricing", **bounds: dict[str, int]) -> events_pb2.TeamRegistered:
    said = access_pb2.Quotas(**{key: access_pb2.Quota(**value) for key, value in bounds.items()})
    return events_pb2.TeamRegistered(meta=META, team=access_pb2.Team(name=name, quotas=said))


def asked(name: str, of: str = "pricing", memory: int = 0) -> events_pb2.DaggerRequested:
    spec = spec_pb2.DaggerSpec(team=of, driver_memory_mib=memory or None)
    return events_pb2.DaggerRequested(meta=META, name=name, spec=spec)


def folded(*events: Any) -> tuple[Fleet, ApplyResult]:
    fleet = Fleet()
    for record in given(*events):
        applied = fleet.apply(record)
    return fleet, applied


def running(*names: str) -> list[Any]:
    """The facts of launches, behind the requests for them."""
    meta = {"epoch": 0}
    return [
        events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name=name, **meta), version=1) for name in names
    ]


def full(fleet: Fleet, name: str, **room: int) -> Full | None:
    running, dagger = Usage.of(fleet.daggers[name] for name in fleet.occupied), fleet.daggers[name]
    own = fleet.drivers.of_team(dagger.spec.team)
    return quotas.full(fleet.catalogue, own, running, dagger, Room(**room))


def test_one_dagger_too_many_is_refused_with_the_number_and_who_to_ask() -> None:
    bounded = team(daggers={"hard": 2})
    fleet, applied = folded(ADMINISTRATOR, bounded, asked("one"), asked("two"), asked("three"))
    assert applied.answer is not None
    refusal = applied.answer.refusal
    assert refusal is not None

    assert (refusal.code, refusal.reason) == ("RESOURCE_EXHAUSTED", "TEAM_QUOTA")
    assert refusal.detail == (
        "team pricing has 2 daggers, and its quota is 2: delete one, or ask an administrator (user:ada)"
        " for more"
    )
    assert dict(refusal.metadata) == {
        "kind": "team", "name": "pricing", "quota": "daggers", "limit": "2", "used": "2",
    }  # fmt: skip
    assert sorted(fleet.daggers) == ["one", "two"]


def test_what_a_team_has_already_may_change_whatever_its_quota_is_now() -> None:
    before = [team(), asked("one"), asked("two"), team(daggers={"hard": 1})]

    assert folded(*before, asked("one", memory=500))[1].changed
    assert not folded(*before, asked("three"))[1].changed


def test_a_dagger_that_is_given_to_another_team_counts_there() -> None:
    before = [team(daggers={"hard": 1}), team("delivery"), asked("one"), asked("two", of="delivery")]

    assert not folded(*before, asked("two", of="pricing"))[1].changed
    assert folded(*before, asked("one", of="delivery"), asked("two", of="pricing"))[1].changed


def test_quotas_stay_when_roles_change() -> None:
    granted = events_pb2.RoleGranted(
        meta=META, team="pricing", principal="user:bob", role=access_pb2.ROLE_VIEWER
    )
    account = events_pb2.ServiceAccountCreated(
        meta=META,
        account=access_pb2.ServiceAccount(name="bot", team="pricing"),
        role=access_pb2.ROLE_VIEWER,
    )
    gone = events_pb2.ServiceAccountRevoked(meta=META, name="bot")
    fleet, _ = folded(team(daggers={"hard": 7}), granted, account, gone)

    assert fleet.catalogue.teams["pricing"].value.quotas.daggers.hard == 7


def test_memory_is_counted_and_not_drivers_so_a_huge_one_waits() -> None:
    fleet, _ = folded(CLAIM, asked("small"), asked("huge", memory=4_000_000_000), *running("small"))
    room = {"memory_mib": 6_000}
    found = full(fleet, "huge", **room)
    folded_more, _ = folded(CLAIM, asked("small"), asked("other"), *running("small"))

    assert found is not None
    assert (found.reason, "4,000,001,536 MiB" in found.detail) == ("MAX_MEMORY", True)
    assert full(folded_more, "other", **room) is None
    assert full(folded_more, "other", drivers=1) is not None
    assert full(folded_more, "other", memory_mib=4_607) is not None
    assert full(folded_more, "other", memory_mib=4_608) is None


def test_a_driver_that_waits_to_be_replaced_takes_what_it_was_launched_with() -> None:
    """A smaller edit lets no others in beside the larger driver, which still runs."""
    before = CLAIM, asked("one", memory=3_000), asked("two"), *running("one")
    large = folded(*before)[0]
    edited = folded(*before, asked("one", memory=1_000))[0]
    again = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name="one", epoch=0), version=2)
    replaced = folded(*before, asked("one", memory=1_000), again)[0]
    used = [fleet.drivers.of_team("pricing").heap_mib for fleet in (large, edited, replaced)]
    room = {"memory_mib": 6_800}

    assert used == [3_000, 3_000, 1_000]
    assert [full(fleet, "two", **room) is None for fleet in (large, edited, replaced)] == [False, False, True]


def test_what_is_no_driver_is_not_told_to_lower_a_heap_that_it_has_not() -> None:
    fleet, _ = folded(CLAIM, asked("one"), asked("two"), *running("one"))
    room = quotas.Room(memory_mib=4_607)
    driver = full(fleet, "two", memory_mib=4_607)
    other = quotas.host_full(Usage.of([fleet.daggers["one"]]), 2_304, room)

    assert driver is not None
    assert other is not None
    assert driver.detail.replace("lower its driver_memory, ", "") == other.detail
    assert (other.error.reason, other.error.retryable) == ("MAX_MEMORY", True)


@pytest.mark.parametrize(
    ("bounds", "waits"),
    [
        ({"drivers": {"hard": 1}}, True),
        ({"drivers": {"hard": 2}}, False),
        ({"drivers": {"soft": 1}}, False),
        ({"memory_mib": {"hard": 4_607}}, True),
        ({"memory_mib": {"hard": 4_608}}, False),
    ],
)
def test_a_launch_beyond_what_its_team_may_have_waits_and_other_teams_do_not(
    bounds: dict[str, dict[str, int]], waits: bool
) -> None:
    others = asked("theirs", of="delivery")
    fleet, _ = folded(CLAIM, team(**bounds), asked("one"), asked("two"), others, *running("one"))
    found = full(fleet, "two")

    assert (found is not None) == waits
    assert found is None or found.reason == "TEAM_QUOTA"
    assert full(fleet, "theirs") is None


@pytest.mark.parametrize(("master", "waits"), [("spark://spark:7077", True), ("local[2]", False)])
def test_a_launch_beyond_its_teams_cores_of_executors_waits_where_there_are_executors(
    master: str, waits: bool
) -> None:
    prod = spec_pb2.Cluster(name="prod", spark_master=master, executors=spec_pb2.Executors(count=3))
    cluster = events_pb2.ClusterRegistered(meta=META, cluster=prod)
    one, two = asked("one"), asked("two")
    for each in (one, two):
        each.spec.cluster = "prod"
    fleet, _ = folded(CLAIM, cluster, team(executor_cores={"hard": 5}), one, two, *running("one"))
    found = full(fleet, "two")
    used = quotas.uses(fleet.catalogue, fleet.list_of_team("pricing"), lambda _: (0, 0))

    assert (found is not None) == waits
    assert (
        found is None or "has 3 cores of executors, this would be 3 more, and its quota is 5" in found.detail
    )
    assert used["executor_cores"] == (3 if waits else 0)


def test_a_soft_quota_warns_of_more_and_of_nothing_else() -> None:
    fleet, _ = folded(
        CLAIM,
        team(daggers={"soft": 1}, drivers={"soft": 1}, records_per_second={"soft": 100}),
        asked("one"),
        asked("two"),
        *running("one"),
    )
    used = quotas.uses(fleet.catalogue, fleet.list_of_team("pricing"), lambda _: (50.1, 0))

    assert used == {
        "daggers": 2, "drivers": 1, "memory_mib": 2_304, "executor_cores": 0, "records_per_second": 100.2,
        "rows_per_minute": 0,
    }  # fmt: skip
    assert list(quotas.describe_exceeded(fleet.catalogue, "pricing", used)) == [
        "team pricing has more than 1 daggers, from where on its quota warns",
        "team pricing has more than 100 records a second, from where on its quota warns",
    ]
    assert not quotas.has_warning(fleet.catalogue, "delivery")


def test_room_is_what_drivers_of_the_usual_size_still_find() -> None:
    fleet, _ = folded(CLAIM, asked("one"), asked("two", memory=2_000), asked("three"), *running("one", "two"))
    drivers = Usage.of(fleet.daggers[name] for name in fleet.occupied)
    usual = quotas.need_mib(asked("one").spec, 768)
    taken = usual + quotas.need_mib(asked("two", memory=2_000).spec)

    def left(**room: int) -> int | None:
        return quotas.room_left(drivers, Room(driver_memory_mib=768, **room))

    assert drivers.drivers == 2
    assert (left(), left(drivers=5), left(drivers=1)) == (None, 3, 0)
    assert [left(memory_mib=taken + more) for more in (-1, 0, usual - 1, usual, 3 * usual)] == [0, 0, 0, 1, 3]
    assert (left(drivers=4, memory_mib=taken + 3 * usual), left(drivers=9, memory_mib=taken + usual)) == (
        2,
        1,
    )


def test_room_in_daggers_like_those_that_run_goes_by_their_mean() -> None:
    fleet, _ = folded(CLAIM, asked("one", memory=1_000), asked("two", memory=3_000), *running("one", "two"))
    drivers = Usage.of(fleet.daggers[name] for name in fleet.occupied)
    mean = quotas.need_mib(asked("one", memory=2_000).spec)
    usual = quotas.need_mib(spec_pb2.DaggerSpec(), 768)

    def count(of: Usage, **room: int) -> int | None:
        return quotas.count_alike(of, Room(driver_memory_mib=768, **room))

    assert [count(drivers, memory_mib=(2 + more) * mean) for more in (-1, 0, 1, 3)] == [0, 0, 1, 3]
    assert count(drivers, memory_mib=9 * mean, drivers=3) == 1
    assert (count(Usage(), memory_mib=4 * usual), count(drivers)) == (4, None)


# ---- Names -------------------------------------------------------------------------------------------------


def with_names(deleted: int, destinations: int) -> Fleet:
    """A fleet with so many names of deleted daggers of the team pricing, and destinations of it."""
    fleet, _ = folded(team(), team("other"), asked("one"))
    gone = replace(fleet.daggers["one"], phase=DELETED)
    fleet.daggers |= {f"gone-{number}": replace(gone, name=f"gone-{number}") for number in range(deleted)}
    places = [f"influx://db:8086/b/{number}" for number in range(destinations)]
    ownership.take(fleet.catalogue, asking("one", *places), 5)
    return fleet


def find_refusal(fleet: Fleet, event: events_pb2.DaggerRequested) -> Refusal | None:
    return quotas.SpentNames().refusal(fleet.catalogue, fleet.daggers, event, fleet.sequence)


def asking(name: str, *destinations: str, of: str = "pricing") -> events_pb2.DaggerRequested:
    request = asked(name, of)
    request.destinations.extend(destinations)
    return request


def test_a_team_leaves_so_many_names_behind_and_uses_them_again() -> None:
    fleet = with_names(quotas.NAMES, 0)
    most = find_refusal(fleet, asking("new"))
    assert most is not None

    assert (most.code, most.reason, most.metadata["limit"]) == ("RESOURCE_EXHAUSTED", "TEAM_QUOTA", "10000")
    assert most.detail == (
        "team pricing has 10,000 names of deleted daggers, and no more than 10,000 are remembered for one:"
        " create one under such a name"
    )
    for free in (asking("gone-7"), asking("one"), asking("new", of="other")):
        assert find_refusal(fleet, free) is None
    del fleet.daggers["gone-7"]
    assert find_refusal(fleet, asking("new")) is None


def test_a_team_has_so_many_destinations_until_it_releases_some() -> None:
    fleet = with_names(0, quotas.NAMES)
    most = find_refusal(fleet, asking("one", "influx://db:8086/b/new"))
    assert most is not None

    assert most.detail == (
        "team pricing has 10,000 destinations, and no more than 10,000 are remembered for one: release some"
        " (`daggers team release`)"
    )
    for free in (asking("one", "influx://db:8086/b/7"), asking("two", "influx://db:8086/b/new", of="other")):
        assert find_refusal(fleet, free) is None
    released = events_pb2.DestinationReleased(meta=META, name="influx://db:8086/b/7")
    fleet.catalogue.remove("destination", released.name, 9)
    again = asking("one", "influx://db:8086/b/new")
    assert find_refusal(fleet, again) is None


def test_names_are_counted_again_only_where_the_bound_may_have_been_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quotas, "NAMES", 5)
    fleet, spent = with_names(3, 0), quotas.SpentNames()
    fleet.daggers |= {
        f"lives-{number}": replace(fleet.daggers["one"], name=f"lives-{number}") for number in range(9)
    }
    counts = 0

    class CountingDict(dict[str, Dagger]):
        def values(self) -> Any:
            nonlocal counts
            counts += 1
            return super().values()

    daggers = CountingDict(fleet.daggers)

    def refusals(*sequences: int) -> list[bool]:
        return [
            spent.refusal(fleet.catalogue, daggers, asking("new"), sequence) is not None
            for sequence in sequences
        ]

    assert (refusals(100, 101), counts) == ([False] * 2, 1)
    # Two records later all that came since may have deleted one, and now two did.
    for name in ("lives-1", "lives-2"):
        daggers[name] = replace(daggers[name], phase=DELETED)
    assert (refusals(102, 103), counts) == ([True] * 2, 3)
    # At the bound each request is counted, so that who deletes nothing more, and uses one again, may go on.
    daggers["lives-1"] = fleet.daggers["lives-1"]
    assert (refusals(104), counts) == ([False], 4)


def test_a_log_from_before_there_was_a_bound_is_folded_as_it_was() -> None:
    fleet = with_names(quotas.NAMES, quotas.NAMES)
    beyond = asking("new", "influx://db:8086/b/new")
    records = given(team(), team("other"), asked("one"), beyond)

    assert fleet.apply(records[-1]).changed
    assert "influx://db:8086/b/new" in fleet.catalogue.destinations
