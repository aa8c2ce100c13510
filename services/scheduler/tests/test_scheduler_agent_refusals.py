"""Two hosts with real processes: what an agent refuses, other versions, lost hosts and those that return."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import Message
from services.scheduler.tests.newer_fields import extend
from services.scheduler.tests.scheduler_agents import THERE, agent, ask_in_vain, register, two_hosts
from services.scheduler.tests.scheduler_replays import asked, finished
from services.scheduler.tests.scheduler_world import DEADLINE_S, HOST, META, World, until

from eventlog.follower import Follower
from eventlog.testing import record
from fleet import Dagger, Fleet
from fleet.decide import requirements
from fleet.decide.observation import Presence
from fleet.decide.placement import NO_HOST
from fleet.decide.requirements import format_file, format_master
from fleet.fold.catalogue import Entry
from fleet.fold.hosts import host_subject
from fleet.fold.phases import BACKING_OFF
from scheduler.leader.inventory import Inventory, reaches_master

INFLUX = {"url": "http://influx:8086", "bucket": "b"}


def needing(file: Path) -> spec_pb2.Sink:
    """Make a sink whose token stands in a file."""
    return spec_pb2.Sink(influx={"address": {**INFLUX, "token": {"file": str(file)}}})


def waits_for_room(dagger: Dagger) -> bool:
    error = dagger.last_error
    return dagger.driver is None and error is not None and error.reason == "MAX_DRIVERS"


def list_lacking_files(world: World) -> list[str]:
    """List the words of files that the leader's host lacks."""
    registered = world.fleet.standing(HOST).registered
    assert registered is not None
    return [word for word in registered.lacks if word.startswith(format_file(""))]


async def until_read(world: World, holds: Callable[[], bool]) -> None:
    """Fold what comes, of whatever it is, until something holds."""
    async with asyncio.timeout(DEADLINE_S):
        async for record in world.control.follow(world.fleet.sequence):
            world.fleet.apply(record)
            if holds():
                return


def failures(world: World) -> list[Any]:
    return [fact.error for fact in world.facts(events_pb2.LaunchFailed)]


async def test_an_agent_refuses_a_dagger_whose_file_its_host_has_not_and_then_registers_that(
    world: World, tmp_path: Path
) -> None:
    missing = tmp_path / "token"
    async with two_hosts(world):
        await world.ask(sinks=[needing(missing)])
        await world.until(
            lambda dagger: dagger.last_error is not None and dagger.last_error.reason == "HOST_LACKS"
        )
    error = failures(world)[-1]
    async with agent(world, HOST, max_drivers=0):
        await world.until(lambda _: f"file {missing}" in world.fleet.standing(HOST).registered.lacks)  # type: ignore[union-attr] # it registers
        epoch = world.fleet.standing(HOST).epoch
        missing.write_text("secret")
        world.ahead = timedelta(minutes=1)
        await until_read(world, lambda: not list_lacking_files(world))

    assert world.fleet.standing(HOST).epoch == epoch
    assert error.detail == f"host {THERE} has no file {missing}"
    assert error.retryable


async def test_an_agent_refuses_what_says_more_than_it_knows(world: World) -> None:
    spec = spec_pb2.DaggerSpec.FromString(extend(spec_pb2.DaggerSpec(cluster="local", sql="run")))
    cluster = spec_pb2.Cluster(name="local", spark_master="local[1]")
    async with agent(world, HOST, max_drivers=0), agent(world):
        await world.append(events_pb2.ClusterRegistered(meta=META, cluster=cluster), "local")
        await world.append(events_pb2.DaggerRequested(meta=META, name="d", spec=spec))
        await world.until(
            lambda dagger: dagger.last_error is not None and dagger.last_error.reason == "AGENT_TOO_OLD"
        )

    text = "the scheduler of host there is older than its daggers.v1.DaggerSpec: upgrade it"
    assert failures(world)[-1].detail == text


async def test_an_intent_of_a_lost_host_is_not_made_anew_where_its_labels_are_missing(world: World) -> None:
    spec = spec_pb2.DaggerSpec(cluster="local", sql="run", needs={"zone": "b"})
    cluster = spec_pb2.Cluster(name="local", spark_master="local[1]")
    async with agent(world, HOST):
        await world.append(events_pb2.ClusterRegistered(meta=META, cluster=cluster), "local")
        await world.append(register(THERE, "nobody"), host_subject(THERE))
        await world.append(events_pb2.DaggerRequested(meta=META, name="d", spec=spec))
        await world.until(lambda dagger: dagger.last_error is not None)
        await world.append(events_pb2.HostCordoned(meta=META, host=HOST), host_subject(HOST))
        assert world.fleet.leader is not None
        meta = events_pb2.FactMeta(epoch=world.fleet.leader.epoch, name="d")
        await world.append(events_pb2.LaunchIntended(meta=meta, version=1, host=THERE))
        gone = events_pb2.HostGone(meta=META, host=THERE, epoch=world.fleet.standing(THERE).epoch)
        await world.append(gone, host_subject(THERE))
        after = await world.until(lambda dagger: dagger.generation > 0 and dagger.phase == BACKING_OFF)

    assert [fact.host for fact in world.facts(events_pb2.LaunchIntended)] == [THERE]
    assert after.driver is None


