"""Decisions which daggers share a process, which process a launch joins, and who moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from daggers.v1 import access_pb2, events_pb2, spec_pb2, telemetry_pb2

from daggerspec import isolation
from eventlog import Record
from fleet import Dagger, Fleet
from fleet.decide import packing
from fleet.decide.packing import Load, Move, choose_process, explain_alone, measure, next_move
from fleet.decide.placement import Candidate, choose_host
from fleet.fold.phases import RUNNING
from fleet.fold.quotas import Full, Room

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HEAP_MIB = 1_536
META = events_pb2.RequestMeta(actor="test")
SHARED = spec_pb2.ISOLATION_SHARED


class Story:
    """A log with one leading scheduler on host `here`, and daggers on it."""

    def __init__(self) -> None:
        self.fleet, self.now, self._sequence = Fleet(), NOON, 0
        self.append(events_pb2.SchedulerStarted(scheduler_id="s", host="here"))
        for name, master in (("local", "local[2]"), ("other", "local[4]"), ("spark", "spark://h:7077")):
            cluster = spec_pb2.Cluster(name=name, spark_master=master)
            self.append(events_pb2.ClusterRegistered(meta=META, cluster=cluster))

    def append(self, message: Any, subject: str = "d") -> None:
        self._sequence += 1
        record = Record(
            sequence=self._sequence,
            id=f"id-{self._sequence}",
            type=f"daggers.v1.{message.DESCRIPTOR.name}",
            source="/test",
            subject=subject,
            time=self.now,
            message=message,
            value=message.SerializeToString(),
        )
        result = self.fleet.apply(record)
        assert result.changed, result.refused

    def ask(self, name: str, **spec: Any) -> Dagger:
        """Ask for a dagger that shares unless its specification says otherwise."""
        wanted = {"team": "one", "cluster": "local", "isolation": SHARED} | spec
        request = events_pb2.DaggerRequested(meta=META, name=name, spec=spec_pb2.DaggerSpec(**wanted))
        self.append(request, name)
        return self.fleet.daggers[name]

    def fact(self, name: str, fact: Any) -> Dagger:
        assert self.fleet.leader is not None
        fact.meta.name, fact.meta.epoch = name, self.fleet.leader.epoch
        fact.meta.generation = self.fleet.daggers[name].generation
        self.append(fact, name)
        return self.fleet.daggers[name]

    def launch(self, name: str, pid: int) -> Dagger:
        """Have the newest version of a dagger run in a process."""
        version = self.fleet.daggers[name].version
        self.fact(name, events_pb2.LaunchIntended(version=version, host="here"))
        driver = events_pb2.DriverHandle(
            host="here", boot_id="b", pid=pid, start_ticks=1, run_dir=f"/runs/{name}/1"
        )
        self.fact(name, events_pb2.Launched(driver=driver))
        return self.fact(name, events_pb2.Running())

    def run(self, name: str, pid: int, **spec: Any) -> Dagger:
        self.ask(name, **spec)
        return self.launch(name, pid)

    def choose(self, name: str, loads: packing.Loads | None = None, users: str = "") -> int:
        """Return the pid of the process that a dagger's next launch joins; 0: none."""

        def user_of(team: str) -> str:
            return team if team in users.split() else ""

        dagger = self.fleet.daggers[name]
        process = choose_process(self.fleet, dagger, "here", loads or {}, HEAP_MIB, user_of)
        return process.pid if process is not None else 0

    def move(self, loads: packing.Loads, *, room: bool = True) -> Move | None:
        def find_process(dagger: Dagger, host: str) -> events_pb2.DriverHandle | None:
            return choose_process(self.fleet, dagger, host, loads, HEAP_MIB, lambda _: "")

        return next_move(
            self.fleet, "here", loads, HEAP_MIB, self.now, has_room=lambda _: room, find_process=find_process
        )


def load_of(dagger: Dagger, **values: Any) -> Load:
    return Load(generation=dagger.generation, began=NOON, since=NOON, records=0, **values)


@pytest.fixture
def story() -> Story:
    return Story()


