from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from google.protobuf.duration_pb2 import Duration
from tests.contracts.logs import TroubledLog

from daggerspec.defaults import fill_defaults
from daggerspec.sinks import display_names
from eventlog import Draft, LogUnavailable
from eventlog.memory import MemoryLog
from eventlog.testing import START

pb = gateway_pb2
CODE = grpc.StatusCode


async def types_in(log: MemoryLog) -> list[str]:
    return [record.type.removeprefix("daggers.v1.") async for record in log.replay()]


async def test_a_created_dagger_is_pending_with_every_default_filled_in(ready: Any) -> None:
    created = await ready.create()

    spec = created.dagger.spec
    said = (
        created.dagger.phase,
        created.dagger.desired,
        created.dagger.version,
        spec.streams[0].table,
        spec.streams[0].watermark_delay.seconds,
        spec.streams[0].idle_timeout.seconds,
        spec.streams[0].future_tolerance.seconds,
        spec.streams[0].start.latest,
        spec.sinks[0].influx.measurement,
        spec.trigger.seconds,
        spec.emit,
        spec.consumer_group,
        created.dagger.sinks[0].sink.influx.address.url,
    )
    assert said == (
        pb.PENDING,
        pb.DESIRED_RUNNING,
        1,
        "data_stream",
        5,
        10,
        300,
        True,
        "completed_bookings",
        1,
        spec_pb2.EMIT_FINAL,
        "daggers.completed_bookings",
        "http://127.0.0.1:8086",
    )


async def test_what_was_created_is_read_back_at_its_sequence(ready: Any) -> None:
    created = await ready.create()

    got = await ready.daggers.GetDagger(
        pb.GetDaggerRequest(name="completed_bookings", min_sequence=created.sequence), timeout=10
    )

    got.dagger.ClearField("vitals")  # what it does now is in no answer of a write
    assert (got.dagger, got.sequence >= created.sequence) == (created.dagger, True)


async def test_the_same_request_twice_is_one_dagger_and_one_answer(ready: Any) -> None:
    first = await ready.create(request_id="once")
    second = await ready.create(request_id="once")

    assert (second, (await types_in(ready.log)).count("DaggerRequested")) == (first, 1)


async def test_the_same_request_twice_at_once_is_one_dagger_and_one_answer(ready: Any) -> None:
    answers = await asyncio.gather(*(ready.create(request_id="once") for _ in range(5)))
    listed = await ready.daggers.ListDaggers(pb.ListDaggersRequest(), timeout=10)

    assert ({a.sequence for a in answers}, len(listed.daggers)) == ({answers[0].sequence}, 1)


async def test_a_request_id_with_another_body_is_refused(ready: Any, refusal: Any, samples: Any) -> None:
    await ready.create(request_id="once")
    other = samples.spec()
    other.team = "another"

    error = await refusal(ready.create(request_id="once", spec=other))

    assert (error.code, error.reason) == (CODE.INVALID_ARGUMENT, "REQUEST_ID_REUSED")


async def test_a_repeat_is_answered_although_the_state_would_refuse_it_now(ready: Any) -> None:
    first = await ready.create(request_id="once")
    await ready.daggers.DeleteDagger(pb.DeleteDaggerRequest(name="completed_bookings"), timeout=10)

    second = await ready.create(request_id="once")

    assert second.sequence == first.sequence


async def test_a_name_that_is_taken_is_refused_and_nothing_is_appended(ready: Any, refusal: Any) -> None:
    await ready.create()
    before = await ready.log.end()

    error = await refusal(ready.create())

    assert (error.code, error.reason, await ready.log.end()) == (CODE.ALREADY_EXISTS, "NAME_TAKEN", before)


async def test_of_two_creations_at_once_under_one_name_one_wins(ready: Any) -> None:
    outcomes = await asyncio.gather(
        ready.create(request_id="one"), ready.create(request_id="two"), return_exceptions=True
    )

    codes = [outcome.code() for outcome in outcomes if isinstance(outcome, grpc.aio.AioRpcError)]

    assert codes == [CODE.ALREADY_EXISTS]


