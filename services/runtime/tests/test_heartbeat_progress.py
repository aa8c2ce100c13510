"""Progress is a fold, and a heartbeat says all of it."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from daggers.v1 import events_pb2, spec_pb2, telemetry_pb2
from services.runtime.tests.sink_contract import records

from daggerspec import rundir
from daggerspec.topics import HEARTBEATS
from runtime.launch import heartbeat, progress
from runtime.launch.heartbeat import HeartbeatSender
from runtime.launch.lane import LaneReport
from runtime.launch.progress import CommittedBatch, Progress, heartbeat_at

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
Beat = telemetry_pb2.Heartbeat
DOWN = events_pb2.DaggerError(reason="SINK_UNAVAILABLE", detail="influx: it is away.", retryable=True)


def batch(number: int, *, late: int = 0, watermark: datetime | None = None, lag: int = 0) -> CommittedBatch:
    return CommittedBatch(
        batch_id=number,
        time=NOON + number * SECOND,
        duration_ms=150,
        rows=100,
        late_by_table={"t": late} if late else {},
        late_windows=3 * late,
        quarantined={"MALFORMED": 1},
        invalid={"s2id": 2},
        watermark=watermark,
        lag={"bookings/0": lag},
        state_rows=9,
    )


def launched(*sinks: str, dagger: str = "bookings") -> Progress:
    return progress.initial(dagger, 7, "h1", 42, sinks=sinks)


def after(*batches: CommittedBatch) -> Progress:
    done = launched("influx", "crm")
    for one in batches:
        done = progress.batch_committed(done, one)
    return done


def test_a_job_runs_once_its_first_batch_is_committed() -> None:
    assert (launched().beat.state, after(batch(0)).beat.state) == (Beat.STATE_STARTING, Beat.STATE_RUNNING)


def test_a_job_runs_once_its_source_was_found_empty() -> None:
    beat = progress.idle(launched(), NOON).beat

    assert (beat.state, beat.batch_id) == (Beat.STATE_RUNNING, -1)
    assert (beat.last_progress.ToDatetime(UTC), beat.HasField("last_commit")) == (NOON, False)


def test_a_batch_told_twice_counts_once() -> None:
    assert after(batch(0, late=2), batch(0, late=2)) == after(batch(0, late=2))


def test_a_batch_without_a_watermark_keeps_the_last_one() -> None:
    assert after(batch(0, watermark=NOON), batch(1)).beat.watermark.ToDatetime(UTC) == NOON


def test_what_is_told_of_the_batch_before_does_not_end_the_one_that_runs() -> None:
    done = progress.batch_began(progress.batch_began(after(batch(0)), 1, NOON), 2, NOON + SECOND)
    later = progress.idle(progress.batch_committed(done, batch(1)), NOON)

    assert later.running_since == NOON + SECOND
    assert progress.batch_committed(later, batch(2)).running_since is None
    assert progress.idle(later, NOON + 2 * SECOND).running_since is None


def test_an_idle_source_has_no_lag() -> None:
    done = progress.idle(after(batch(0, lag=5)), NOON)

    assert done.beat.lag == {"bookings/0": 0}


def test_what_waits_behind_a_batch_is_told_while_it_runs_and_not_of_another() -> None:
    running = progress.batch_began(after(batch(0)), 1, NOON)

    seen = progress.behind(running, 1, {"bookings/0": 3})

    assert [dict(progress.batch_committed(seen, batch(number)).beat.lag) for number in (1, 2)] == [
        {"bookings/0": 3},  # newer than what was known when the batch was planned
        {"bookings/0": 0},
    ]
    assert dict(seen.beat.lag) == {"bookings/0": 3}
    assert progress.behind(running, 0, {"bookings/0": 3}) == running
    assert progress.behind(after(batch(0)), 0, {"bookings/0": 3}) == after(batch(0))


def test_rows_and_refusals_of_the_sinks_add_up_with_the_sources() -> None:
    done = after(batch(0))
    for _ in range(2):
        refused = {"MALFORMED": 1, "NO_FIELDS": 2}
        done = progress.batch_written(
            done, rows={"influx": 3, "crm": 4}, refused=refused, invalid={"s2id": 5}
        )

    assert (done.beat.rows_out, done.beat.quarantined) == ([6, 8], {"MALFORMED": 3, "NO_FIELDS": 4})
    assert done.beat.sink_rows == {"influx": 6, "crm": 8}
    assert done.beat.bad_values == {"s2id": 12}


def test_a_sink_that_is_retried_is_told_until_the_batch_is_written() -> None:
    troubled = progress.retrying(progress.batch_began(after(batch(0)), 1, NOON), [DOWN])
    written = progress.batch_written(troubled, rows={"influx": 1, "crm": 1}, refused={}, invalid={})

    assert (troubled.beat.retrying, written.beat.retrying) == ([DOWN], [])


def written(done: Progress, *, waiting: int = 0) -> Progress:
    """Return the progress after a batch that `crm` took, or of which so many rows wait in its log."""
    spool = LaneReport(telemetry_pb2.Spool(rows=waiting), None)
    return progress.batch_written(
        progress.set_spools(done, {"crm": spool} if waiting else {}),
        rows={"influx": 1, "crm": 0 if waiting else 1},
        refused={},
        invalid={},
        away={"crm": DOWN} if waiting else {},
    )


def test_a_sink_whose_rows_were_set_aside_takes_some_only_once_it_has_taken_rows() -> None:
    gone = overflown(written(launched("influx", "crm"), waiting=1))
    empty = progress.batch_written(progress.set_spools(gone, {}), rows={"influx": 1}, refused={}, invalid={})
    drained = progress.rows_drained(progress.set_spools(gone, {}), "crm", 1, {}, NOON, {})

    assert list(empty.beat.taking) == ["influx"]
    assert [list(written(done).beat.taking) for done in (empty, drained)] == [["influx", "crm"]] * 2
    assert [bool(done.overflown) for done in (empty, written(empty), drained)] == [True, False, False]


def overflown(done: Progress) -> Progress:
    """Return the progress after rows of the log of `crm` were quarantined."""
    return progress.rows_drained(done, "crm", 0, {"SINK_UNAVAILABLE": 1}, NOON, {}, is_overflow=True)


def test_an_outage_counts_once_from_the_first_row_that_is_set_aside_until_nothing_waits() -> None:
    before = written(written(launched("influx", "crm")), waiting=1)
    first = overflown(before)
    longer = written(overflown(written(first, waiting=1)), waiting=1)
    over, again = written(longer), overflown(written(written(longer), waiting=1))

    assert [dict(done.beat.outages) for done in (before, first, longer, over, again)] == [
        {}, {"crm": 1}, {"crm": 1}, {"crm": 1}, {"crm": 2},
    ]  # fmt: skip
    assert [list(done.beat.taking) for done in (before, longer, over, again)] == [
        ["influx"], ["influx"], ["influx", "crm"], ["influx"],
    ]  # fmt: skip
    assert (again.beat.retrying, again.beat.quarantined) == ([DOWN], {"SINK_UNAVAILABLE": 3})


def test_nothing_is_completed_while_rows_wait_in_a_log() -> None:
    done = progress.set_completed(written(launched("influx", "crm")), {"in/0": 5})
    waits = progress.set_completed(written(done, waiting=1), {"in/0": 9})
    drained = progress.set_spools(waits, {})

    assert [each.beat.completed["in/0"] for each in (done, waits, drained)] == [5, 5, 9]


def test_no_sink_is_said_to_take_rows_before_the_first_batch_and_while_one_is_retried() -> None:
    done = written(launched("influx", "crm"))

    assert (launched("influx", "crm").beat.taking, progress.retrying(done, [DOWN]).beat.taking) == ([], [])


def test_a_draining_job_that_commits_keeps_draining() -> None:
    done = progress.batch_committed(progress.draining(after(batch(0))), batch(1))

    assert (done.beat.state, done.beat.batch_id) == (Beat.STATE_DRAINING, 1)


def test_a_heartbeat_says_everything() -> None:
    done = after(batch(0, late=2, watermark=NOON, lag=5))
    done = progress.batch_written(
        done, rows={"influx": 3, "crm": 4}, refused={"NO_FIELDS": 1}, invalid={"jsonquery": 6}
    )
    done = progress.retrying(progress.batch_began(done, 1, NOON), [DOWN])
    done = progress.set_warnings(done, ["NOT_REPEATABLE: rows have no time"])

    beat = heartbeat_at(progress.set_ui_url(done, "http://h1:1"), NOON + 90 * SECOND)

    expected = Beat(
        dagger="bookings", generation=7, host="h1", pid=42, ui_url="http://h1:1",
        state=Beat.STATE_RUNNING, batch_id=0, batch_duration_ms=150, running_batch_age_ms=90_000,
        running_batch_id=1, refused_rows={"NO_FIELDS": 1},
        rows_in=100, rows_out=[3, 4], sink_rows={"influx": 3, "crm": 4}, late_rows=2, late_windows=6,
        late_rows_by_table={"t": 2},
        quarantined={"MALFORMED": 1, "NO_FIELDS": 1},
        lag={"bookings/0": 5}, state_rows=9, retrying=[DOWN],
        warnings=["NOT_REPEATABLE: rows have no time"], bad_values={"s2id": 2, "jsonquery": 6},
    )  # fmt: skip
    expected.time.FromDatetime(NOON + 90 * SECOND)
    expected.last_progress.FromDatetime(NOON)
    expected.last_commit.FromDatetime(NOON)
    expected.watermark.FromDatetime(NOON)
    assert beat == expected


def test_a_heartbeat_between_batches_has_no_batch_age() -> None:
    beat = heartbeat_at(after(batch(0)), NOON)

    assert (beat.running_batch_age_ms, beat.HasField("running_batch_id")) == (0, False)
    assert not beat.HasField("watermark")


@pytest.mark.timeout(30)
def test_a_broker_that_is_away_costs_heartbeats_and_nothing_else(tmp_path: Path) -> None:
    nowhere = spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:1", properties={"log_level": "0"})
    with HeartbeatSender(nowhere, launched(), run_dir=tmp_path) as sender:
        for number in range(300):
            sender.update(lambda done, number=number: progress.batch_committed(done, batch(number)))

    beat = sender.progress.beat
    assert (beat.batch_id, beat.state) == (299, Beat.STATE_EXITING)


@pytest.mark.timeout(60, func_only=True)
@pytest.mark.parametrize("is_collected", [False, True])
def test_that_a_driver_starts_is_said_at_once(
    kafka: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_collected: bool
) -> None:
    monkeypatch.setattr(heartbeat, "PERIOD_S", 3600.0)
    if is_collected:
        (tmp_path / rundir.COLLECTED).touch()
    platform = spec_pb2.KafkaAddress(bootstrap_servers=kafka)
    dagger = uuid4().hex
    beats: list[Beat] = []

    with HeartbeatSender(platform, launched(dagger=dagger), run_dir=tmp_path):
        while not beats:
            beats = said(kafka, dagger)

    assert [beat.state for beat in beats] == [Beat.STATE_STARTING]


@pytest.mark.timeout(60, func_only=True)
def test_last_words_are_said_whatever_is_being_said_when_the_job_dies(
    kafka: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    platform = spec_pb2.KafkaAddress(bootstrap_servers=kafka)
    dagger = uuid4().hex
    saying, dead = Event(), Event()

    def slow(*of: Any) -> Beat:
        saying.set()
        dead.wait()
        return heartbeat_at(*of)

    monkeypatch.setattr(heartbeat.progress, "heartbeat_at", slow)
    with HeartbeatSender(platform, launched(dagger=dagger), run_dir=tmp_path) as sender:
        saying.wait()
        sender.update(partial(progress.exiting, error=DOWN))
        dead.set()

    while len(beats := said(kafka, dagger)) < 2:
        pass
    assert [(beat.state, beat.error.reason) for beat in beats] == [
        (Beat.STATE_STARTING, ""),
        (Beat.STATE_EXITING, DOWN.reason),
    ]


@pytest.mark.timeout(30)
def test_heartbeats_of_every_few_seconds_are_left_while_the_host_collects_them_and_sent_again_after(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(heartbeat, "PERIOD_S", 0.01)
    nowhere = spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:1", properties={"log_level": "0"})
    collected, file = tmp_path / rundir.COLLECTED, tmp_path / rundir.HEARTBEAT
    running = after(batch(0), batch(1))
    with HeartbeatSender(nowhere, running, run_dir=tmp_path) as sender:
        until(lambda: sender.sent > 2)
        without = file.exists()
        collected.touch()
        until(file.exists)
        first, sent = Beat.FromString(file.read_bytes()), sender.sent
        until(lambda: Beat.FromString(file.read_bytes()).time.ToNanoseconds() > first.time.ToNanoseconds())
        sent_meanwhile = sender.sent - sent
        old = time.time() - rundir.COLLECTED_WITHIN_S
        os.utime(collected, (old, old))
        until(lambda: sender.sent > sent + 2)

    assert (without, first.batch_id, first.dagger) == (False, 1, "bookings")
    assert sent_meanwhile == 0


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds; the test's own timeout ends it."""
    while not holds():
        time.sleep(0.01)


