"""What the gateways' tables promise, whatever database they are in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2
from sqlmodel import Session, SQLModel, col, delete, insert, select, update

from api_gateway.state.fold import Fold
from api_gateway.state.projection import Projection
from api_gateway.state.rows import Change, build_change
from api_gateway.state.snapshots import digest
from api_gateway.state.tables import TABLES, ProjectionRow, SnapshotRow
from eventlog import Record
from eventlog.testing import given
from fleet.snapshot.entries import ChangeSet, Unusable

FIRST_ONE = col(SnapshotRow.key) == "daggers/first_one"
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
        events_pb2.StreamRegistered(meta=META, stream=spec_pb2.Stream(name="other", message="shop.A")),
        cluster("other"),
        events_pb2.StreamRemoved(meta=META, name="other"),
        events_pb2.ClusterRemoved(meta=META, name="other"),
        events_pb2.SchemaRemoved(meta=META, name="shop.B"),
        events_pb2.ClusterRemoved(meta=META, name="local"),
        reference("/data/three.csv"),
        events_pb2.ReferenceRemoved(meta=META, name="cities"),
        reference("/data/two.csv"),
    )


def content(projection: Projection) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, in the order of their keys."""
    with Session(projection.database.engine) as session:
        return {
            kind.__tablename__: sorted(
                tuple(row.model_dump().values()) for row in session.exec(select(kind)).all()
            )
            for kind in TABLES
        }


def folded(records: Sequence[Record]) -> Fold:
    fold = Fold()
    for record in records:
        fold.apply(record)
    return fold


def content_of(found: Change) -> tuple[Any, ...]:
    return found.applied, found.anchors, found.snapshot.entries, found.daggers, found.deleted


def written(projection: Projection, fold: Fold) -> None:
    assert projection.write(build_change(fold, ChangeSet()), before=-1)


class ProjectionContract:
    """A subclass brings a fixture `projection`: one that is ready, and empty."""

    @pytest.mark.parametrize("step", [1, 3, 16])
    def test_rows_are_the_same_bytes_whether_followed_step_by_step_or_written_at_once(
        self, projection: Projection, step: int
    ) -> None:
        records, fold = history(), Fold()
        before = -1
        for at in range(0, len(records), step):
            part = records[at : at + step]
            for record in part:
                fold.apply(record)
            assert projection.write(build_change(fold, fold.take_changes()), before=before)
            before = part[-1].sequence
        followed = content(projection)
        written(projection, fold)

        rebuilt = content(projection)

        assert followed == rebuilt
        assert {table: len(rows) for table, rows in rebuilt.items()} == {
            "daggers": 2,
            "snapshot": 13,
            "projection": 1,
        }

    @pytest.mark.parametrize("step", [1, 3, 16])
    def test_what_is_written_is_a_snapshot_that_a_fold_goes_on_from(
        self, projection: Projection, step: int
    ) -> None:
        records, whole = history(), folded(history())
        written(projection, folded(records[:step]))

        held = projection.snapshot()

        assert held is not None
        again = Fold.restore(held)
        for record in records:
            again.apply(record)
        assert content_of(build_change(again, ChangeSet())) == content_of(build_change(whole, ChangeSet()))

    def test_a_gateway_behind_another_does_not_overwrite_what_that_one_wrote(
        self, projection: Projection
    ) -> None:
        ahead, behind = folded(history()), folded(history()[:5])
        written(projection, ahead)
        before = content(projection)

        kept = projection.write(build_change(behind, ChangeSet()), before=-1)

        assert (kept, content(projection)) == (True, before)

    def test_tables_that_are_behind_what_was_written_ask_for_everything(self, projection: Projection) -> None:
        records = history()
        fold = folded(records[:10])
        fold.take_changes()
        for record in records[10:]:
            fold.apply(record)

        kept = projection.write(build_change(fold, fold.take_changes()), before=9)

        assert (kept, content(projection)["projection"]) == (False, [])

    def test_tables_of_other_code_are_dropped_and_their_sequence_is_remembered(
        self, projection: Projection
    ) -> None:
        fold = folded(history())
        written(projection, fold)
        with Session(projection.database.engine) as session:
            session.exec(update(ProjectionRow).values(shape="of another time"))
            session.commit()
        with pytest.raises(Unusable, match="other code made it"):
            projection.snapshot()

        held = projection.prepare()

        assert (held, content(projection)["daggers"]) == (fold.position, [])

    def test_what_changed_is_not_written_into_tables_of_other_code(self, projection: Projection) -> None:
        fold = folded(history())
        written(projection, fold)
        fold.take_changes()
        with Session(projection.database.engine) as session:
            session.exec(update(ProjectionRow).values(shape="of another time"))
            session.commit()

        kept = projection.write(build_change(fold, fold.take_changes()), before=fold.position.sequence)

        assert not kept

    @pytest.mark.parametrize(
        ("damage", "why"),
        [
            (update(SnapshotRow).where(FIRST_ONE).values(data=b"x"), "is damaged"),
            (delete(SnapshotRow).where(FIRST_ONE), "has lost rows"),
            (insert(SnapshotRow).values(key="x", data=b"", digest=digest("x", b"")), "not its own"),
            (update(ProjectionRow).values(applied=3), "behind the gateway's back"),
            (update(ProjectionRow).values(history=b"x"), "behind the gateway's back"),
            (update(ProjectionRow).values(anchors="0:00"), "behind the gateway's back"),
        ],
    )  # fmt: skip
    def test_a_snapshot_that_was_changed_behind_its_back_is_not_read(
        self, projection: Projection, damage: Any, why: str
    ) -> None:
        written(projection, folded(history()))
        with Session(projection.database.engine) as session:
            session.exec(damage)
            session.commit()

        with pytest.raises(Unusable, match=why):
            projection.snapshot()

    def test_a_database_without_tables_has_no_snapshot(self, projection: Projection) -> None:
        SQLModel.metadata.drop_all(projection.database.engine, projection._tables)

        assert projection.snapshot() is None

    def test_names_sort_by_their_bytes_on_every_database(self, projection: Projection) -> None:
        names = ["ab_", "ab-c", "abc", "ab0", "a_b"]
        written(projection, folded(given(cluster("local"), *map(asked, names))))

        listed, _, _ = projection.daggers([], after="ab-c", limit=10)

        assert [dagger.name for dagger in listed] == ["ab0", "ab_", "abc"]