async def test_of_two_updates_of_one_version_at_once_one_is_aborted(ready: Any, samples: Any) -> None:
    await ready.create()

    def update(team: str) -> Any:
        spec = samples.spec()
        spec.team = team
        request = pb.UpdateDaggerRequest(name="completed_bookings", spec=spec, expected_version=1)
        return ready.daggers.UpdateDagger(request, timeout=10)

    outcomes = await asyncio.gather(*map(update, ("one", "two", "three")), return_exceptions=True)
    codes = [outcome.code() for outcome in outcomes if isinstance(outcome, grpc.aio.AioRpcError)]
    got = await ready.daggers.GetDagger(pb.GetDaggerRequest(name="completed_bookings"), timeout=10)

    assert (codes, got.dagger.version) == ([CODE.ABORTED, CODE.ABORTED], 2)


async def test_a_race_that_the_log_decides_is_aborted_by_the_fold(ready: Any, samples: Any) -> None:
    """Another gateway's update comes between this one's look at the state and its record."""
    await ready.create()
    log, spec = ready.log, samples.spec()
    spec.team = "first"
    meta = events_pb2.RequestMeta(expected_version=1)
    request = pb.StopDaggerRequest(name="completed_bookings", expected_version=1)
    rival = Draft(
        "rival", "/other", "completed_bookings", START,
        events_pb2.DaggerRequested(meta=meta, name="completed_bookings", spec=spec),
    )  # fmt: skip
    append = log.append

    async def overtaken(draft: Draft) -> None:
        await append(rival)
        await append(draft)

    log.append = overtaken
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ready.daggers.StopDagger(request, timeout=10)

    assert caught.value.code() == CODE.ABORTED


async def test_a_stream_that_is_removed_behind_the_check_is_named_in_the_refusal(
    ready: Any, refusal: Any
) -> None:
    gone = events_pb2.StreamRemoved(meta=events_pb2.RequestMeta(actor="other"), name="bookings")
    append = ready.log.append

    async def overtaken(draft: Draft) -> None:
        await append(Draft("gone", "/other", "bookings", START, gone))
        await append(draft)

    ready.log.append = overtaken
    error = await refusal(ready.create())

    assert (error.code, error.reason) == (CODE.FAILED_PRECONDITION, "UNKNOWN_STREAM")
    assert error.metadata == {"kind": "stream", "name": "bookings"}


async def test_a_request_that_an_older_gateway_wrote_is_answered_as_it_was(ready: Any, harness: Any) -> None:
    written = await ready.create(request_id="mine")
    older = MemoryLog()
    async for record in ready.log.replay():
        if isinstance(record.message, events_pb2.DaggerRequested):
            assert record.message.all_registered
            record.message.ClearField("all_registered")
        await older.append(Draft(record.id, record.source, record.subject, record.time, record.message))
    client = await harness.start(older, database_url=f"{harness.database_url}.2")

    again = await client.create(request_id="mine")

    assert (again.dagger.version, again.sequence, await older.end()) == (
        1,
        written.sequence,
        written.sequence,
    )


async def test_an_update_of_no_dagger_is_not_found_and_creates_nothing(
    ready: Any, refusal: Any, samples: Any
) -> None:
    before = await ready.log.end()
    request = pb.UpdateDaggerRequest(name="nobody", spec=samples.spec())

    error = await refusal(ready.daggers.UpdateDagger(request, timeout=10))

    assert (error.code, await ready.log.end()) == (CODE.NOT_FOUND, before)