def said(kafka: str, dagger: str) -> list[Beat]:
    """Every heartbeat of this driver, in the order it was sent."""
    beats = [Beat.FromString(record.value() or b"") for record in records(kafka, HEARTBEATS)]
    return [beat for beat in beats if beat.dagger == dagger]


def test_a_batch_that_was_mostly_set_aside_is_warned_of_until_one_is_not() -> None:
    flooded = replace(batch(0), quarantined={"MALFORMED": 40_000, "EMPTY_VALUE": 9})
    done = progress.batch_written(after(flooded), rows={"crm": 5}, refused={"NO_FIELDS": 2_000}, invalid={})

    warned = list(heartbeat_at(done, NOON).warnings)
    later = progress.batch_written(
        progress.batch_committed(done, batch(1)),
        rows={"influx": 7, "crm": 7},
        refused={"NO_FIELDS": 5},
        invalid={},
    )

    assert warned == [
        "QUARANTINE_FLOOD: the last batch quarantined 40009 records (40000 of them MALFORMED) and kept 100; "
        "`daggers quarantine list` shows some.",
        "QUARANTINE_FLOOD: the last batch quarantined 2000 rows that sinks refused (2000 of them NO_FIELDS) "
        "and kept 5; `daggers quarantine list` shows some.",
    ]
    assert list(heartbeat_at(later, NOON).warnings) == []
