from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from sqlmodel import Session, SQLModel, select, update

from api_gateway.fold import Touched
from api_gateway.projection import Projection
from api_gateway.rows import change
from api_gateway.tables import CONTENT, ProjectionRow
from eventlog import Draft, LogDamaged, Record
from eventlog.memory import MemoryLog
from eventlog.testing import START, given
from fleet import Fleet

pb = gateway_pb2
META = events_pb2.RequestMeta(actor="anyone")


def cluster(name: str, url: str = "http://one:8086") -> events_pb2.ClusterRegistered:
    influx = spec_pb2.InfluxAddress(url=url, bucket="b")
    return events_pb2.ClusterRegistered(
        meta=META, cluster=spec_pb2.Cluster(name=name, influx=influx, spark_master="local")
    )


def asked(name: str, team: str = "pricing") -> events_pb2.DaggerRequested:
    sink = spec_pb2.Sink(influx=spec_pb2.InfluxSink(measurement=name))
    return events_pb2.DaggerRequested(
        meta=META, name=name, spec=spec_pb2.DaggerSpec(team=team, cluster="local", sinks=[sink])
    )


def reference(location: str) -> events_pb2.ReferenceRegistered:
    table = spec_pb2.ReferenceTable(name="cities", location=location)
    return events_pb2.ReferenceRegistered(meta=META, reference=table)


def history() -> list[Record]:
    """Everything a projection has to follow: registrations, revisions, facts, refusals, a deletion."""
    fact = events_pb2.FactMeta(epoch=4, name="first_one")
    gone = events_pb2.FactMeta(epoch=4, name="second_one")
    return given(
        cluster("local"),
        events_pb2.SchemaRegistered(meta=META, schema=spec_pb2.Schema(messages=["shop.A", "shop.B"])),
        events_pb2.StreamRegistered(meta=META, stream=spec_pb2.Stream(name="bookings", message="shop.A")),
        asked("first_one"),
        events_pb2.SchedulerStarted(scheduler_id="s1", host="h"),
        events_pb2.LaunchIntended(meta=fact, submission_id="x", version=1),
        asked("second_one", "delivery"),
        events_pb2.SchemaRegistered(meta=META, schema=spec_pb2.Schema(messages=["shop.B"])),
        cluster("local", "http://two:8086"),
        events_pb2.StartRequested(meta=META, name="nobody"),
        events_pb2.DeleteRequested(meta=META, name="second_one"),
        events_pb2.Deleted(meta=gone),
        asked("third_one"),
        events_pb2.StopRequested(meta=META, name="first_one"),
        reference("/data/one.csv"),
        reference("/data/two.csv"),
    )