@pytest.mark.parametrize(
    ("name", "sink", "reason"),
    [
        ("nobody", "", "NOT_FOUND"),
        ("no_archive", "", "NO_ARCHIVE"),
        ("kept", "warm", "NO_ARCHIVE"),
        ("kept", "", "NEVER_LAUNCHED"),
        ("kept", "cold", "NEVER_LAUNCHED"),
    ],
)
async def test_what_keeps_nothing_has_no_archive_to_describe(
    ready: Any, refusal: Any, samples: Any, name: str, sink: str, reason: str
) -> None:
    keys = spec_pb2.SecretRef(env="LAKE_KEYS")
    cold = spec_pb2.ParquetSink(location="s3://lake/cold", credentials=keys)
    spec = samples.spec()
    spec.sinks.add(name="cold", parquet=cold)
    await ready.create(name="no_archive")
    await ready.create(name="kept", spec=spec)
    request = pb.DescribeArchiveRequest(name=name, sink=sink)

    assert (await refusal(ready.daggers.DescribeArchive(request, timeout=10))).reason == reason


async def test_a_restart_from_the_start_is_written_as_that(ready: Any) -> None:
    await ready.create()
    request = pb.RestartDaggerRequest(name="completed_bookings", from_start=True)
    answer = await ready.daggers.RestartDagger(request, timeout=10)

    async for record in ready.log.follow(answer.sequence - 1):
        assert (record.type.rpartition(".")[2], record.message.from_start) == ("RestartRequested", True)
        break


async def test_a_sink_is_paused_and_resumed_by_its_name(ready: Any, refusal: Any) -> None:
    [sink] = display_names((await ready.create()).dagger.spec.sinks)
    paused = await ready.daggers.PauseSink(
        pb.PauseSinkRequest(name="completed_bookings", sink=sink), timeout=10
    )
    resumed = await ready.daggers.ResumeSink(
        pb.ResumeSinkRequest(name="completed_bookings", sink=sink), timeout=10
    )
    call = ready.daggers.PauseSink(pb.PauseSinkRequest(name="completed_bookings", sink="none"), timeout=10)
    unknown = await refusal(call)
    written = []
    async for record in ready.log.follow(paused.sequence - 1):
        written.append(record.message)
        if record.sequence == resumed.sequence:
            break
    requests = [message for message in written if isinstance(message, events_pb2.SinkPauseRequested)]

    assert [(request.sink, request.paused) for request in requests] == [(sink, True), (sink, False)]
    assert (unknown.code, unknown.reason) == (CODE.NOT_FOUND, "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "kind", "desired"),
    [
        ("StopDagger", pb.StopDaggerRequest, pb.DESIRED_STOPPED),
        ("StartDagger", pb.StartDaggerRequest, pb.DESIRED_RUNNING),
        ("RestartDagger", pb.RestartDaggerRequest, pb.DESIRED_RUNNING),
        ("DeleteDagger", pb.DeleteDaggerRequest, pb.DESIRED_DELETED),
    ],
)
async def test_a_dagger_is_started_stopped_restarted_and_deleted_by_its_name(
    ready: Any, refusal: Any, method: str, kind: Any, desired: int
) -> None:
    await ready.create()
    call, end = getattr(ready.daggers, method), await ready.log.end()
    checked = await call(kind(name="completed_bookings", validate_only=True), timeout=10)
    unwritten = await ready.log.end() == end
    answer = await call(kind(name="completed_bookings", request_id="r"), timeout=10)
    again = await call(kind(name="completed_bookings", request_id="r"), timeout=10)

    unknown = await refusal(call(kind(name="nobody"), timeout=10))
    bad = await refusal(call(kind(name="No Body", request_id="two words", expected_version=-1), timeout=10))

    assert (checked.dagger.desired, checked.dagger.version, checked.sequence) == (desired, 2, 0)
    assert (
        unwritten,
        answer.dagger.desired,
        answer.dagger.version,
        again,
        unknown.code,
        [violation.field for violation in bad.violations],
    ) == (True, desired, 2, answer, CODE.NOT_FOUND, ["name", "request_id", "expected_version"])


async def test_how_to_stop_must_be_known(ready: Any, refusal: Any) -> None:
    await ready.create()
    request = pb.StopDaggerRequest(name="completed_bookings")
    request.mode = 99  # type: ignore[assignment] # what the test is about

    error = await refusal(ready.daggers.StopDagger(request, timeout=10))

    assert [violation.field for violation in error.violations] == ["mode"]