def stream(name: str) -> list[spec_pb2.StreamInput]:
    return [spec_pb2.StreamInput(stream=name)]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"isolation": spec_pb2.ISOLATION_AUTO}, "isolation is AUTO"),
        ({"isolation": spec_pb2.ISOLATION_UNSPECIFIED}, "isolation is AUTO"),
        ({"isolation": spec_pb2.ISOLATION_DEDICATED}, "isolation is DEDICATED"),
        ({"forward": spec_pb2.Forward()}, "it forwards records"),
        ({"driver_memory_mib": 900}, "its driver_memory is its own"),
        ({"state": spec_pb2.STATE_STORE_DISK}, "it keeps its state on disk"),
        ({"cluster": "spark"}, "it has executors of cluster spark"),
    ],
)
def test_who_never_shares_has_a_reason_and_joins_none(story: Story, spec: dict[str, Any], why: str) -> None:
    story.run("a", 7)
    dagger = story.ask("b", **spec)

    assert explain_alone(story.fleet, dagger).startswith(why)
    assert story.choose("b") == 0


def test_a_secret_of_the_environment_is_known_wherever_it_is_named(story: Story) -> None:
    place = spec_pb2.SecretRef(env="TOKEN")
    story.append(
        events_pb2.SecretRegistered(
            meta=META, secret=spec_pb2.Secret(name="crm", team="one", place=place, addresses=["h:1"])
        )
    )
    with_token = spec_pb2.Cluster(
        name="local",
        spark_master="local[2]",
        influx=spec_pb2.InfluxAddress(url="http://h:1", token=place),
    )
    secure = spec_pb2.KafkaAddress(bootstrap_servers="h:1", secret_properties={"sasl.password": place})
    for cluster in (with_token, spec_pb2.Cluster(name="secure", kafka=secure)):
        story.append(events_pb2.ClusterRegistered(meta=META, cluster=cluster))
    story.append(
        events_pb2.StreamRegistered(
            meta=META, stream=spec_pb2.Stream(name="s", cluster="secure", topics=["t"])
        )
    )
    story.run("a", 7)
    named = spec_pb2.InfluxAddress(url="http://h:1", token=spec_pb2.SecretRef(name="crm"))
    specs: list[dict[str, Any]] = [
        {"sinks": [spec_pb2.Sink(influx=spec_pb2.InfluxSink())]},
        {"cluster": "other", "sinks": [spec_pb2.Sink(influx=spec_pb2.InfluxSink(address=named))]},
        {"sinks": [spec_pb2.Sink(kafka=spec_pb2.KafkaSink(cluster="secure", topic="t"))]},
        {"streams": stream("s")},
    ]
    reasons = {explain_alone(story.fleet, story.ask(f"b{number}", **one)) for number, one in enumerate(specs)}

    assert reasons == {isolation.TAKES_ENVIRONMENT}
    assert [story.choose(f"b{number}") for number in range(len(specs))] == [0] * len(specs)
    assert explain_alone(story.fleet, story.ask("log", sinks=[spec_pb2.Sink(log=spec_pb2.LogSink())])) == ""


def test_a_launch_joins_daggers_of_its_team_user_and_master_alone(story: Story) -> None:
    story.run("a", 7)
    story.run("alone", 8, isolation=spec_pb2.ISOLATION_DEDICATED)
    same, team, master = story.ask("b"), story.ask("c", team="two"), story.ask("d", cluster="other")

    assert [story.choose(one.name) for one in (same, team, master)] == [7, 0, 0]
    assert packing.describe_company(story.fleet, story.launch("b", 7)) == packing.gateway_pb2.Company(
        daggers=["a"]
    )


def test_teams_share_where_an_administrator_says_so_of_each_and_their_user_is_one(story: Story) -> None:
    story.run("a", 7)
    story.ask("b", team="two")
    closed = story.choose("b")
    for team in ("one", "two"):
        registered = access_pb2.Team(name=team, shares_platform=True)
        story.append(events_pb2.TeamRegistered(meta=META, team=registered), team)

    assert (closed, story.choose("b"), story.choose("b", users="two")) == (0, 7, 0)


