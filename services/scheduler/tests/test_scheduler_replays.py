"""Schedulers and replays, with real processes: started, adopted, started again, ended, never two at once."""

from __future__ import annotations

from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from services.scheduler.tests.scheduler_replays import asked, finished, replay, runs, waits
from services.scheduler.tests.scheduler_world import META, World, until

from daggerspec import rundir
from eventlog import LogUnavailable
from fleet.fold import quotas


async def test_a_replay_is_run_and_its_outcomes_are_told(world: World) -> None:
    async with world.serving():
        await world.ask()
        await world.append(asked("finish"))
        after = replay(await world.until(finished))
    [home] = (world.state_dir / "runs" / rundir.REPLAYS).iterdir()

    assert after.finished is not None
    assert (dict(after.finished.outcomes), after.finished.HasField("error")) == ({"REPLAYED": 2}, False)
    assert [each for each in world.story() if each.startswith("Replay")] == [
        "ReplayStarted",
        "ReplayStarted",
        "ReplayFinished",
    ]
    assert (home / "replay.pb").read_bytes() == after.request.SerializeToString(deterministic=True)
    assert (home / "spec.pb").exists()


async def test_the_next_scheduler_adopts_the_process_of_a_replay_and_starts_no_other(world: World) -> None:
    async with world.serving():
        await world.ask()
        await world.append(asked("hang"))
        before = replay(await world.until(runs))
    async with world.serving():
        await world.append(events_pb2.StopRequested(meta=META, name="d"))
        await world.until(lambda dagger: bool(dagger.phase == gateway_pb2.STOPPED))
        [alive] = world.drivers().attempts()

    assert before.process is not None
    assert alive.process == before.process
    assert len(world.facts(events_pb2.ReplayStarted)) == 2


async def test_a_process_whose_intent_was_never_answered_is_adopted(world: World) -> None:
    async with world.serving():
        await world.ask()
        await world.append(asked("hang"))
        before = replay(await world.until(runs))
        epoch = world.facts(events_pb2.ReplayStarted)[-1].meta.epoch
    meta = events_pb2.FactMeta(epoch=epoch, name="d")
    intent = events_pb2.ReplayStarted(meta=meta, replay_id="to-hang", process={"host": "here"})
    await world.append(intent, id_="as if it had died in between")
    async with world.serving():
        told = world.fleet.sequence + 1
        after = replay(await world.until(lambda dagger: runs(dagger) and dagger.sequence > told))

    assert after.process == before.process
    assert world.facts(events_pb2.ReplayStarted)[-1].adopted


async def test_an_attempt_that_ends_unfinished_is_followed_by_another(world: World) -> None:
    async with world.serving():
        await world.ask()
        await world.append(asked("crash"))
        after = replay(await world.until(finished))

    assert after.exits == 1
    [exited] = world.facts(events_pb2.ReplayExited)
    assert (exited.code, exited.error.reason) == (69, "LOST")


async def test_a_replay_of_a_dagger_that_is_deleted_is_killed(world: World) -> None:
    async with world.serving():
        await world.ask()
        await world.append(asked("hang"))
        await world.until(runs)
        await world.append(events_pb2.DeleteRequested(meta=META, name="d"))
        await until(lambda: not world.drivers().attempts(), "the attempt still lives")


async def test_an_attempt_that_computes_waits_until_a_driver_more_would_fit(world: World) -> None:
    need = quotas.need_mib(spec_pb2.DaggerSpec())
    async with world.serving(memory_mib=2 * need - 1):
        await world.ask()
        await world.until(lambda dagger: bool(dagger.driver and dagger.driver.pid))
        await world.append(asked("finish", computes=True))
        waiting = replay(await world.until(waits))
        await world.append(events_pb2.StopRequested(meta=META, name="d"))
        after = replay(await world.until(finished))
    story = world.story()

    assert (after.finished is not None, after.waits, after.exits) == (True, None, 0)
    assert story.index("ReplayWaits") < story.index("Stopped") < story.index("ReplayStarted")
    [said] = world.facts(events_pb2.ReplayWaits)
    assert (said.error, said.error.reason) == (waiting.waits, quotas.MAX_MEMORY)
    assert f"it needs {need:,} MiB" in said.error.detail
    assert "driver_memory" not in said.error.detail


async def test_an_attempt_without_spark_waits_for_no_room(world: World) -> None:
    async with world.serving(memory_mib=quotas.need_mib(spec_pb2.DaggerSpec())):
        await world.ask()
        await world.until(lambda dagger: bool(dagger.driver and dagger.driver.pid))
        await world.append(asked("finish"))
        await world.until(finished)

    assert "Stopped" not in world.story()


async def test_the_next_scheduler_asks_for_the_replay_of_an_outage_once_the_sink_takes_rows_again(
    world: World,
) -> None:
    sink = spec_pb2.Sink(log={}, name="db", on_outage={"then": spec_pb2.OnOutage.THEN_SKIP})
    sink.on_outage.auto_replay = True
    world.ends = [LogUnavailable("Kafka is away"), {0: 4, 1: 7}]
    async with world.serving():
        await world.ask(sinks=[sink])
        up = await world.running()
        await world.heartbeat(up, outages={"db": 1})
        before = await world.until(lambda dagger: bool(dagger.outages))
    async with world.serving():
        adopted = await world.until(lambda dagger: dagger.epoch > before.epoch)
        for _ in range(2):
            await world.heartbeat(adopted, outages={"db": 1}, taking=["db"])
        after = await world.until(finished)
        await world.append(events_pb2.StopRequested(meta=META, name="d"))
        await world.until(lambda dagger: bool(dagger.phase == gateway_pb2.STOPPED))
    [asked] = world.facts(events_pb2.QuarantineReplayRequested)

    assert (asked.meta.actor, dict(asked.up_to), list(asked.selection.sinks)) == (
        "platform",
        {0: 4, 1: 7},
        ["db"],
    )
    assert (replay(after).request, [outage.outstanding for outage in after.outages]) == (asked, [False])
    assert world.story().count("SinkSkipped") == 1