async def test_validate_only_answers_the_dagger_as_it_would_be_and_writes_nothing(ready: Any) -> None:
    before = await ready.log.end()

    answer = await ready.create(validate_only=True)

    assert (answer.dagger.version, answer.dagger.phase, answer.sequence, await ready.log.end()) == (
        1,
        pb.PENDING,
        0,
        before,
    )


async def test_all_that_is_wrong_with_a_dagger_is_said_at_once(ready: Any, refusal: Any) -> None:
    spec = spec_pb2.DaggerSpec(
        team="a\nb",
        cluster="nowhere",
        streams=[
            spec_pb2.StreamInput(stream="nothing", watermark_delay=Duration(seconds=-1)),
            spec_pb2.StreamInput(stream="bookings", table="1st", idle_timeout=Duration(nanos=-5)),
        ],
        sinks=[
            spec_pb2.Sink(),
            spec_pb2.Sink(kafka=spec_pb2.KafkaSink(topic="daggers.control", cluster="gone")),
            spec_pb2.Sink(kafka=spec_pb2.KafkaSink(topic="no/slash", format=2, cluster="local")),
        ],
        trigger=Duration(seconds=-1),
        driver_memory_mib=10,
        consumer_group="my group",
    )
    spec.emit = 7  # type: ignore[assignment] # what the test is about
    spec.state = 7  # type: ignore[assignment]

    error = await refusal(ready.create(name="A", spec=spec, request_id="two words"))

    assert (error.code, {violation.field for violation in error.violations}) == (
        CODE.INVALID_ARGUMENT,
        {
            "name",
            "request_id",
            "spec.team",
            "spec.cluster",
            "spec.streams[0].table",
            "spec.streams[0].stream",
            "spec.streams[0].watermark_delay",
            "spec.streams[1].table",
            "spec.streams[1].idle_timeout",
            "spec.sql",
            "spec.sinks[0]",
            "spec.sinks[1].kafka.topic",
            "spec.sinks[1].kafka.cluster",
            "spec.sinks[2].kafka.topic",
            "spec.sinks[2].kafka.message",
            "spec.trigger",
            "spec.emit",
            "spec.state",
            "spec.driver_memory_mib",
            "spec.consumer_group",
        },
    )


async def test_an_empty_request_is_told_everything_it_lacks(client: Any, refusal: Any) -> None:
    error = await refusal(client.daggers.CreateDagger(pb.CreateDaggerRequest(), timeout=10))

    assert sorted(violation.field for violation in error.violations) == [
        "name",
        "spec.cluster",
        "spec.sinks",
        "spec.sql",
        "spec.streams",
    ]


async def test_a_wrong_query_is_refused_with_its_code_line_and_column(
    ready: Any, refusal: Any, samples: Any
) -> None:
    spec = samples.spec()
    spec.sql = samples.query.replace("SELECT city", "SELECT nope")

    error = await refusal(ready.create(spec=spec))

    (violation, *_) = error.violations
    assert (violation.field, violation.reason) == ("spec.sql", "UNKNOWN_COLUMN")
    assert (violation.line, violation.column, violation.end_line, violation.end_column) == (1, 8, 1, 12)


OBJECTED = "SELECT JsonQuery(city, '$.a[1:-1]') AS x, rowtime AS window_timestamp FROM data_stream"


async def accepted_earlier(ready: Any, spec: spec_pb2.DaggerSpec) -> spec_pb2.DaggerSpec:
    """A dagger that an older gateway let through, with a query that this one objects to."""
    spec.sql = OBJECTED
    spec = fill_defaults("of_old", spec)
    request = events_pb2.DaggerRequested(name="of_old", spec=spec)
    await ready.log.append(Draft("old", "/old", "of_old", START, request))
    return spec


