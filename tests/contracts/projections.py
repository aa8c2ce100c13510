"""What the gateways' tables promise, whatever database they are in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2
from sqlmodel import Session, select, update

from api_gateway.fold import Touched
from api_gateway.projection import Projection
from api_gateway.rows import change
from api_gateway.tables import CONTENT, ProjectionRow
from eventlog import Record
from eventlog.testing import given
from fleet import Fleet

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


class ProjectionContract:
    """A subclass brings a fixture `projection`: one that is ready, and empty."""

    @pytest.mark.parametrize("step", [1, 3, 16])
    def test_rows_are_the_same_bytes_whether_followed_step_by_step_or_written_at_once(
        self, projection: Projection, step: int
    ) -> None:
        records, fleet = history(), Fleet()
        before = -1
        for at in range(0, len(records), step):
            part = records[at : at + step]
            rows = change(fleet, touched(fleet, part))
            assert projection.write(rows, before=before, applied=fleet.position)
            before = part[-1].sequence
        followed = content(projection)
        projection.write(change(fleet, Touched()), before=-1, applied=fleet.position)

        rebuilt = content(projection)

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

    def test_a_gateway_behind_another_does_not_overwrite_what_that_one_wrote(
        self, projection: Projection
    ) -> None:
        records, ahead, behind = history(), Fleet(), Fleet()
        touched(ahead, records)
        touched(behind, records[:5])
        projection.write(change(ahead, Touched()), before=-1, applied=ahead.position)
        written = content(projection)

        kept = projection.write(change(behind, Touched()), before=-1, applied=behind.position)

        assert (kept, content(projection)) == (True, written)

    def test_tables_that_are_behind_what_was_written_ask_for_everything(self, projection: Projection) -> None:
        records, fleet = history(), Fleet()
        touched(fleet, records[:10])
        part = touched(fleet, records[10:])

        kept = projection.write(change(fleet, part), before=9, applied=fleet.position)

        assert (kept, content(projection)["projection"]) == (False, [])

    def test_tables_of_another_shape_are_dropped_and_their_sequence_is_remembered(
        self, projection: Projection
    ) -> None:
        fleet = Fleet()
        touched(fleet, history())
        projection.write(change(fleet, Touched()), before=-1, applied=fleet.position)
        with Session(projection._engine) as session:
            session.exec(update(ProjectionRow).values(shape="of another time"))
            session.commit()

        held = projection.prepare()

        assert (held, content(projection)["daggers"]) == (fleet.position, [])

    def test_names_sort_by_their_bytes_on_every_database(self, projection: Projection) -> None:
        names = ["ab_", "ab-c", "abc", "ab0", "a_b"]
        fleet = Fleet()
        for record in given(cluster("local"), *map(asked, names)):
            fleet.apply(record)
        projection.write(change(fleet, Touched()), before=-1, applied=fleet.position)

        listed, _ = projection.daggers([], after="ab-c", limit=10)

        assert [dagger.name for dagger in listed] == ["ab0", "ab_", "abc"]
