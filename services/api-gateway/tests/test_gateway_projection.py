from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from daggers.v1 import gateway_pb2
from sqlalchemy.exc import OperationalError
from sqlmodel import SQLModel
from tests.contracts.projections import ProjectionContract, asked, content

from api_gateway.state.fold import Fold
from api_gateway.state.projection import Projection
from api_gateway.state.rows import build_change
from eventlog import Draft, LogDamaged
from eventlog.memory import MemoryLog
from eventlog.testing import START
from fleet.snapshot.entries import ChangeSet

pb = gateway_pb2


class TestProjection(ProjectionContract):
    @pytest.fixture
    def projection(self, database_url: str) -> Iterator[Projection]:
        made = Projection(database_url)
        made.prepare()
        yield made
        made.close()


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
    fold, projection = Fold(), Projection(database_url)
    followed = content(projection)
    async for record in log.replay():
        fold.apply(record)
    projection.write(build_change(fold, ChangeSet()), before=-1)

    rebuilt = content(projection)

    projection.close()
    assert followed == rebuilt
    assert len(rebuilt["daggers"]) == 2


def lasting(dagger: pb.Dagger) -> pb.Dagger:
    """Without what it does now, which is in no answer of a write."""
    dagger.ClearField("vitals")
    return dagger


async def test_a_restarted_gateway_knows_what_it_knew(harness: Any, samples: Any, database_url: str) -> None:
    log = MemoryLog()
    async with harness.running(log, database_url=database_url) as client:
        await samples.fill(client)
        created = await client.create(request_id="once")
    async with harness.running(log, database_url=database_url) as client:
        again = await client.create(request_id="once")
        got = await client.daggers.GetDagger(pb.GetDaggerRequest(name="completed_bookings"), timeout=10)

    assert (again, lasting(got.dagger)) == (created, created.dagger)


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

    assert (lasting(got.dagger), why in degraded, await foreign.end()) == (created.dagger, True, others - 1)
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


async def drop_tables(projection: Projection) -> None:
    """Drop the tables of a projection that a gateway writes to: SQLite lets one write at a time."""
    async with asyncio.timeout(30):
        while True:
            try:
                return SQLModel.metadata.drop_all(projection.database.engine, projection._tables)
            except OperationalError:
                await asyncio.sleep(0.1)


async def test_tables_that_are_lost_while_the_gateway_runs_are_made_anew(
    harness: Any, samples: Any, refusal: Any, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api_gateway.state.projector._RETRY_S", 5.0)  # not before the refusal is seen
    async with harness.running(database_url=database_url) as client:
        await samples.fill(client)
        await client.create()
        await client.daggers.ListDaggers(pb.ListDaggersRequest(), timeout=10)
        other = Projection(database_url)
        await drop_tables(other)
        other.close()
        created = await client.create(name="another_one")
        request = pb.ListDaggersRequest(min_sequence=created.sequence)
        error = await refusal(client.daggers.ListDaggers(request, timeout=10))
        one = pb.GetDaggerRequest(name="another_one", min_sequence=created.sequence)
        got = await client.daggers.GetDagger(one, timeout=10)
        projector = client.gateway.projector
        async with asyncio.timeout(20):
            while projector.failure:
                await projector.wait_for_write()
        listed = await client.daggers.ListDaggers(pb.ListDaggersRequest(), timeout=10)

    assert lasting(got.dagger) == created.dagger
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

    assert lasting(got.dagger) == created.dagger


async def test_a_forged_record_without_an_id_does_not_stop_the_projection(ready: Any) -> None:
    await ready.log.append(Draft("", "", "x" * 300, START, asked("x" * 300)))
    await ready.log.append(Draft("", "", "", START, asked("")))

    created = await asyncio.wait_for(ready.create(), timeout=10)
    listed = await ready.daggers.ListDaggers(pb.ListDaggersRequest(min_sequence=created.sequence), timeout=10)

    assert "completed_bookings" in [dagger.name for dagger in listed.daggers]


async def test_records_gather_for_few_transactions_while_nobody_reads(ready: Any) -> None:
    projector, written = ready.gateway.projector, [0]

    async def count() -> None:
        while True:
            await projector.wait_for_write()
            written[0] += 1

    counting, began = asyncio.create_task(count()), time.monotonic()
    for number in range(300):
        await ready.create(name=f"dagger-{number}")
    lasted, gathered = time.monotonic() - began, written[0]
    listed = await ready.daggers.ListDaggers(pb.ListDaggersRequest(page_size=500), timeout=10)
    counting.cancel()

    assert gathered <= 2 + 300 / 200 + lasted / 0.5
    assert len(listed.daggers) == 300
