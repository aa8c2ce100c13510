"""The driver's life on the real broker, database and Spark: rows, troubles, fencing, ends."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from daggers.v1 import spec_pb2
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from services.runtime.tests.job_driver import (
    Counts,
    bookings,
    in_influx,
    in_kafka,
    in_postgres,
    influx_sink,
    kafka_sink,
    log_sink,
    written,
)
from services.runtime.tests.launches import MAIN, Beat, Dagger, command_line, terminate
from services.runtime.tests.sink_cases.postgres import sink as postgres_sink
from services.runtime.tests.sink_contract import fresh_topic, records
from services.runtime.tests.sink_protobuf import FILES
from tests.integration.bookings import COUNT_SQL, NOON, booking, recount, spread
from tests.proxy import Proxy

from chassis import lastword
from chassis.lines import stamp_of
from runtime.state.store.local import LocalStore

pytestmark = pytest.mark.integration


def test_rows_reach_every_sink_from_one_pass_and_a_drain_ends_well(
    tmp_path: Path, kafka: str, influx: dict[str, str], postgres: str
) -> None:
    dagger = Dagger(tmp_path, kafka)
    json_topic, message_topic = f"json-{dagger.name}", f"message-{dagger.name}"
    table, database = postgres_sink(postgres, tmp_path)
    table.sink.postgres.ClearField("key")  # of the window and GROUP BY
    some_topic = f"some-{dagger.name}"
    some = kafka_sink(kafka, some_topic)
    some.sink.name, some.sink.when = "some", "tag_city_id > 1 AND GeoHash(0, tag_city_id, 2) IS NOT NULL"
    dagger.sinks = [influx_sink(influx), kafka_sink(kafka, json_topic), log_sink(2),
                    kafka_sink(kafka, message_topic, "row.v1.CityCount"), table, some]  # fmt: skip
    events = spread([s / 4 for s in range(4 * 180)], cities=3)
    dagger.write(*bookings(events))

    with dagger.launch() as launch:
        launch.until(lambda beat: [*beat.rows_out] == [9] * 5 + [6])
        code = launch.stop()
        left = [process.name() for process in launch.processes()]

    assert in_influx(influx, dagger) == Counter(dict(in_kafka(kafka, json_topic))) == recount(events)
    assert in_messages(kafka, message_topic) == in_postgres(database) == recount(events)
    assert Counter(dict(in_kafka(kafka, some_topic))) == Counter(
        {(end, city): count for (end, city), count in recount(events).items() if city != "1"}
    )
    assert (code, left, (launch.run_dir / "exit.json").exists()) == (0, [], False)
    printed = [line.partition(" INFO log: ")[2][:4] for line in launch.log().splitlines()]
    assert [word for word in printed if word in ("row ", "… an")][:2] == ["row ", "row "]
    assert "… and 4 more" in launch.log() or "… and 1 more" in launch.log()
    states = [beat.state for beat in launch.beats]
    assert list(dict.fromkeys(states)) == [
        Beat.STATE_STARTING, Beat.STATE_RUNNING, Beat.STATE_DRAINING, Beat.STATE_EXITING,
    ]  # fmt: skip
    last = launch.beats[-1]
    assert (last.rows_in, list(last.rows_out), last.late_rows) == (len(events), [9] * 5 + [6], 0)
    assert (last.lag[f"{dagger.topic}/0"], last.HasField("watermark"), last.HasField("error")) == (
        0,
        True,
        False,
    )


def in_messages(kafka: str, topic: str) -> Counts:
    """The same from Protobuf records."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(FILES).file:
        pool.Add(file)
    row: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("row.v1.CityCount"))
    found = [row.FromString(record.value()) for record in records(kafka, topic)]
    return Counter(
        {(one.window_timestamp.ToJsonString(), str(one.tag_city_id)): one.num_of_bookings for one in found}
    )