def content(projection: Projection) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, in the order of their keys."""
    with Session(projection._engine) as session:
        return {
            kind.__tablename__: sorted(
                tuple(row.model_dump().values()) for row in session.exec(select(kind)).all()
            )
            for kind in (*CONTENT, ProjectionRow)
        }


def touched(fleet: Fleet, records: Sequence[Record]) -> Touched:
    found = Touched(everything=False)
    for record in records:
        applied = fleet.apply(record)
        if applied.answer is not None:
            found.answers.add(record.id)
        shown = "Cluster" in record.type or "Stream" in record.type
        found.daggers |= {applied.subject, *(fleet.daggers if shown else ())}
        found.clusters |= {applied.subject} & fleet.clusters.keys()
        found.streams |= {applied.subject} & fleet.streams.keys()
        found.references |= {applied.subject} & fleet.references.keys()
        found.schemas.add(record.sequence)
    return found


@pytest.mark.parametrize("step", [1, 3, 16])
def test_rows_are_the_same_bytes_whether_followed_step_by_step_or_written_at_once(
    database_url: str, step: int
) -> None:
    records, fleet, projection = history(), Fleet(), Projection(database_url)
    projection.prepare()
    before = -1
    for at in range(0, len(records), step):
        part = records[at : at + step]
        rows = change(fleet, touched(fleet, part))
        assert projection.write(rows, before=before, applied=fleet.mark)
        before = part[-1].sequence
    followed = content(projection)
    projection.write(change(fleet, Touched()), before=-1, applied=fleet.mark)

    rebuilt = content(projection)

    projection.close()
    assert followed == rebuilt
    assert {table: len(rows) for table, rows in rebuilt.items()} == {
        "daggers": 2,
        "clusters": 1,
        "streams": 1,
        "messages": 2,
        "schemas": 2,
        "reference_tables": 1,
        "answers": 13,
        "projection": 1,
    }


def test_a_gateway_behind_another_does_not_overwrite_what_that_one_wrote(database_url: str) -> None:
    records, ahead, behind = history(), Fleet(), Fleet()
    touched(ahead, records)
    touched(behind, records[:5])
    projection = Projection(database_url)
    projection.prepare()
    projection.write(change(ahead, Touched()), before=-1, applied=ahead.mark)
    written = content(projection)

    kept = projection.write(change(behind, Touched()), before=-1, applied=behind.mark)

    assert (kept, content(projection)) == (True, written)
    projection.close()


def test_tables_that_are_behind_what_was_written_ask_for_everything(database_url: str) -> None:
    records, fleet, projection = history(), Fleet(), Projection(database_url)
    projection.prepare()
    touched(fleet, records[:10])
    part = touched(fleet, records[10:])

    kept = projection.write(change(fleet, part), before=9, applied=fleet.mark)

    assert (kept, content(projection)["projection"]) == (False, [])
    projection.close()


def test_tables_of_another_shape_are_dropped_and_their_sequence_is_remembered(database_url: str) -> None:
    fleet, projection = Fleet(), Projection(database_url)
    projection.prepare()
    touched(fleet, history())
    projection.write(change(fleet, Touched()), before=-1, applied=fleet.mark)
    with Session(projection._engine) as session:
        session.exec(update(ProjectionRow).values(shape="of another time"))
        session.commit()

    held = projection.prepare()

    assert (held, content(projection)["daggers"]) == (fleet.mark, [])
    projection.close()


def test_names_sort_by_their_bytes_on_every_database(database_url: str) -> None:
    names = ["ab_", "ab-c", "abc", "ab0", "a_b"]
    fleet, projection = Fleet(), Projection(database_url)
    projection.prepare()
    for record in given(cluster("local"), *map(asked, names)):
        fleet.apply(record)
    projection.write(change(fleet, Touched()), before=-1, applied=fleet.mark)

    listed, _ = projection.daggers([], after="ab-c", limit=10)

    projection.close()
    assert [dagger.name for dagger in listed] == ["ab0", "ab_", "abc"]


async def test_a_gateway_follows_into_its_database_what_a_rebuild_gives(
    harness: Any, samples: Any, database_url: str
) -> None:
    log = MemoryLog()
    async with harness.running(log, database_url=database_url) as client:
        await samples.fill(client)
        await client.create(request_id="one")
        await client.create(name="another_one", request_id="two")
        stop = pb.StopDaggerRequest(name="another_one", request_id="three")
        answer = await client.daggers.StopDagger(stop, timeout=10)
        await client.daggers.GetDagger(
            pb.GetDaggerRequest(name="another_one", min_sequence=answer.sequence), timeout=10
        )
    fleet, projection = Fleet(), Projection(database_url)
    followed = content(projection)
    async for record in log.replay():
        fleet.apply(record)
    projection.write(change(fleet, Touched()), before=-1, applied=fleet.mark)

    rebuilt = content(projection)

    projection.close()
    assert followed == rebuilt
    assert len(rebuilt["daggers"]) == 2


async def test_a_restarted_gateway_knows_what_it_knew(harness: Any, samples: Any, database_url: str) -> None:
    log = MemoryLog()
    async with harness.running(log, database_url=database_url) as client:
        await samples.fill(client)
        created = await client.create(request_id="once")
    async with harness.running(log, database_url=database_url) as client:
        again = await client.create(request_id="once")
        got = await client.daggers.GetDagger(pb.GetDaggerRequest(name="completed_bookings"), timeout=10)

    assert (again, got.dagger) == (created, created.dagger)


@pytest.mark.parametrize(
    ("others", "why"), [(0, "ends at sequence -1"), (5, "holds other records"), (9, "holds other records")]
)
async def test_a_gateway_whose_log_is_not_that_of_its_database_answers_from_that_and_writes_nothing(
    harness: Any, samples: Any, refusal: Any, database_url: str, others: int, why: str
) -> None:
    async with harness.running(database_url=database_url) as client:
        await samples.fill(client)
        created = await client.create()
    foreign = MemoryLog()
    for number in range(others):
        await foreign.append(Draft(f"id-{number}", "/test", "other", START, asked("other")))
    async with harness.running(foreign, database_url=database_url) as client:
        call = client.daggers.GetDagger(pb.GetDaggerRequest(name="completed_bookings"), timeout=10)
        got = await call
        degraded = dict(await call.trailing_metadata())["x-daggers-degraded"]
        created_again = await refusal(client.create(name="another_one"))
        register = pb.RegisterClusterRequest(cluster=samples.cluster())
        registered = await refusal(client.catalog.RegisterCluster(register, timeout=10))
        watching = client.daggers.WatchEvents(pb.WatchEventsRequest(), timeout=10)
        watched = await refusal(watching.read())

    assert (got.dagger, why in degraded, await foreign.end()) == (created.dagger, True, others - 1)
    assert "When the log is damaged" in degraded
    assert [error.reason for error in (created_again, registered, watched)] == ["LOG_DAMAGED"] * 3


async def test_a_log_damaged_while_the_gateway_runs_is_not_written_to(ready: Any, refusal: Any) -> None:
    await ready.create()
    ready.gateway.follower.fail(LogDamaged("topic daggers.control lost records"))
    before = await ready.log.end()

    error = await refusal(ready.create(name="another_one"))
    got = await ready.daggers.GetDagger(pb.GetDaggerRequest(name="completed_bookings"), timeout=10)
    later = await refusal(
        ready.daggers.GetDagger(pb.GetDaggerRequest(name="completed_bookings", min_sequence=99), timeout=10)
    )

    assert (error.reason, got.dagger.name, later.reason, await ready.log.end()) == (
        "LOG_DAMAGED",
        "completed_bookings",
        "LOG_DAMAGED",
        before,
    )


async def test_a_record_that_cannot_be_read_is_set_aside_and_the_gateway_goes_on(ready: Any) -> None:
    ready.log.place([("ce_id", b"x"), ("ce_type", b"daggers.v1.Unheard"), ("ce_subject", b"a")], b"\xff")

    created = await ready.create()

    assert created.sequence == 4


async def test_tables_that_are_lost_while_the_gateway_runs_are_made_anew(
    harness: Any, samples: Any, refusal: Any, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api_gateway.projector._RETRY_S", 5.0)  # not before the refusal is seen
    async with harness.running(database_url=database_url) as client:
        await samples.fill(client)
        await client.create()
        await client.daggers.ListDaggers(pb.ListDaggersRequest(), timeout=10)
        other = Projection(database_url)
        SQLModel.metadata.drop_all(other._engine, other._tables)
        other.close()
        created = await client.create(name="another_one")
        request = pb.GetDaggerRequest(name="another_one", min_sequence=created.sequence)
        error = await refusal(client.daggers.GetDagger(request, timeout=10))
        projector = client.gateway.projector
        async with asyncio.timeout(20):
            while projector.failure:
                await projector.moved()
        listed = await client.daggers.ListDaggers(pb.ListDaggersRequest(), timeout=10)

    assert (error.code, [dagger.name for dagger in listed.daggers]) == (
        grpc.StatusCode.UNAVAILABLE,
        ["another_one", "completed_bookings"],
    )


async def test_another_gateways_writes_are_seen(harness: Any, samples: Any, tmp_path: Any) -> None:
    log = MemoryLog()
    one = await harness.start(log)
    two = await harness.start(log, database_url=f"sqlite:///{tmp_path / 'two.db'}")
    await samples.fill(one)
    created = await one.create()

    got = await two.daggers.GetDagger(
        pb.GetDaggerRequest(name="completed_bookings", min_sequence=created.sequence), timeout=10
    )

    assert got.dagger == created.dagger


async def test_a_forged_record_without_an_id_does_not_stop_the_projection(ready: Any) -> None:
    await ready.log.append(Draft("", "", "x" * 300, START, asked("x" * 300)))
    await ready.log.append(Draft("", "", "", START, asked("")))

    created = await asyncio.wait_for(ready.create(), timeout=10)
    listed = await ready.daggers.ListDaggers(pb.ListDaggersRequest(min_sequence=created.sequence), timeout=10)

    assert "completed_bookings" in [dagger.name for dagger in listed.daggers]
