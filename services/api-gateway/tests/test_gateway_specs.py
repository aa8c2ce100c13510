from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.duration_pb2 import Duration

from api_gateway.validate import schemas, spec_check
from api_gateway.validate.query_checks import Checks
from daggerspec.defaults import fill_defaults
from eventlog.testing import given
from fleet import Fleet

Spec = spec_pb2.DaggerSpec
NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.fixture
def fleet(samples: Any) -> Fleet:
    """Knows the cluster local, a bare one, the schema and the stream."""
    found = Fleet()
    bare = spec_pb2.Cluster(name="bare", influx=spec_pb2.InfluxAddress(url="http://x:1"))
    for record in given(
        events_pb2.ClusterRegistered(cluster=samples.cluster()),
        events_pb2.ClusterRegistered(cluster=bare),
        events_pb2.SchemaRegistered(schema=schemas.prune(samples.files())),
        events_pb2.StreamRegistered(stream=samples.stream()),
    ):
        found.apply(record)
    return found


async def judge(name: str, spec: Spec, fleet: Fleet) -> spec_check.SpecValidation:
    return await spec_check.validate("spec", name, fill_defaults(name, spec), fleet, Checks(), now=NOW)


PROTOBUF = spec_pb2.KafkaSink.FORMAT_PROTOBUF


async def test_findings_that_do_not_stop_a_query_are_warnings_with_their_place(
    samples: Any, fleet: Fleet
) -> None:
    spec = samples.spec()
    spec.sql = samples.query.replace(", city", ", city, status")

    found = await judge("a_dagger", spec, fleet)

    assert (found.violations, [warning.split(" ")[1:4:2] for warning in found.warnings]) == (
        [],
        [["line", "column"]],
    )


async def test_what_a_bad_name_would_become_by_default_is_not_told_of_beside_the_name(
    samples: Any, fleet: Fleet
) -> None:
    found = await judge("_no such name", samples.spec(), fleet)

    assert found.violations == []


async def test_a_start_within_the_difference_of_clocks_is_not_the_future(samples: Any, fleet: Fleet) -> None:
    spec = samples.spec()
    spec.streams[0].start.at.FromDatetime(NOW + timedelta(seconds=30))

    assert (await judge("a_dagger", spec, fleet)).violations == []


async def test_a_mistake_of_a_stream_does_not_hide_those_of_the_query(samples: Any, fleet: Fleet) -> None:
    spec = samples.spec()
    spec.streams[0].watermark_delay.CopyFrom(Duration(seconds=-1))
    spec.sql = "SELECT citty FROM `data_stream`"

    found = await judge("a_dagger", spec, fleet)

    assert [violation.reason for violation in found.violations] == ["OUT_OF_RANGE", "UNKNOWN_COLUMN"]


def test_defaults_filled_in_twice_are_the_same(samples: Any) -> None:
    once = fill_defaults("a_dagger", samples.spec())

    assert fill_defaults("a_dagger", once) == once


def test_what_is_asked_for_is_never_replaced_by_a_default() -> None:
    asked = Spec(
        cluster="local",
        streams=[
            spec_pb2.StreamInput(
                table="t",
                stream="s",
                watermark_delay=Duration(),
                idle_timeout=Duration(),
                future_tolerance=Duration(seconds=1),
                start=spec_pb2.StartPosition(earliest=True),
            )
        ],
        sinks=[
            spec_pb2.Sink(influx=spec_pb2.InfluxSink(measurement="m")),
            spec_pb2.Sink(kafka=spec_pb2.KafkaSink(topic="t", format=PROTOBUF, cluster="other")),
            spec_pb2.Sink(log=spec_pb2.LogSink(limit=3)),
        ],
        trigger=Duration(seconds=30),
        emit=spec_pb2.EMIT_EARLY,
        consumer_group="mine",
        driver_memory_mib=700,
    )

    assert fill_defaults("a_dagger", asked) == asked


def test_a_table_has_no_default_name_when_there_are_several(samples: Any) -> None:
    asked = Spec(streams=[spec_pb2.StreamInput(stream="a"), spec_pb2.StreamInput(stream="b")])

    assert [stream.table for stream in fill_defaults("a_dagger", asked).streams] == ["", ""]