@pytest.mark.long
def test_a_sink_that_is_away_is_waited_for_and_nothing_is_lost_or_repeated(
    tmp_path: Path, kafka: str, influx: dict[str, str], detour: Proxy
) -> None:
    dagger = Dagger(tmp_path, kafka)
    topic = f"json-{dagger.name}"
    dagger.sinks = [influx_sink(influx, url=detour.url), kafka_sink(kafka, topic)]
    first, next_, last = (spread(range(at, at + 60), cities=2) for at in (0, 60, 120))
    detour.cut()
    dagger.write(*bookings(first))

    with dagger.launch() as launch:
        retrying = launch.until(lambda beat: beat.retrying)
        dagger.write(*bookings(next_))  # so that a batch follows at once, before Spark tells of this one
        detour.open()
        healed = launch.until(lambda beat: written(4)(beat) and not beat.retrying)
        detour.cut()
        dagger.write(*bookings(last))
        launch.until(lambda beat: beat.retrying)
        code = launch.stop()
    once = in_kafka(kafka, topic)
    detour.open()
    with dagger.launch() as relaunch:
        relaunch.until(lambda beat: in_influx(influx, dagger).total() >= len(first + next_ + last))
        relaunch.stop()

    assert [(why.reason, why.detail[:7]) for why in retrying.retrying] == [("SINK_UNAVAILABLE", "influx:")]
    assert (healed.rows_in, code) == (len(first + next_), 0)
    assert len(once) == len(dict(once)) == 6  # the sink that took the rows got them once
    assert in_influx(influx, dagger) == Counter(dict(in_kafka(kafka, topic))) == recount(first + next_ + last)


@pytest.mark.long
def test_a_driver_that_is_killed_repeats_its_batch_and_tells_what_made_later_rows_late(
    tmp_path: Path, kafka: str, influx: dict[str, str]
) -> None:
    dagger = Dagger(tmp_path, kafka, idle_timeout_s=0)
    topic = f"json-{dagger.name}"
    dagger.sinks = [influx_sink(influx), kafka_sink(kafka, topic)]
    events = spread(range(240), cities=2)
    closing = booking(400)

    with dagger.launch() as launch:
        launch.running()
        dagger.write(*bookings(events[:150]))
        launch.until(written(2))
        launch.kill()
        dagger.write(*bookings(events[150:]), closing)
    with dagger.launch() as relaunch:
        relaunch.until(lambda beat: in_influx(influx, dagger).total() >= len(events))
        dagger.write(*[booking(40)] * 12, booking(-NOON - 10))
        told = relaunch.until(lambda beat: beat.late_rows >= 13)
        relaunch.stop()

    late = dict(warning.split(": ", 1) for warning in told.warnings)
    assert in_influx(influx, dagger) == recount(events)
    share = f"13 of the {told.rows_in} rows of the last 5 min ({13 / told.rows_in:.1%})"
    expected = (
        f"{share} came after a window of theirs was closed, and are missing from 13 windows in all."
        f" Event time was moved to 2026-01-01T12:06:40Z by {dagger.topic}/0, offset {len(events)}: 6 min"
        " ahead of the newest of them."
    )
    assert (late["LATE_ROWS"], late["LATE_RECORDS"]) == (expected, expected)
    values: dict[Any, set[Any]] = {}
    for record in records(kafka, topic):
        ids = dict(record.headers() or [])["ce_id"]
        values.setdefault(record.key(), set()).add((record.value(), ids))
    assert [len(versions) for versions in values.values()] == [1] * len(recount(events))


def test_a_newer_generation_ends_the_older_driver(tmp_path: Path, kafka: str) -> None:
    dagger = Dagger(tmp_path, kafka, sinks=[log_sink(1)], start="latest")

    with dagger.launch() as launch:
        launch.running()
        LocalStore(dagger.checkpoints).take(dagger.generation + 5)
        code = launch.wait()
        left = launch.processes()

    assert (code, left, launch.error()["reason"]) == (75, [], "FENCED")
    assert launch.beats[-1].error.reason == "FENCED"


def test_an_older_generation_does_not_even_start(tmp_path: Path, kafka: str) -> None:
    dagger = Dagger(tmp_path, kafka, sinks=[log_sink(1)])
    LocalStore(dagger.checkpoints).take(1000)

    with dagger.launch() as launch:
        code = launch.wait()

    assert (code, launch.error()["reason"], launch.beats) == (75, "FENCED", [])


