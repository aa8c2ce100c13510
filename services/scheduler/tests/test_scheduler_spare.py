"""What becomes of the spare, decided without a process."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2

from daggerspec.limits import DRIVER_OVERHEAD_MIB
from daggerspec.rundir import DriverIdentity
from eventlog.testing import START, given
from fleet import Fleet
from fleet.fold.quotas import Room
from scheduler.drivers.spare_policy import READY_WITHIN, End, Failures, Spare, Start, cold, next_step
from scheduler.leader.occupancy import Occupancy, for_spare

META = events_pb2.RequestMeta(actor="ada")
HEAP = 768
EACH = HEAP + DRIVER_OVERHEAD_MIB
LOCAL = "local[2]"
READY = Spare(
    identity=DriverIdentity(
        dagger="_spare", generation=1, run_dir="/r", boot_id="b", pid=2, start_ticks=3, spare=False
    ),
    master=LOCAL,
    since=START,
    ready=True,
)
NONE = Failures()


def cluster(name: str = "local", master: str = LOCAL) -> events_pb2.ClusterRegistered:
    return events_pb2.ClusterRegistered(meta=META, cluster=spec_pb2.Cluster(name=name, spark_master=master))


def launched(name: str, *, on: str = "local", runs: bool = True) -> list[Any]:
    spec = spec_pb2.DaggerSpec(cluster=on, sql="x")
    return [
        events_pb2.DaggerRequested(meta=META, name=name, spec=spec),
        events_pb2.LaunchIntended(meta={"name": name}, version=1),
        *(
            [events_pb2.Launched(meta={"name": name}), events_pb2.Running(meta={"name": name})]
            if runs
            else []
        ),
    ]


def fleet_of(*events: Any) -> Fleet:
    """The fold of these, with the generation of its launch in each fact."""
    fleet, records = Fleet(), []
    claim = events_pb2.SchedulerStarted(scheduler_id="s", host="h")
    generations: dict[str, int] = {}
    for number, event in enumerate([claim, *events]):
        match event:
            case events_pb2.LaunchIntended():
                generations[event.meta.name] = number
            case events_pb2.Launched() | events_pb2.Running():
                event.meta.generation = generations[event.meta.name]
        records.append(event)
    for record in given(*records):
        assert fleet.apply(record).refused == ""
    return fleet


def job(**changes: Any) -> spec_pb2.JobSpec:
    made = spec_pb2.JobSpec(dagger="d", generation=5)
    made.spec.driver_memory_mib = changes.pop("memory", HEAP)
    if changes.pop("forwards", False):
        made.spec.forward.SetInParent()
    if env := changes.pop("env", ""):
        made.platform.secret_properties["sasl.password"].env = env
    return made


@pytest.mark.parametrize(
    ("launch", "master", "spare", "why"),
    [
        (job(), LOCAL, READY, ""),
        (job(), LOCAL, None, "there was no spare"),
        (job(), LOCAL, replace(READY, ready=False), "the spare was not ready"),
        (job(), LOCAL, replace(READY, alive=False), "the spare was not ready"),
        (job(), "local[4]", READY, "another Spark master"),
        (job(), "spark://h:7077", READY, "another Spark master"),
        (job(memory=900), LOCAL, READY, "a driver_memory of its own"),
        (job(env="KAFKA_PASSWORD"), LOCAL, READY, "a secret of the environment"),
        (job(forwards=True), LOCAL, READY, "a forwarding, whose JVM has both compilers"),
    ],
)
def test_a_launch_takes_the_spare_when_a_cold_driver_would_be_started_as_it_was(
    launch: spec_pb2.JobSpec, master: str, spare: Spare | None, why: str
) -> None:
    assert cold(launch, master, spare, HEAP) == why


def test_a_launch_as_another_user_takes_no_spare() -> None:
    assert cold(job(), LOCAL, READY, HEAP, as_another=True) == "a user of its team's own"


def test_a_spare_is_started_for_the_local_master_of_most_drivers() -> None:
    clusters = cluster("a", "local[1]"), cluster("b", LOCAL), cluster("c", "spark://h:7077")
    few = fleet_of(*clusters)
    more = fleet_of(*clusters, *launched("one", on="b"), *launched("two", on="c"))

    assert next_step(few, None, Room(), NONE, START) == Start("local[1]")
    assert next_step(more, None, Room(), NONE, START) == Start(LOCAL)
    assert next_step(fleet_of(cluster("c", "spark://h:7077")), None, Room(), NONE, START) is None
    assert next_step(Fleet(), None, Room(), NONE, START) is None


def test_no_spare_warms_up_while_a_dagger_starts_and_one_that_is_ready_stays() -> None:
    starting, running = fleet_of(cluster(), *launched("d", runs=False)), fleet_of(cluster(), *launched("d"))

    assert next_step(starting, None, Room(), NONE, START) is None
    assert next_step(starting, READY, Room(), NONE, START) is None
    assert next_step(starting, replace(READY, ready=False), Room(), NONE, START) == End()
    assert next_step(running, None, Room(), NONE, START) == Start(LOCAL)


@pytest.mark.parametrize(
    ("room", "fits"),
    [
        (Room(drivers=2), True),
        (Room(drivers=1), False),
        (Room(memory_mib=2 * EACH, driver_memory_mib=HEAP), True),
        (Room(memory_mib=2 * EACH - 1, driver_memory_mib=HEAP), False),
    ],
)
def test_a_spare_counts_as_a_driver_and_gives_way_to_those_that_run(room: Room, fits: bool) -> None:
    fleet = fleet_of(cluster(), *launched("d"))

    assert next_step(fleet, None, room, NONE, START) == (Start(LOCAL) if fits else None)
    assert next_step(fleet, READY, room, NONE, START) == (None if fits else End())


@pytest.mark.parametrize("taken", [Occupancy(previews=1), Occupancy(replays=1)])
def test_a_spare_gives_way_to_a_process_that_previews_and_to_a_replay(taken: Occupancy) -> None:
    fleet, room = fleet_of(cluster(), *launched("d")), Room(memory_mib=2 * EACH)

    assert next_step(fleet, None, for_spare(room, Occupancy()), NONE, START) == Start(LOCAL)
    assert next_step(fleet, None, for_spare(room, taken), NONE, START) is None
    assert next_step(fleet, READY, for_spare(room, taken), NONE, START) == End()


def test_a_spare_of_another_master_than_is_wanted_ends() -> None:
    assert next_step(fleet_of(cluster(master="local[4]")), READY, Room(), NONE, START) == End()


@pytest.mark.parametrize(
    ("spare", "step"),
    [
        (READY, None),
        (replace(READY, ready=False, since=START - READY_WITHIN + timedelta(seconds=1)), None),
        (replace(READY, ready=False, since=START - READY_WITHIN), End(failed=True)),
        (replace(READY, since=START - 99 * READY_WITHIN), None),
        (replace(READY, alive=False), End(failed=True)),
    ],
)
def test_a_spare_that_died_or_hangs_is_a_failure(spare: Spare, step: End | None) -> None:
    assert next_step(fleet_of(cluster()), spare, Room(), NONE, START) == step


def test_the_next_try_waits_longer_after_each_failure() -> None:
    fleet, waits = fleet_of(cluster()), []
    for count in (1, 2, 3, 50):
        failures, now = Failures(count, START), START
        while next_step(fleet, None, Room(), failures, now) is None:
            now += timedelta(seconds=1)
        waits.append(now - START)

    assert waits == sorted(waits)
    assert timedelta(seconds=4) < waits[0] <= timedelta(seconds=10) < waits[2]
    assert waits[-1] <= timedelta(minutes=10)