async def test_an_edit_that_comes_as_a_launch_begins_is_not_launched_where_it_cannot_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    anywhere, there = (
        spec_pb2.DaggerSpec(cluster="local", sql="run", needs=needs) for needs in ({}, {"zone": "b"})
    )
    edits = [events_pb2.DaggerRequested(meta=META, name="d", spec=there)]
    catch_up = Follower.catch_up

    async def edit_first(follower: Follower[Any]) -> None:
        if edits:
            await world.append(edits.pop())
        await catch_up(follower)

    async with agent(world, HOST):
        await world.ask(name="e")
        await world.running(name="e")
        monkeypatch.setattr(Follower, "catch_up", edit_first)
        await world.append(events_pb2.DaggerRequested(meta=META, name="d", spec=anywhere))
        after = await world.until(lambda dagger: dagger.last_error is not None)

    assert world.facts(events_pb2.LaunchIntended) == []
    assert (after.version, after.last_error.reason if after.last_error else "") == (2, NO_HOST)


async def test_an_agent_of_the_version_before_gets_no_shadow_and_no_replay(world: World) -> None:
    async with agent(world, HOST, max_drivers=0, cutover=True):
        await ask_in_vain(world)
        async with agent(world, level=1):
            first = await world.running()
            await world.append(asked("finish"))
            await world.until(finished)
            await world.ask("run other")
            after = await world.running(after=first.generation)

    assert (after.current, after.host) == (True, THERE)
    assert not world.facts(events_pb2.ShadowIntended)
    assert {fact.process.host for fact in world.facts(events_pb2.ReplayStarted)} == {HOST}


async def test_critical_daggers_of_a_lost_host_run_first_and_what_is_gone_takes_no_room(world: World) -> None:
    await world.append(events_pb2.SchedulerStarted(scheduler_id="afar", host=THERE), "scheduler")
    for name in ("a", "b", "z"):
        priority = spec_pb2.PRIORITY_CRITICAL if name == "z" else spec_pb2.PRIORITY_UNSPECIFIED
        await world.ask(name=name, priority=priority)
        meta = events_pb2.FactMeta(epoch=0, name=name)
        await world.append(events_pb2.LaunchIntended(meta=meta, version=1), name)
        meta.generation = await world.control.end()
        driver = events_pb2.DriverHandle(host=THERE, pid=7)
        await world.append(events_pb2.Launched(meta=meta, driver=driver), name)
    async with world.serving(max_drivers=1):
        lost = events_pb2.HostGone(meta=META, host=THERE, cause=events_pb2.HOST_GONE_CAUSE_PERSON)
        await world.append(lost, host_subject(THERE))
        critical = await world.launched(name="z", after=meta.generation)
        # in the order of starts, which goes by the hash of their names
        await world.until(lambda _: all(waits_for_room(world.fleet.daggers[name]) for name in "ab"), name="a")

    assert critical.host == HOST


async def test_a_host_that_returns_ends_what_runs_elsewhere_by_then(world: World) -> None:
    async with agent(world, HOST, max_drivers=1):
        await world.ask(name="filler")
        await world.running(name="filler")
        async with agent(world):
            await world.ask()
            first = await world.running()
        assert first.driver is not None
        await world.append(events_pb2.StopRequested(meta=META, name="filler"), "filler")
        lost = events_pb2.HostGone(meta=META, host=THERE, epoch=world.fleet.standing(THERE).epoch)
        await world.append(lost, host_subject(THERE))
        second = await world.launched(after=first.generation)
        lived_on = world.drivers(THERE).presence(first.driver)
        async with agent(world):
            await until(
                lambda: world.drivers(THERE).presence(first.driver) is Presence.GONE,  # type: ignore[arg-type] # it had one
                "the driver lives on",
            )

    assert (first.host, second.host, lived_on) == (THERE, HOST, Presence.ALIVE)


# ---- What a host lacks -------------------------------------------------------------------------------------


def inventory(*teams: str, users: tuple[str, ...] = (), reader: bool = True, there: str = "") -> list[str]:
    """Inventory a host with these users for teams, and one file, for a dagger that reads two."""
    fleet = Fleet()
    for team in teams:
        event = events_pb2.TeamRegistered(meta=META, team={"name": team})
        fleet.catalogue.teams[team] = event.team  # type: ignore[assignment] # its name is all that is read
    of_host = Inventory(
        fleet, has_user=users.__contains__, reader=reader, is_readable=lambda path: path == there
    )
    return of_host.format_lacks(map(format_file, of_host.list_missing(["/a", "/b"])))


def test_a_host_lacks_files_users_of_teams_and_the_reader() -> None:
    assert inventory("crm", "hr", there="/a") == ["users", "file /b"]
    assert inventory("crm", "hr", users=("crm",), there="/a") == ["user of hr", "file /b"]
    assert inventory(reader=False) == ["reader", "users", "file /a", "file /b"]