def test_sigterm_drains(tmp_path: Path, kafka: str) -> None:
    dagger = Dagger(tmp_path, kafka, sinks=[log_sink(1)], start="latest")

    with dagger.launch() as launch:
        launch.running()
        terminate(launch.python())
        code = launch.wait()

    assert (code, launch.beats[-1].state) == (0, Beat.STATE_EXITING)


def test_the_python_half_ends_with_its_jvm(tmp_path: Path, kafka: str) -> None:
    dagger = Dagger(tmp_path, kafka, sinks=[log_sink(1)], start="latest")

    with dagger.launch() as launch:
        python = launch.python()
        psutil.Process(launch.process.pid).kill()
        python.wait(30)

    assert launch.error()["reason"] == "JVM_GONE"


@pytest.mark.long
def test_the_step_of_a_launch_outlives_its_jvm_and_its_neighbours_are_in_none(
    tmp_path: Path, kafka: str
) -> None:
    # the pattern takes hours for one record
    endless = COUNT_SQL.replace("GROUP BY", "AND NOT REGEXP(order_number, '.*foo.*bar') GROUP BY")
    idle = Dagger(tmp_path / "idle", kafka, sinks=[log_sink(1)], start="latest", idle_timeout_s=0)
    poisoned = Dagger(tmp_path / "poisoned", kafka, sql=endless, sinks=[log_sink(1)])
    poisoned.write(booking(1, order="foo" * 200_000))

    with idle.launch() as launch:
        launch.running()
        with poisoned.join(launch) as joined:
            launch.until_true(lambda: "compute" in {word.step for word in lastword.read(launch.run_dir)})
            python = launch.python()
            psutil.Process(launch.process.pid).kill()
            python.wait(30)

    assert {word.dagger for word in lastword.read(launch.run_dir)} == {poisoned.name}
    assert {each.error()["reason"] for each in (launch, joined)} == {"JVM_GONE"}
    assert [(each.run_dir / "exit-code").exists() for each in (launch, joined)] == [False, False]


@pytest.mark.long
def test_a_worker_process_that_dies_ends_the_driver_with_one_sentence_and_a_relaunch_goes_on(
    tmp_path: Path, kafka: str
) -> None:
    dagger = Dagger(tmp_path, kafka, idle_timeout_s=0)
    topic = f"json-{dagger.name}"
    dagger.sinks = [kafka_sink(kafka, topic)]
    events = spread(range(120), cities=2)

    with dagger.launch() as launch:
        dagger.write(*bookings(events[:90]))
        launch.until(written(2))
        helpers = [one for one in launch.processes() if "runtime.daemon" in command_line(one)]
        for helper in helpers:
            helper.kill()
        dagger.write(*bookings(events[90:]), booking(400))
        code = launch.wait()
    with dagger.launch() as relaunch:
        relaunch.until(written(2))
        relaunch.stop()

    error = launch.error()
    assert len(helpers) > 0
    assert (code, error["reason"], error["retryable"]) == (69, "WORKER_DIED", True)
    assert Counter(dict(in_kafka(kafka, topic))) == recount(events)


@pytest.mark.long
def test_an_edit_recounts_the_windows_that_were_open(
    tmp_path: Path, kafka: str, influx: dict[str, str]
) -> None:
    dagger = Dagger(tmp_path, kafka, sinks=[influx_sink(influx)], idle_timeout_s=0)
    events = spread(range(200), cities=2)

    with dagger.launch() as launch:
        dagger.write(*bookings(events[:100]))
        launch.until(written(2))
        launch.stop()
    before = list((dagger.checkpoints / "checkpoints").iterdir())
    dagger.sql = dagger.sql.replace("status = 'COMPLETED'", "status = 'COMPLETED' AND fare > 0")
    with dagger.launch() as edited:
        dagger.write(*bookings(events[100:]))
        edited.until(lambda beat: in_influx(influx, dagger).total() >= 180)
        edited.stop()
    after = list((dagger.checkpoints / "checkpoints").iterdir())

    assert in_influx(influx, dagger) == recount(events[:180])
    assert (len(before), len(after), set(before) & set(after)) == (1, 1, set())