def test_a_team_says_it_for_its_daggers(story: Story) -> None:
    registered = access_pb2.Team(name="one", isolation=SHARED)
    story.append(events_pb2.TeamRegistered(meta=META, team=registered), "one")
    story.run("a", 7, isolation=spec_pb2.ISOLATION_UNSPECIFIED)
    story.ask("b", isolation=spec_pb2.ISOLATION_UNSPECIFIED)
    story.ask("c", isolation=spec_pb2.ISOLATION_DEDICATED)

    assert (story.choose("b"), story.choose("c")) == (7, 0)


def test_daggers_of_one_topic_are_together_and_else_the_fullest_process_is_joined(story: Story) -> None:
    for name, pid, read in (("a", 7, "x"), ("b", 7, "x"), ("c", 8, "y")):
        story.run(name, pid, streams=stream(read))
    story.ask("of-y", streams=stream("y"))
    story.ask("of-z", streams=stream("z"))

    assert (story.choose("of-y"), story.choose("of-z")) == (8, 7)


def test_room_is_what_launches_are_measured_to_take_and_no_count(story: Story) -> None:
    members = [story.run(f"m{number}", 7) for number in range(60)]
    story.ask("new")
    bound = packing.FULL * (HEAP_MIB + packing.DRIVER_OVERHEAD_MIB) / 60
    small = {one.name: load_of(one, memory_mib=int(bound) - 1) for one in members}
    large = {one.name: load_of(one, memory_mib=int(bound) + 1) for one in members}

    assert (story.choose("new", small), story.choose("new", large)) == (7, 0)


def test_a_process_counts_once_for_its_host_and_its_team(story: Story) -> None:
    for name, pid in (("a", 7), ("b", 7), ("c", 8)):
        story.run(name, pid)
    usage = story.fleet.drivers.on("here").usage
    before = usage.drivers, usage.memory_mib(HEAP_MIB)
    story.fact("a", events_pb2.Exited(code=0))

    assert before == (2, 2 * (HEAP_MIB + packing.DRIVER_OVERHEAD_MIB))
    assert story.fleet.drivers.of_team("one").drivers == 2


def test_a_launch_that_joins_needs_little_room_and_none_is_placed_where_that_is_not(story: Story) -> None:
    story.run("a", 7)
    new = story.ask("b")
    used = story.fleet.drivers.on("here").usage.memory_mib(HEAP_MIB)
    places = []
    for left in (packing.LAUNCH_MIB - 1, packing.LAUNCH_MIB):
        room = Room(drivers=1, memory_mib=used + left, driver_memory_mib=HEAP_MIB)
        here = [Candidate(host="here", room=room)]
        places.append(choose_host(story.fleet, new, here, joins=lambda _: True))

    assert isinstance(places[0], Full)
    assert (places[0].reason, places[1]) == ("MAX_MEMORY", "here")


@pytest.mark.parametrize(
    "values",
    [{"records_per_second": 101.0}, {"backlog": 100_001}, {"state_rows": 50_001}],
    ids=["rate", "backlog", "state"],
)
def test_who_is_not_light_leaves_at_once_and_nobody_joins_it(story: Story, values: dict[str, Any]) -> None:
    a, b = story.run("a", 7), story.run("b", 7)
    story.ask("new")
    loads = {"a": load_of(a), "b": load_of(b, **values)}
    move = story.move(loads)
    assert move is not None

    assert story.move(loads, room=False) is None
    assert (move.dagger.name, story.choose("new", loads)) == ("b", 0)
    stopped = story.fact("b", move.as_fact())
    assert stopped.left_because == move.leaves != ""
    assert story.move(loads) is None
    story.fact("b", events_pb2.Exited(code=0))
    assert story.choose("b", {}) == 0


def test_of_a_process_without_memory_who_has_most_state_leaves(story: Story) -> None:
    members = [story.run(name, 7) for name in "abc"]
    loads = {
        one.name: load_of(one, memory_mib=HEAP_MIB, state_rows=rows)
        for one, rows in zip(members, (5, 50, 10), strict=True)
    }
    move = story.move(loads)
    assert move is not None

    assert move.dagger.name == "b"
    assert story.move(loads, room=False) is None


