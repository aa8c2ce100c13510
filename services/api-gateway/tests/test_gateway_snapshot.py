"""The gateway's snapshot is its tables with its log position. Snapshot and tail are the full replay."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from daggers.v1 import access_pb2, events_pb2, spec_pb2
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlmodel import Session, select

from api_gateway.state.fold import Fold
from api_gateway.state.projection import Projection
from api_gateway.state.rows import build_change
from api_gateway.state.tables import TABLES
from eventlog import LogPosition, read_record
from eventlog.memory import MemoryLog
from eventlog.testing import record
from fleet import Fleet
from fleet.fold.horizon import Horizon
from fleet.snapshot.entries import ChangeSet

pb = events_pb2
META = pb.RequestMeta(actor="anyone")
NAMES = ("first_one", "second_one")
REMOVED = {
    pb.ClusterRemoved: "local",
    pb.SchemaRemoved: "shop.{}",
    pb.StreamRemoved: "s{}",
    pb.ReferenceRemoved: "cities",
    pb.TeamRemoved: "t{}",
    pb.ServiceAccountRevoked: "bot",
    pb.DestinationReleased: "influx://db/b/{}",
}
TENANCY = (
    pb.TeamRegistered, pb.RoleGranted, pb.RoleRevoked, pb.GrantChanged,
    pb.ServiceAccountCreated, pb.ServiceAccountRotated, pb.DestinationGiven,
)  # fmt: skip
KINDS = (
    pb.ClusterRegistered, pb.SchemaRegistered, pb.StreamRegistered, pb.ReferenceRegistered,
    *REMOVED,
    *TENANCY,
    pb.DaggerRequested, pb.DaggerRequested, pb.StartRequested, pb.StopRequested, pb.DeleteRequested,
    pb.SchedulerStarted, pb.LaunchIntended, pb.Launched, pb.Running, pb.Degraded, pb.Exited,
    pb.StopIssued, pb.Stopped, pb.Deleted,
)  # fmt: skip
# (what is written, about which dagger, a choice in it, how it is written: as it is, again, or unreadably)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from(NAMES),
        st.integers(0, 3),
        st.sampled_from(["well", "well", "well", "well", "twice", "unreadable"]),
    ),
    min_size=15,
    max_size=40,
)


def message(fleet: Fleet, kind: Any, name: str, choice: int) -> Message:
    """An event that fits into what is known, unless `choice` is 0."""
    number = str(choice)
    if kind in REMOVED:
        return kind(meta=META, name=REMOVED[kind].format(number))
    if kind in TENANCY:
        return said_of_teams(kind, name, number)
    match kind:
        case pb.ClusterRegistered:
            influx = spec_pb2.InfluxAddress(url=f"http://{choice}:8086", bucket="b")
            return kind(
                meta=META, cluster=spec_pb2.Cluster(name="local", influx=influx, spark_master="local")
            )
        case pb.SchemaRegistered:
            return kind(meta=META, schema=spec_pb2.Schema(messages=["shop.A", f"shop.{number}"]))
        case pb.StreamRegistered:
            return kind(meta=META, stream=spec_pb2.Stream(name=f"s{number}", message="shop.A"))
        case pb.ReferenceRegistered:
            return kind(
                meta=META, reference=spec_pb2.ReferenceTable(name="cities", location=f"/{number}.csv")
            )
        case pb.SchedulerStarted:
            return kind(scheduler_id=number, host="h")
        case pb.DaggerRequested:
            sinks = [spec_pb2.Sink(influx=spec_pb2.InfluxSink(measurement=number))]
            spec = spec_pb2.DaggerSpec(cluster="local", sinks=sinks)
            owned = [f"influx://db/b/{number}"] if choice else []
            return kind(meta=META, name=name, spec=spec, destinations=owned)
    if "meta" in kind.DESCRIPTOR.fields_by_name and "name" in kind.DESCRIPTOR.fields_by_name:
        return kind(meta=META, name=name)
    fact, dagger = kind(), fleet.daggers.get(name)
    fact.meta.name = name
    fact.meta.epoch = fleet.leader.epoch if fleet.leader and choice else 0
    if dagger is not None and kind is not pb.LaunchIntended:
        fact.meta.generation = dagger.generation
    elif dagger is not None:
        fact.version = dagger.version
    return fact


def said_of_teams(kind: Any, name: str, number: str) -> Message:
    """An event about a team, a service account or who may read a stream."""
    match kind:
        case pb.TeamRegistered:
            return kind(meta=META, team=access_pb2.Team(name=f"t{number}", contact=name))
        case pb.RoleGranted:
            return kind(meta=META, team=f"t{number}", principal="user:ada", role=access_pb2.ROLE_OWNER)
        case pb.RoleRevoked:
            return kind(meta=META, team=f"t{number}", principal="user:ada")
        case pb.GrantChanged:
            return kind(meta=META, grant=access_pb2.StreamGrant(stream=f"s{number}", restricted=True))
        case pb.DestinationGiven:
            return kind(meta=META, destination={"name": f"influx://db/b/{number}", "team": f"t{number}"})
        case pb.ServiceAccountCreated:
            account = access_pb2.ServiceAccount(name="bot", team=f"t{number}")
            return kind(meta=META, account=account, role=access_pb2.ROLE_VIEWER)
        case _:
            return kind(meta=META, name="bot", token=access_pb2.AccountToken(id=number))


def written(steps: Sequence[tuple[Any, str, int, str]]) -> MemoryLog:
    """A log of these steps, and the first of each that is written twice, at its end again."""
    log, fleet, again = MemoryLog(), Fleet(), []
    for sequence, (kind, name, choice, how) in enumerate(steps):
        made = record(message(fleet, kind, name, choice), sequence=sequence)
        value = b"\xff" if how == "unreadable" else made.value
        headers = [("ce_id", made.id), ("ce_type", made.type), ("ce_subject", made.subject)]
        encoded = [(key, text.encode()) for key, text in headers]
        log.place(encoded, value)
        if how == "twice":
            again.append((encoded, value))
        fleet.apply(read_record(sequence, encoded, value))
    for encoded, value in again:
        log.place(encoded, value)
    return log


async def folded(log: MemoryLog, horizon: Horizon) -> Fold:
    fold = Fold(horizon)
    async for each in log.replay():
        fold.apply(each)
    return fold


async def followed(log: MemoryLog, url: str, cuts: Sequence[int], horizon: Horizon) -> None:
    """Tables written at each cut by a gateway's own parts: a new gateway after each, from the snapshot."""
    for cut in (*cuts, await log.end()):
        projection = Projection(url)
        held = projection.snapshot()
        fold = Fold(horizon) if held is None else Fold.restore(held, horizon)
        seen = projection.prepare()
        since = before = fold.position.sequence
        changes = ChangeSet(everything=held is None, since=seen.sequence)
        async with aclosing(log.replay(since)) as records:
            async for event in records:
                if event.sequence > cut:
                    break
                fold.apply(event)
                if event.sequence == seen.sequence:
                    assert fold.position == seen
        taken = fold.take_changes()
        taken.everything, taken.since = changes.everything, changes.since
        assert projection.write(build_change(fold, taken), before=-1 if held is None else seen.sequence)
        projection.close()
        assert before <= seen.sequence