def test_early_rows_come_while_the_window_is_open_and_end_right(
    tmp_path: Path, kafka: str, influx: dict[str, str]
) -> None:
    dagger = Dagger(tmp_path, kafka, sinks=[influx_sink(influx)], idle_timeout_s=0, emit=spec_pb2.EMIT_EARLY)
    events = spread(range(50), cities=1)

    with dagger.launch() as launch:
        dagger.write(*bookings(events[:20]))
        launch.until(written(1))
        early = in_influx(influx, dagger)
        dagger.write(*bookings(events[20:]))
        launch.until(lambda beat: in_influx(influx, dagger).total() >= 50)
        launch.stop()

    assert 0 < early.total() <= 20
    assert in_influx(influx, dagger) == recount(events)


@pytest.mark.long
def test_a_driver_writes_no_faster_than_its_share_and_all_of_it(
    tmp_path: Path, kafka: str, influx: dict[str, str]
) -> None:
    topic, limited = fresh_topic(kafka), influx_sink(influx)
    limited.share.rows_per_second = 2
    dagger = Dagger(tmp_path, kafka, sinks=[limited, kafka_sink(kafka, topic)], idle_timeout_s=0)
    events = spread(range(200), cities=6)

    with dagger.launch() as launch:
        dagger.write(*bookings(events))
        began = time.monotonic()
        launch.until(lambda beat: in_influx(influx, dagger).total() >= 180)
        took = time.monotonic() - began
        launch.stop()

    windows = in_influx(influx, dagger)
    assert windows == Counter(dict(in_kafka(kafka, topic))) == recount(events[:180])
    assert took >= (len(windows) - 2) / 2


@pytest.mark.parametrize(
    ("sql", "bucket", "ends"),
    [
        ("SELECT nothing FROM data_stream", "", (64, "ERROR_DOMAIN_USER", "UNKNOWN_COLUMN")),
        ("", "nowhere", (69, "ERROR_DOMAIN_EXTERNAL", "SINK_MISSING")),
    ],
)
def test_what_cannot_work_ends_with_one_sentence(
    tmp_path: Path, kafka: str, influx: dict[str, str], sql: str, bucket: str, ends: tuple[int, str, str]
) -> None:
    dagger = Dagger(tmp_path, kafka, sinks=[influx_sink(influx, bucket=bucket or influx["bucket"])])
    dagger.sql = sql or dagger.sql

    with dagger.launch() as launch:
        code = launch.wait()

    error = launch.error()
    assert (code, error["domain"], error["reason"]) == ends
    assert "Traceback" not in error["detail"]
    before, _, _ = launch.log().partition("Traceback")
    assert stamp_of(before.splitlines()[-1])
    assert f"ended reason={error['reason']}" in before.splitlines()[-1]
    assert launch.beats[-1].error.reason == error["reason"]


@pytest.mark.parametrize("text", [b"", b"\xff\xff\xff"])
def test_a_damaged_spec_is_told_without_spark(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "spec.pb").write_bytes(text)

    done = subprocess.run(
        [sys.executable, MAIN, "--spec", tmp_path / "spec.pb", "--generation", "1"],
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip

    assert (done.returncode, json.loads((tmp_path / "exit.json").read_text())["reason"]) == (70, "BAD_SPEC")


def test_a_stop_file_that_is_there_already_ends_the_launch_at_once(tmp_path: Path, kafka: str) -> None:
    dagger = Dagger(tmp_path, kafka, sinks=[log_sink(1)])

    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "stop").touch()
    (run_dir / "spec.pb").write_bytes(dagger.spec(run_dir).SerializeToString())
    done = subprocess.run(
        [sys.executable, MAIN, "--spec", run_dir / "spec.pb", "--generation", str(dagger.generation)],
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip

    assert (done.returncode, dagger.checkpoints.exists()) == (0, False)


def test_the_help_names_both_options() -> None:
    done = subprocess.run(
        [sys.executable, MAIN, "--help"], capture_output=True, text=True, check=False, timeout=60
    )

    assert (done.returncode, "--spec" in done.stdout, "--generation" in done.stdout) == (0, True, True)