def test_who_left_comes_back_after_an_hour_when_it_was_light_for_half_of_one(story: Story) -> None:
    a, b = story.run("a", 7), story.run("b", 7)
    move = story.move({"a": load_of(a), "b": load_of(b, backlog=200_000)})
    assert move is not None
    story.fact("b", move.as_fact())
    story.fact("b", events_pb2.Exited(code=0))
    b = story.launch("b", 9)
    early, late = NOON + timedelta(minutes=59), NOON + timedelta(minutes=61)
    found = []
    for now, light_since in ((early, NOON), (late, late - timedelta(minutes=29)), (late, None), (late, NOON)):
        story.now = now
        found.append(story.move({"b": load_of(b, light_since=light_since)}))

    assert [one is not None for one in found] == [False, False, False, True]
    assert found[3] is not None
    full = load_of(a, memory_mib=2 * HEAP_MIB)
    assert story.move({"a": full, "b": load_of(b, light_since=NOON)}) is None
    story.fact("b", found[3].as_fact())
    story.fact("b", events_pb2.Exited(code=0))
    assert story.choose("b") == 7


def test_rates_are_counted_over_half_a_minute_and_a_new_launch_begins_anew(story: Story) -> None:
    def beat(generation: int, rows: int, lag: int = 0) -> telemetry_pb2.Heartbeat:
        return telemetry_pb2.Heartbeat(generation=generation, rows_in=rows, lag={"t/0": lag})

    first = measure(None, beat(1, 1_000), NOON)
    soon = measure(first, beat(1, 2_000), NOON + timedelta(seconds=10))
    later = measure(soon, beat(1, 7_000, lag=60_000), NOON + timedelta(seconds=40))
    again = measure(later, beat(2, 0), NOON + timedelta(seconds=50))

    assert [load.records_per_second for load in (first, soon, later, again)] == [0, 0, 150, 0]
    assert [load.light_since for load in (first, soon, later, again)] == [
        NOON,
        NOON,
        None,
        NOON + timedelta(seconds=50),
    ]


def test_a_rate_is_counted_from_batch_to_batch_where_a_batch_reads_a_minute_at_once() -> None:
    load, rates = None, set()
    for second in range(0, 600, 5):
        rows = 4_800 * ((second + 20) // 60)  # 80 a second
        beat = telemetry_pb2.Heartbeat(generation=7, rows_in=rows)
        load = measure(load, beat, NOON + timedelta(seconds=second))
        rates.add(load.records_per_second)
    beat = telemetry_pb2.Heartbeat(generation=7, rows_in=rows)
    silent = measure(load, beat, NOON + timedelta(seconds=800))

    assert rates <= {0, 80, 4_800 / 40}  # the first batch has what came before the launch
    assert (load.records_per_second, silent.records_per_second) == (80, 0)


def test_an_edit_forgets_what_was_held_against_it(story: Story) -> None:
    story.run("a", 7)
    for _ in range(2):
        story.fact("a", events_pb2.Exited(suspect=True))
        story.now += timedelta(minutes=9)
        isolated = story.launch("a", 7)
    story.append(
        events_pb2.DaggerRequested(
            meta=META,
            name="a",
            spec=spec_pb2.DaggerSpec(team="one", cluster="local", isolation=SHARED, sql="x"),
        ),
        "a",
    )

    assert isolated.isolated
    assert explain_alone(story.fleet, isolated).startswith("two processes that it shared died")
    assert not story.fleet.daggers["a"].isolated


def test_two_deaths_further_apart_set_nobody_alone(story: Story) -> None:
    story.run("a", 7)
    story.fact("a", events_pb2.Exited(suspect=True))
    story.now += timedelta(minutes=11)
    story.launch("a", 7)
    dagger = story.fact("a", events_pb2.Exited(suspect=True))

    assert (dagger.isolated, dagger.phase == RUNNING) == (False, False)


def test_memory_of_a_start_is_not_taken_for_that_of_a_launch() -> None:
    """Helper processes of a start end within a minute: until then a launch is not measured."""
    beats = [(second, 900 if second < 20 else 400) for second in range(0, 100, 5)]
    load, measured = None, {}
    for second, mib in beats:
        beat = telemetry_pb2.Heartbeat(generation=7, memory_bytes=mib << 20)
        load = measure(load, beat, NOON + timedelta(seconds=second))
        measured[second] = load.memory_mib

    assert {measured[second] for second in range(0, 60, 5)} == {0}
    assert {measured[second] for second in range(60, 100, 5)} == {400}
