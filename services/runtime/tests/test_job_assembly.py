"""What a launch is put together from, and everything that is found wrong before it starts."""

from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import spec_pb2
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from services.runtime.tests.launches import descriptors, whole
from services.runtime.tests.sessions import driver_session
from services.runtime.tests.sink_contract import target
from tests.integration.bookings import COUNT_SQL

from daggerspec.sinks import names
from runtime.errors import JobError
from runtime.launch import job, planned


def spec(**changes: Any) -> spec_pb2.JobSpec:
    made = spec_pb2.JobSpec(dagger="d", generation=7, descriptors=descriptors())
    stream = made.streams.add()
    stream.input.table = "data_stream"
    stream.stream.message, stream.stream.time_field = "it.v1.Booking", "event_timestamp"
    made.sinks.add().sink.influx.address.MergeFrom(spec_pb2.InfluxAddress(url="http://i:1", bucket="b"))
    made.platform.bootstrap_servers = "127.0.0.1:9092"
    made.spec.sql = COUNT_SQL
    for name, value in changes.items():
        setattr(made.spec, name, value)
    return whole(made)


def test_the_plan_comes_from_the_sql_of_the_spec() -> None:
    plan = planned.check_spec(spec())

    assert [column.name for column in plan.columns] == ["tag_city_id", "num_of_bookings", "window_timestamp"]


@pytest.mark.parametrize("field", ["trigger", "emit", "consumer_group"])
def test_what_a_launch_leaves_unsaid_is_ours_to_mend(field: str) -> None:
    short = spec()
    short.spec.ClearField(field)

    with pytest.raises(JobError) as refused:
        planned.check_spec(short)

    assert (refused.value.error.reason, field in refused.value.error.detail) == ("BAD_SPEC", True)


def test_sql_that_is_refused_is_the_users_error_with_its_place() -> None:
    with pytest.raises(JobError) as refused:
        planned.check_spec(spec(sql="SELECT fare,\n       nothing, nowhere FROM data_stream"))

    error = refused.value.error
    assert error.reason == "UNKNOWN_COLUMN"
    assert error.detail.startswith("spec.sql line 2, column 8: ")
    assert " spec.sql line 2, column 17: " in error.detail


def test_what_only_a_newer_check_objects_to_ends_no_launch() -> None:
    sql = f"{COUNT_SQL} HAVING COUNT(*) < 100"
    plan = planned.check_spec(spec(sql=sql, emit=spec_pb2.EMIT_EARLY))

    assert "EARLY_NOT_POSSIBLE" in [warning.code for warning in plan.warnings]


def test_sessions_are_not_emitted_early() -> None:
    sql = "SELECT COUNT(*) AS n FROM data_stream GROUP BY SESSION(rowtime, INTERVAL '1' MINUTE), city_id"
    with pytest.raises(JobError) as refused:
        planned.check_spec(spec(sql=sql, emit=spec_pb2.EMIT_EARLY))

    assert refused.value.error.reason == "EARLY_NOT_POSSIBLE"


def test_a_message_that_is_not_in_the_job_is_ours_to_mend() -> None:
    broken = spec()
    broken.streams[0].stream.message = "it.v1.Nothing"

    with pytest.raises(JobError, match=r"'it\.v1\.Nothing' is not in the job"):
        planned.check_spec(broken)


def test_a_spec_of_another_generation_is_refused(tmp_path: Path) -> None:
    (tmp_path / "spec.pb").write_bytes(spec().SerializeToString())

    with pytest.raises(JobError, match="generation 7, the command line says 8"):
        planned.read_spec(tmp_path / "spec.pb", 8)


def test_all_sinks_that_cannot_work_are_told_at_once() -> None:
    nameless = target("d", spec_pb2.ResolvedSink())
    wordless = target("d", spec_pb2.ResolvedSink(sink=spec_pb2.Sink(influx=spec_pb2.InfluxSink())))

    with pytest.raises(JobError) as refused:
        job.check_sinks([nameless, wordless])

    assert refused.value.error.reason == "UNKNOWN_SINK"
    assert f"choose one of {', '.join(names())}." in refused.value.error.detail
    assert "The measurement '' must not be empty" in refused.value.error.detail


def test_a_sink_that_writes_elsewhere_than_its_team_may_ends_the_launch() -> None:
    asked = spec()
    asked.destinations.append("influx://i:1/b/d")
    planned.check_spec(asked)
    asked.sinks[0].sink.influx.measurement = "theirs"

    with pytest.raises(JobError) as refused:
        planned.check_spec(asked)

    assert refused.value.error.reason == "FOREIGN_DESTINATION"
    assert "influx://i:1/b/theirs" in refused.value.error.detail


@pytest.fixture(scope="module")
def session() -> Any:
    with driver_session() as started:
        yield started


@pytest.mark.integration
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM text.`/etc/passwd`",
        "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
        "SELECT java_method('java.lang.System', 'getenv', 'HOME')",
        "BEGIN SELECT 1; END",
    ],
)
def test_the_session_reads_nothing_and_runs_nothing_but_its_views(session: Any, sql: str) -> None:
    with pytest.raises((PySparkException, Py4JError)):
        session.sql(sql).collect()


@pytest.mark.integration
def test_bad_data_is_null_and_times_are_utc(session: Any) -> None:
    row = session.sql(
        "SELECT CAST('x' AS INT), 1 / 0, hour(timestamp'2026-01-01 12:00:00Z'), current_timezone()"
    ).first()

    assert tuple(row) == (None, None, 12, "UTC")