def test_sinks_say_their_defaults() -> None:
    asked = Spec(cluster="local", sinks=[{"influx": {}}, {"kafka": {"topic": "t"}}, {"log": {}}])

    sinks = fill_defaults("a_dagger", asked).sinks

    assert (
        sinks[0].influx.measurement,
        sinks[1].kafka.format,
        sinks[1].kafka.cluster,
        sinks[2].log.limit,
    ) == (
        "a_dagger",
        spec_pb2.KafkaSink.FORMAT_JSON,
        "local",
        100,
    )


async def test_names_that_are_not_registered_are_told_with_those_that_may_be_meant(
    samples: Any, fleet: Fleet
) -> None:
    spec = samples.spec()
    spec.cluster, spec.streams[0].stream = "locl", "booking"
    spec.sinks.add(kafka=spec_pb2.KafkaSink(cluster="bar", topic="t"))

    found = await judge("a_dagger", spec, fleet)
    told = {violation.field: (violation.message, violation.suggestion) for violation in found.violations}

    assert told["spec.streams[0].stream"] == (
        "stream booking is not registered: did you mean bookings?",
        "bookings",
    )
    assert told["spec.cluster"] == ("cluster locl is not registered: did you mean local?", "local")
    assert told["spec.sinks[1].kafka.cluster"] == (
        "cluster bar is not registered: did you mean bare?",
        "bare",
    )


async def test_a_stream_that_is_not_registered_hides_nothing_that_is_wrong_with_the_query(
    samples: Any, fleet: Fleet
) -> None:
    spec = samples.spec()
    spec.streams[0].stream = "nothing"
    spec.sql = "SELECT UPER(a) AS u, COUNT(*) AS n FROM data_stream"

    found = await judge("a_dagger", spec, fleet)

    assert {violation.field: violation.reason for violation in found.violations[:-2]} == {
        "spec.streams[0].stream": "UNKNOWN_STREAM"
    }
    assert [(violation.reason, violation.line) for violation in found.violations[-2:]] == [
        ("UNKNOWN_FUNCTION", 1),
        ("UNBOUNDED_STATE", 1),
    ]


@pytest.mark.parametrize("table", ["bookings", "`bookings`", "bookngs"])
async def test_a_stream_in_place_of_its_table_is_told_with_the_table(
    samples: Any, fleet: Fleet, table: str
) -> None:
    spec = samples.spec()
    spec.sql = samples.query.replace("`data_stream`", table)

    [violation] = (await judge("a_dagger", spec, fleet)).violations

    assert (violation.reason, violation.suggestion) == ("UNKNOWN_TABLE", "data_stream")
    assert violation.message == (
        f"The dagger has no stream called {table.strip('`')}: there is data_stream;"
        " its table for the stream bookings is data_stream."
    )
    assert violation.edit is not None
    spec.sql = violation.edit.apply(spec.sql)
    assert (await judge("a_dagger", spec, fleet)).violations == []


async def test_a_stream_that_the_dagger_does_not_read_is_told_with_where_to_name_it(
    samples: Any, fleet: Fleet
) -> None:
    fleet.catalogue.streams["journeys"] = fleet.catalogue.streams["bookings"]
    spec = samples.spec()
    spec.sql = samples.query.replace("`data_stream`", "journey")

    [violation] = (await judge("a_dagger", spec, fleet)).violations

    assert (violation.suggestion, violation.edit) == ("journeys", None)
    assert violation.message == (
        "The dagger has no stream called journey: there is data_stream;"
        " the stream journeys is registered: name it among the streams of the dagger."
    )


async def test_a_table_that_looks_like_no_stream_is_told_with_the_tables_alone(
    samples: Any, fleet: Fleet
) -> None:
    spec = samples.spec()
    spec.sql = samples.query.replace("`data_stream`", "xyz")

    [violation] = (await judge("a_dagger", spec, fleet)).violations

    assert violation.message == "The dagger has no stream called xyz: there is data_stream."