def content(url: str) -> tuple[LogPosition, dict[str, list[tuple[Any, ...]]]]:
    """The position, and every row of every table, in the order of their keys."""
    projection = Projection(url)
    position = projection.prepare()
    with Session(projection.database.engine) as session:
        tables = {
            kind.__tablename__: sorted(tuple(row.model_dump().values()) for row in session.exec(select(kind)))
            for kind in TABLES
        }
    projection.close()
    return position, tables


@given(STEPS, st.sets(st.integers(0, 40)), st.booleans())
@settings(max_examples=4 * settings.default.max_examples // 5)
def test_a_snapshot_at_any_sequence_and_the_tail_are_the_full_replay(
    steps: list[tuple[Any, str, int, str]], cuts: set[int], short: bool
) -> None:
    horizon = Horizon(records=8, block=4) if short else Horizon()
    with tempfile.TemporaryDirectory() as folder:
        tail, whole = f"sqlite:///{Path(folder) / 'tail.db'}", f"sqlite:///{Path(folder) / 'whole.db'}"
        log = written(steps)
        fold = asyncio.run(folded(log, horizon))

        asyncio.run(followed(log, tail, sorted(cuts), horizon))
        projection = Projection(whole)
        projection.prepare()
        projection.write(build_change(fold, ChangeSet()), before=-1)
        projection.close()
        found, expected = content(tail), content(whole)

    assert found == expected
    assert found[0] == fold.position