async def test_a_dagger_that_was_accepted_earlier_is_applied_as_it_is_and_nothing_changes(
    ready: Any, samples: Any, refusal: Any
) -> None:
    spec = await accepted_earlier(ready, samples.spec())
    request = pb.UpdateDaggerRequest(name="of_old", spec=spec)
    updated = await ready.daggers.UpdateDagger(request, timeout=10)
    refused = await refusal(ready.create(name="anew", spec=spec))

    assert updated.dagger.spec == spec
    assert refused.violations[0].reason == "INVALID_JSON_PATH"


async def test_a_default_that_is_newer_than_a_dagger_does_not_change_it(ready: Any, samples: Any) -> None:
    asked = samples.spec()
    old = fill_defaults("of_old", asked)
    old.streams[0].ClearField("future_tolerance")
    request = events_pb2.DaggerRequested(name="of_old", spec=old)
    await ready.log.append(Draft("old", "/old", "of_old", START, request))

    updated = await ready.daggers.UpdateDagger(pb.UpdateDaggerRequest(name="of_old", spec=asked), timeout=10)

    assert updated.dagger.spec == old


async def test_what_is_new_about_its_query_does_not_hold_up_another_edit(
    ready: Any, samples: Any, refusal: Any
) -> None:
    spec = await accepted_earlier(ready, samples.spec())
    spec.team = "another"
    updated = await ready.daggers.UpdateDagger(pb.UpdateDaggerRequest(name="of_old", spec=spec), timeout=10)
    spec.sql += " "
    refused = await refusal(
        ready.daggers.UpdateDagger(pb.UpdateDaggerRequest(name="of_old", spec=spec), timeout=10)
    )

    assert any(warning.startswith("INVALID_JSON_PATH") for warning in updated.dagger.warnings)
    assert refused.violations[0].reason == "INVALID_JSON_PATH"


async def test_an_edit_that_writes_rows_again_is_judged_as_a_new_query(
    ready: Any, samples: Any, refusal: Any
) -> None:
    spec = samples.spec()
    spec.sql = f"{samples.query} HAVING count(1) < 5"
    await ready.create(name="few", spec=spec)
    spec.late.update.FromSeconds(600)
    request = pb.UpdateDaggerRequest(name="few", spec=spec)

    refused = await refusal(ready.daggers.UpdateDagger(request, timeout=10))

    assert refused.violations[0].reason == "UPDATE_NOT_POSSIBLE"


async def test_a_query_of_three_megabytes_reaches_us_and_is_refused_by_us(
    ready: Any, refusal: Any, samples: Any
) -> None:
    spec = samples.spec()
    spec.sql += " " * 3_000_000

    error = await refusal(ready.create(spec=spec))

    assert [(v.field, v.reason) for v in error.violations] == [("spec.sql", "QUERY_TOO_LARGE")]


async def test_an_append_that_is_written_but_not_acknowledged_is_still_answered(
    harness: Any, samples: Any
) -> None:
    log = TroubledLog()

    async def lose_the_acknowledgement(_: Draft) -> None:
        await asyncio.sleep(0)
        raise LogUnavailable("the acknowledgement was lost")

    log.after = lose_the_acknowledgement
    unsure = await harness.start(log)

    answer = await unsure.catalog.RegisterCluster(
        pb.RegisterClusterRequest(cluster=samples.cluster(), request_id="r"), timeout=10
    )

    assert (answer.version, await unsure.log.end()) == (1, 0)


async def test_kafka_that_does_not_answer_is_unavailable_with_the_id_to_repeat(
    harness: Any, refusal: Any, samples: Any
) -> None:
    log = TroubledLog()

    async def be_away(_: Draft) -> None:
        raise LogUnavailable("Kafka at 127.0.0.1:1 does not answer")

    log.before = be_away
    away = await harness.start(log)
    request = pb.RegisterClusterRequest(cluster=samples.cluster(), request_id="mine")

    error = await refusal(away.catalog.RegisterCluster(request, timeout=10))

    assert (error.code, error.reason, error.metadata, error.retry_after is not None) == (
        CODE.UNAVAILABLE,
        "LOG_UNAVAILABLE",
        {"request_id": "mine"},
        True,
    )