def test_a_host_looks_for_files_of_what_is_registered_that_no_dagger_needs() -> None:
    """Find what samples, previews and tests of sinks read, before there is any dagger."""
    fleet = Fleet()
    kafka = spec_pb2.KafkaAddress(bootstrap_servers="k:9093")
    kafka.secret_properties["sasl.password"].file = "/run/kafka"
    influx = spec_pb2.InfluxAddress(url="http://influx:8086", token={"name": "influx"})
    secret = spec_pb2.Secret(name="influx", place={"file": "/run/influx"})
    registrations: tuple[Message, ...] = (
        events_pb2.SecretRegistered(meta=META, secret=secret),
        events_pb2.ClusterRegistered(meta=META, cluster={"name": "c", "kafka": kafka, "influx": influx}),
        events_pb2.SinkRegistered(meta=META, sink={"name": "s", "sink": needing(Path("/run/sink"))}),
        events_pb2.ReferenceRegistered(meta=META, reference={"name": "r", "location": "/data/r"}),
        events_pb2.ReferenceRegistered(meta=META, reference={"name": "far", "location": "s3a://b/r"}),
    )
    for sequence, event in enumerate(registrations):
        assert fleet.apply(record(event, sequence=sequence)).changed
    of_host = Inventory(fleet, has_user=lambda _: False, reader=True)

    assert of_host.list_words() == [
        *("file /data/r", "file /run/influx", "file /run/kafka", "file /run/sink"),
    ]


async def test_a_host_lacks_the_spark_master_of_which_no_address_answers() -> None:
    fleet, master = Fleet(), "spark://10.0.0.1:7077"
    cluster = spec_pb2.Cluster(name="far", spark_master=master)
    fleet.catalogue.clusters["far"] = Entry(cluster, 1, 1)

    async def reaches(url: str) -> bool:
        return url != master

    of_host = Inventory(fleet, has_user=lambda _: True, reader=True, reaches_master=reaches)
    missing = await of_host.find_missing(spec_pb2.DaggerSpec(cluster="far"))
    nothing = await of_host.find_missing(spec_pb2.DaggerSpec(cluster="near"))

    assert (missing, nothing) == ([format_master(master)], [])
    assert of_host.format_lacks(missing) == [f"master {master}"]


async def test_what_two_searches_at_once_find_is_not_mixed_up() -> None:
    searching, answer = asyncio.Event(), asyncio.Event()

    async def reaches(_: str) -> bool:
        searching.set()
        await answer.wait()
        return False

    of_host = Inventory(
        Fleet(), has_user=lambda _: True, reader=True, is_readable=lambda _: False, reaches_master=reaches
    )
    words = ["file /a", "master spark://10.0.0.1:7077"]
    slow = asyncio.create_task(of_host.look_for(words))
    await searching.wait()
    async with asyncio.timeout(DEADLINE_S):
        other = None
        while other is None:  # the files of the first are looked for
            await asyncio.sleep(0.01)
            other = await of_host.look_for(["file /b"])
    answer.set()

    assert (await slow, other) == (words, ["file /b"])


async def test_a_spark_master_is_reached_by_any_of_its_addresses() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        both = await reaches_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    neither = await reaches_master("spark://127.0.0.1:1,nowhere")

    assert (both, neither) == (True, False)


def test_files_are_looked_for_again_only_where_a_specification_or_the_catalogue_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet, searched = Fleet(), list[str]()

    def list_words(fleet: Fleet, spec: spec_pb2.DaggerSpec) -> list[str]:
        searched.append(spec.sql)
        return requirements.list_words(fleet, spec)

    monkeypatch.setattr("scheduler.leader.inventory.list_words", list_words)
    of_host = Inventory(fleet, has_user=lambda _: False, reader=True)

    def put(sequence: int, message: Message) -> None:
        fleet.apply(record(message, sequence=sequence))

    def ask(name: str, table: str) -> events_pb2.DaggerRequested:
        spec = spec_pb2.DaggerSpec(sql=f"SELECT '{table}'")
        return events_pb2.DaggerRequested(meta=META, name=name, spec=spec)

    def register(table: str, location: str) -> events_pb2.ReferenceRegistered:
        reference = spec_pb2.ReferenceTable(name=table, location=location)
        return events_pb2.ReferenceRegistered(meta=META, reference=reference)

    put(0, register("cities", "/a"))
    put(1, ask("d", "cities"))
    put(2, ask("e", "none"))
    first, again = of_host.list_words(), of_host.list_words()
    put(3, ask("e", "cities"))
    after_edit = of_host.list_words()
    put(4, register("cities", "/b"))
    after_registration = of_host.list_words()

    assert [first, again, after_edit] == [["file /a"]] * 3
    assert after_registration == ["file /b"]
    assert searched == [
        "SELECT 'cities'",
        "SELECT 'none'",
        "SELECT 'cities'",  # of e alone
        "SELECT 'cities'",
        "SELECT 'cities'",
    ]
