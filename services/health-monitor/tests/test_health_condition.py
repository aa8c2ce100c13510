"""What is found about a dagger, from its phase, its heartbeats, its Spark driver, and silence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from daggers.v1 import alerts_pb2, events_pb2, gateway_pb2, spec_pb2, telemetry_pb2
from hypothesis import given as for_all
from hypothesis import strategies as st

from fleet import Dagger
from fleet.conditions.dagger_conditions import OF_DAGGERS, diagnose, to_probe
from fleet.conditions.finding import Finding, Measure
from fleet.fold.phases import (
    BACKING_OFF,
    DEGRADED,
    DELETED,
    FAILED,
    PENDING,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    UNREACHABLE,
)
from fleet.health import watch
from fleet.health.advice import ADVICE, REFUSED
from fleet.health.degradation import Limits
from fleet.health.watch import Hearing, Watch

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
LIMITS = Limits(share_time=timedelta(0), quarantine_records=10)
SKEW = timedelta(hours=3)
FAILURE = alerts_pb2.ALERT_CONDITION_FAILED
QUARANTINE = alerts_pb2.ALERT_CONDITION_QUARANTINE_RATE
STALL = alerts_pb2.ALERT_CONDITION_NO_PROGRESS
SILENCE = alerts_pb2.ALERT_CONDITION_UNREACHABLE
PHASES = [PENDING, STARTING, RUNNING, DEGRADED, UNREACHABLE, BACKING_OFF, FAILED, STOPPING, STOPPED, DELETED]


def a_dagger(phase: gateway_pb2.Phase.ValueType = RUNNING, **changes: Any) -> Dagger:
    """A dagger that was asked for an hour ago."""
    whole: dict[str, Any] = {
        "desired": gateway_pb2.DESIRED_RUNNING,
        "driver": events_pb2.DriverHandle(host="worker-1", ui_url="http://worker-1:4040"),
        "spec": spec_pb2.DaggerSpec(),
        "update_time": NOON - 60 * MINUTE,
        "phase_time": NOON - 10 * MINUTE,
    }
    return Dagger(
        name="bookings",
        warnings=(),
        version=1,
        phase=phase,
        sequence=5,
        create_sequence=1,
        create_time=NOON - 60 * MINUTE,
        generation=3,
        **(whole | changes),
    )


def a_heartbeat(at: datetime, *, progressed: datetime | None, **fields: Any) -> telemetry_pb2.Heartbeat:
    """A heartbeat whose driver's clock is hours off."""
    beat = telemetry_pb2.Heartbeat(dagger="bookings", generation=3, **fields)
    beat.time.FromDatetime(at + SKEW)
    if progressed is not None:
        beat.last_progress.FromDatetime(progressed + SKEW)
    return beat


def watched(*beats: tuple[datetime, datetime | None], **fields: Any) -> Watch:
    """A watch of an hour that heard heartbeats (when, last progress)."""
    observed = watch.begin(NOON - 60 * MINUTE, 3)
    for at, progressed in beats:
        observed = watch.hear(observed, a_heartbeat(at, progressed=progressed, **fields), at)
    return observed


def found(
    dagger: Dagger, observed: Watch, *, now: datetime = NOON, hearing: datetime | None = NOON - 60 * MINUTE
) -> dict[str, bool]:
    """Name of each condition that is judged -> whether it ails."""
    findings = diagnose(dagger, observed, now=now, hearing=hearing, limits=LIMITS)
    return {
        alerts_pb2.AlertCondition.Name(condition).removeprefix("ALERT_CONDITION_"): finding.active
        for condition, finding in findings.items()
    }


def looked(dagger: Dagger, observed: Watch, *, now: datetime = NOON) -> Mapping[Any, Finding]:
    """The findings of a monitor that has heard for an hour."""
    return diagnose(dagger, observed, now=now, hearing=NOON - 60 * MINUTE, limits=LIMITS)


def summary(dagger: Dagger, observed: Watch, condition: str) -> str:
    return looked(dagger, observed)[alerts_pb2.AlertCondition.Value(f"ALERT_CONDITION_{condition}")].summary


HEALTHY = watched((NOON - 7 * SECOND, NOON - 8 * SECOND), (NOON - 2 * SECOND, NOON - 3 * SECOND))


def test_a_healthy_dagger_has_nothing() -> None:
    assert found(a_dagger(), HEALTHY) == {
        "FAILED": False,
        "UNREACHABLE": False,
        "NO_PROGRESS": False,
        "QUARANTINE_RATE": False,
        "LATE_ROWS": False,
        "NO_OUTPUT": False,
        "RECORDS_EXPIRED": False,
        "PARTITION_BEHIND": False,
        "FRESHNESS_MISSED": False,
        "WAITING_FOR_EXECUTORS": False,
        "SINK_BEHIND": False,
    }


def test_a_dagger_that_was_given_up_has_failed_and_says_why() -> None:
    error = events_pb2.DaggerError(reason="SINK_REFUSED", detail="the bucket is gone")
    dagger = a_dagger(FAILED, driver=None, last_error=error)

    assert found(dagger, HEALTHY) == {"FAILED": True, "UNREACHABLE": False}
    assert summary(dagger, HEALTHY, "FAILED") == "it was given up: SINK_REFUSED: the bucket is gone"


@for_all(st.sampled_from([FAILED, UNREACHABLE]), st.integers(30, 3_000), st.integers(0, 29))
def test_what_the_scheduler_says_began_and_ended_when_it_said_so(phase: Any, ago: int, heard: int) -> None:
    condition = {FAILED: FAILURE, UNREACHABLE: SILENCE}[phase]
    said = NOON - ago * SECOND
    before = watched((said - 40 * SECOND, said - 41 * SECOND))
    again = watched((NOON - heard * SECOND, NOON - heard * SECOND))
    began = looked(a_dagger(phase, phase_time=said), before)[condition]
    over = looked(a_dagger(RUNNING, phase_time=NOON - heard * SECOND), again)[condition]

    assert (began.active, began.since) == (True, said)
    assert (over.active, over.since) == (False, NOON - heard * SECOND)


def test_a_driver_that_is_found_dead_was_unreachable_until_then() -> None:
    over = looked(a_dagger(BACKING_OFF, phase_time=NOON - 7 * SECOND, driver=None), watched())[SILENCE]

    assert over == Finding(False, "its driver is known to be gone", NOON - 7 * SECOND)


@pytest.mark.parametrize("phase", [PENDING, STARTING, BACKING_OFF])
def test_an_attempt_to_run_again_does_not_yet_end_a_failure(phase: gateway_pb2.Phase.ValueType) -> None:
    assert "FAILED" not in found(a_dagger(phase), HEALTHY)


def test_the_schedulers_word_is_enough_for_unreachable_and_nothing_else_is_said() -> None:
    gone = watched((NOON - 11 * MINUTE, NOON - 11 * MINUTE))

    assert found(a_dagger(UNREACHABLE), gone) == {"UNREACHABLE": True}


def test_a_heartbeat_after_the_schedulers_word_is_a_sign_of_life() -> None:
    assert found(a_dagger(UNREACHABLE), HEALTHY) == {"UNREACHABLE": False}


def test_a_silent_driver_that_does_not_answer_is_unreachable() -> None:
    silent = watch.probe(watched((NOON - 31 * SECOND, NOON - 32 * SECOND)), answers=False)

    assert found(a_dagger(), silent) == {"FAILED": False, "UNREACHABLE": True}


def span(seconds: int) -> str:
    """Minutes and seconds, counted again."""
    minutes, rest = divmod(seconds, 60)
    return " ".join([f"{minutes} min"] * (minutes > 0) + [f"{rest} s"] * (rest > 0))


@for_all(st.integers(121, 3_000), st.integers(0, 29), st.integers(1, 100_000))
def test_how_long_nothing_went_on_is_told_as_of_now_by_the_monitors_clock(
    progressed: int, heard: int, age_ms: int
) -> None:
    beat = NOON - heard * SECOND, NOON - progressed * SECOND
    stuck = watched(beat, running_batch_age_ms=age_ms, running_batch_id=7)
    finding = looked(a_dagger(), stuck)[STALL]

    batch = span(age_ms // 1000 + heard) or "0 s"
    assert finding.since == NOON - progressed * SECOND
    assert finding.summary == f"no progress for {span(progressed)}: batch 7 has been running for {batch}"


@for_all(st.integers(30, 3_000))
def test_silence_is_told_from_the_last_heartbeat_on(heard: int) -> None:
    last = NOON - heard * SECOND
    silent = watch.probe(watched((last, last - 40 * SECOND)), answers=False)
    alive = watch.probe(watched((last, last - 4 * MINUTE)), answers=True)
    unheard = looked(a_dagger(), silent)[SILENCE]

    assert unheard.since == last
    assert unheard.summary.startswith(f"no heartbeat for {span(heard)}, and its Spark driver on worker-1")
    assert summary(a_dagger(), alive, "NO_PROGRESS").startswith(f"no heartbeat for {span(heard)}, though")


def test_a_silent_driver_is_not_judged_while_it_is_being_asked() -> None:
    assert "UNREACHABLE" not in found(a_dagger(), watched((NOON - 31 * SECOND, NOON - 32 * SECOND)))


def test_a_silent_driver_without_an_address_is_unreachable() -> None:
    nowhere = a_dagger(driver=events_pb2.DriverHandle(host="worker-1"))

    assert found(nowhere, watched((NOON - 31 * SECOND, NOON - 32 * SECOND)))["UNREACHABLE"]


def test_a_silent_driver_that_answers_is_stuck_and_not_unreachable() -> None:
    silent = watch.probe(watched((NOON - 3 * MINUTE, NOON - 4 * MINUTE)), answers=True)

    assert found(a_dagger(), silent) == {"FAILED": False, "UNREACHABLE": False, "NO_PROGRESS": True}
    assert summary(a_dagger(), silent, "NO_PROGRESS") == (
        "no heartbeat for 3 min, though its Spark driver answers"
    )


def test_a_driver_that_died_for_certain_is_not_unreachable() -> None:
    assert found(a_dagger(BACKING_OFF, driver=None), watched())["UNREACHABLE"] is False


def test_heartbeats_without_progress_are_no_progress() -> None:
    beat = NOON - 5 * SECOND, NOON - 3 * MINUTE
    stuck = watched(beat, running_batch_age_ms=170_000, running_batch_id=42, batch_id=-1)
    unnamed = watched(beat, running_batch_age_ms=170_000, batch_id=-1)

    assert found(a_dagger(), stuck)["NO_PROGRESS"]
    assert summary(a_dagger(), stuck, "NO_PROGRESS") == (
        "no progress for 3 min: batch 42 has been running for 2 min 55 s"
    )
    assert "a batch has been running for 2 min 55 s" in summary(a_dagger(), unnamed, "NO_PROGRESS")


def test_a_sink_that_is_retried_is_named() -> None:
    retrying = [events_pb2.DaggerError(reason="CONNECTION_REFUSED", detail="influx is down")]
    stuck = watched((NOON - SECOND, NOON - 3 * MINUTE), retrying=retrying)

    assert summary(a_dagger(DEGRADED), stuck, "NO_PROGRESS") == (
        "no progress for 3 min, it retries a sink: CONNECTION_REFUSED: influx is down"
    )


def test_a_long_trigger_is_waited_for() -> None:
    spec = spec_pb2.DaggerSpec()
    spec.trigger.FromTimedelta(5 * MINUTE)
    slow = watched((NOON - SECOND, NOON - 14 * MINUTE))

    assert found(a_dagger(spec=spec), slow)["NO_PROGRESS"] is False


@for_all(st.integers(121, 3_000), st.integers(121, 3_000), st.integers(121, 3_000))
def test_what_waits_for_a_driver_is_told_how_long(progressed: int, began: int, asked: int) -> None:
    """From the last progress or the last request on, whichever is later; waits for a launch by their own."""
    error = events_pb2.DaggerError(reason="FULL", detail="no room")
    observed = watch.launch(
        watched((NOON - progressed * SECOND, NOON - progressed * SECOND)), 9, NOON - SECOND
    )
    stalled, waited = min(progressed, asked), min(began, asked)
    expected = {
        PENDING: f"no driver has been launched for {span(waited)}: FULL: no room",
        STARTING: f"no progress for {span(stalled)}, its driver has not reached its source yet",
        BACKING_OFF: f"no progress for {span(stalled)}, its driver has ended once: FULL: no room",
    }
    times = {"phase_time": NOON - began * SECOND, "update_time": NOON - asked * SECOND}
    told = {
        phase: looked(a_dagger(phase, driver=None, last_error=error, **times), observed)[STALL]
        for phase in expected
    }

    assert {phase: finding.summary for phase, finding in told.items()} == expected
    assert {finding.since for finding in told.values()} == {NOON - stalled * SECOND}


def test_progress_ends_a_stall_when_it_was_made() -> None:
    progressed = NOON - 17 * SECOND
    over = looked(a_dagger(), watched((NOON - 2 * SECOND, progressed)))[STALL]

    assert over == Finding(False, "it makes progress", progressed)


def test_what_nobody_launches_makes_no_progress() -> None:
    dagger = a_dagger(PENDING, driver=None)

    assert found(dagger, watched())["NO_PROGRESS"]
    assert summary(dagger, watched(), "NO_PROGRESS") == (
        "no driver has been launched for 10 min; does a scheduler run, or do many of them start at once?"
    )


def test_a_fresh_request_begins_the_wait_anew() -> None:
    dagger = a_dagger(PENDING, driver=None, update_time=NOON - MINUTE)

    assert "NO_PROGRESS" not in found(dagger, watched())


def test_relaunches_do_not_begin_the_wait_anew() -> None:
    observed = watch.launch(watched((NOON - 5 * MINUTE, NOON - 5 * MINUTE)), 9, NOON - SECOND)
    error = events_pb2.DaggerError(reason="OUT_OF_MEMORY")

    assert found(a_dagger(BACKING_OFF, last_error=error), observed)["NO_PROGRESS"]
    assert summary(a_dagger(BACKING_OFF, last_error=error), observed, "NO_PROGRESS") == (
        "no progress for 5 min, its driver has ended once: OUT_OF_MEMORY"
    )


@pytest.mark.parametrize(
    ("phase", "changes", "times"),
    [
        (BACKING_OFF, {"attempt": 2}, "3 times"),
        (BACKING_OFF, {"attempt": 3, "not_before": NOON + MINUTE}, "3 times"),
        (STARTING, {"attempt": 3}, "3 times"),
        (STARTING, {"attempt": 1}, "once"),
    ],
)
def test_a_driver_that_keeps_ending_is_told_with_how_often_and_why(
    phase: gateway_pb2.Phase.ValueType, changes: dict[str, Any], times: str
) -> None:
    observed = watch.launch(watched((NOON - 5 * MINUTE, NOON - 5 * MINUTE)), 9, NOON - SECOND)
    error = events_pb2.DaggerError(reason="OUT_OF_MEMORY", detail="its heap was full")

    assert summary(a_dagger(phase, last_error=error, **changes), observed, "NO_PROGRESS") == (
        f"no progress for 5 min, its driver has ended {times}: OUT_OF_MEMORY: its heap was full"
    )


def test_what_is_asked_to_stop_need_not_progress() -> None:
    dagger = a_dagger(RUNNING, desired=gateway_pb2.DESIRED_STOPPED)

    assert "NO_PROGRESS" not in found(dagger, watched((NOON - SECOND, NOON - 9 * MINUTE)))


@pytest.mark.parametrize("phase", [STOPPED, DELETED])
def test_a_stopped_dagger_has_nothing_whatever_was_seen(phase: gateway_pb2.Phase.ValueType) -> None:
    findings = diagnose(a_dagger(phase), watched(), now=NOON, hearing=None, limits=LIMITS)

    assert {each: (f.active, f.final) for each, f in findings.items()} == dict.fromkeys(
        OF_DAGGERS, (False, True)
    )


def test_a_monitor_that_has_just_started_says_nothing_it_cannot_know() -> None:
    just = watch.begin(NOON - SECOND, 3)

    assert found(a_dagger(), just, hearing=NOON - SECOND) == {"FAILED": False}


@for_all(st.sampled_from(PHASES), st.integers(0, 100_000))
def test_a_deaf_monitor_never_calls_silence_a_fault(phase: Any, seconds: int) -> None:
    quiet = watched((NOON - 60 * MINUTE, NOON - 60 * MINUTE))
    findings = found(a_dagger(phase), quiet, now=NOON + seconds * SECOND, hearing=None)

    assert {each for each, active in findings.items() if active} <= {
        {FAILED: "FAILED", UNREACHABLE: "UNREACHABLE"}.get(phase, "")
    }


def test_after_deafness_silence_is_counted_from_the_first_thing_heard() -> None:
    quiet = watched((NOON - 60 * MINUTE, NOON - 60 * MINUTE))

    assert found(a_dagger(), quiet, hearing=NOON - SECOND) == {"FAILED": False, "UNREACHABLE": False}


def test_hearing_ends_with_a_gap_and_begins_again() -> None:
    hearing = Hearing(gap=15 * SECOND)
    begins = []
    for at in (0, 10, 20, 50, 60):
        hearing = hearing.hears(NOON + at * SECOND)
        begins.append(hearing.begin(NOON + at * SECOND))

    assert [begin and (begin - NOON) // SECOND for begin in begins] == [0, 0, 0, 50, 50]
    assert hearing.begin(NOON + 75 * SECOND) is None


# ---- Quarantine --------------------------------------------------------------------------------------------


def counted(*samples: tuple[int, int, int]) -> Watch:
    """A watch that heard these counters: seconds before NOON, rows in (none of them set aside), set aside."""
    observed = watch.begin(NOON - 60 * MINUTE, 3)
    for seconds, rows_in, quarantined in samples:
        at = NOON - seconds * SECOND
        beat = a_heartbeat(at, progressed=at, rows_in=rows_in, quarantined={"MALFORMED": quarantined})
        observed = watch.hear(observed, beat, at)
    return observed


def test_a_share_above_the_limit_is_too_much() -> None:
    observed = counted((60, 0, 0), (1, 1_000, 11))

    assert found(a_dagger(), observed)["QUARANTINE_RATE"]
    assert (
        summary(a_dagger(), observed, "QUARANTINE_RATE")
        == "11 records were quarantined in 59 s, 1.1%: MALFORMED"
    )


@for_all(st.lists(st.sampled_from(["row", "MALFORMED", "FROM_THE_FUTURE"]), min_size=30, max_size=90))
def test_the_share_that_is_told_is_that_of_all_records_read(records: list[str]) -> None:
    """Each record is a row or set aside, never both; the alert's numbers are counted from the records."""
    observed, rows, aside = (
        watch.begin(NOON - 60 * MINUTE, 3),
        0,
        dict.fromkeys(["MALFORMED", "FROM_THE_FUTURE"], 0),
    )
    first_bad = None
    for second, record in enumerate([None, *records]):
        at = NOON - (len(records) - second) * SECOND
        rows += record == "row"
        if record in aside:
            aside[record] += 1
            first_bad = first_bad or at
        observed = watch.hear(observed, a_heartbeat(at, progressed=at, rows_in=rows, quarantined=aside), at)
    bad = len(records) - records.count("row")
    finding = looked(a_dagger(), observed)[QUARANTINE]
    share = f"{bad / len(records):.1%}"  # as the monitor rounds: 49 of 80 is a tie

    assert finding.active == (bad >= 10)
    if not finding.active:
        well = f"{share} of its records are quarantined, 0.0% of its rows are refused"
        assert finding == Finding(False, well, NOON, measure=Measure(bad / len(records), 0.01, "share"))
    if finding.active:
        span = (
            f"{len(records)} s"
            if len(records) < 60
            else f"1 min{f' {len(records) - 60} s' * (len(records) > 60)}"
        )
        assert finding.summary.startswith(f"{bad} records were quarantined in {span}, {share}: ")
        assert finding.since == first_bad


def test_rows_that_sinks_refuse_are_a_share_of_those_to_be_written_and_not_of_the_records() -> None:
    observed = watch.begin(NOON - 60 * MINUTE, 3)
    for ago, rows_in, rows_out, refused in ((61, 0, 0, 0), (31, 50_000, 9, 3), (1, 100_000, 28, 12)):
        at = NOON - ago * SECOND
        beat = a_heartbeat(
            at, progressed=at, rows_in=rows_in, rows_out=[rows_out, rows_out],
            quarantined={"NO_FIELDS": refused, "MALFORMED": 7}, refused_rows={"NO_FIELDS": refused},
        )  # fmt: skip
        observed = watch.hear(observed, beat, at)

    assert looked(a_dagger(), observed)[QUARANTINE] == Finding(
        True,
        "12 rows were refused by sinks in 1 min, 17.6% of those to be written: NO_FIELDS",
        NOON - 31 * SECOND,
        measure=Measure(12 / 68, 0.01, "share"),
        advice=ADVICE[REFUSED],
    )


def test_an_alert_about_refused_rows_does_not_begin_with_a_few_records_that_were_set_aside() -> None:
    observed = watch.begin(NOON - 60 * MINUTE, 3)
    for ago, malformed, refused in ((61, 0, 0), (31, 4, 0), (11, 4, 5), (1, 4, 30)):
        at = NOON - ago * SECOND
        beat = a_heartbeat(
            at, progressed=at, rows_in=100_000 - ago, rows_out=[70],
            quarantined={"NO_FIELDS": refused, "MALFORMED": malformed}, refused_rows={"NO_FIELDS": refused},
        )  # fmt: skip
        observed = watch.hear(observed, beat, at)

    finding = looked(a_dagger(), observed)[QUARANTINE]

    assert finding.since == NOON - 11 * SECOND
    assert finding.summary == (
        "30 rows were refused by sinks in 1 min, 100.0% of those to be written: NO_FIELDS"
    )


def test_only_reasons_of_the_last_minutes_are_named() -> None:
    observed = watch.begin(NOON - 60 * MINUTE, 3)
    for ago, aside in ((60, {"MALFORMED": 900}), (1, {"MALFORMED": 900, "NO_EVENT_TIME": 40})):
        at = NOON - ago * SECOND
        observed = watch.hear(
            observed, a_heartbeat(at, progressed=at, rows_in=60 - ago, quarantined=aside), at
        )

    assert summary(a_dagger(), observed, "QUARANTINE_RATE").endswith(", 40.4%: NO_EVENT_TIME")


@pytest.mark.parametrize(("rows_in", "quarantined"), [(990, 10), (10, 9)])
def test_a_share_at_the_limit_or_few_records_are_not(rows_in: int, quarantined: int) -> None:
    assert found(a_dagger(), counted((60, 0, 0), (1, rows_in, quarantined)))["QUARANTINE_RATE"] is False


def test_what_was_set_aside_before_the_monitor_looked_is_not_counted() -> None:
    assert found(a_dagger(), counted((60, 1_000, 900), (1, 2_000, 905)))["QUARANTINE_RATE"] is False


def test_what_was_set_aside_before_the_window_is_not_counted() -> None:
    observed = counted((600, 0, 0), (500, 1_000, 900), (200, 2_000, 900), (1, 3_000, 900))

    assert found(a_dagger(), observed)["QUARANTINE_RATE"] is False


def test_a_new_launch_counts_from_zero() -> None:
    observed = counted((600, 5_000, 0))
    observed = watch.launch(replace(observed, generation=2), 3, NOON - 30 * SECOND)
    beat = a_heartbeat(NOON - SECOND, progressed=NOON, rows_in=100, quarantined={"MALFORMED": 50})
    observed = watch.hear(observed, beat, NOON - SECOND)

    assert found(a_dagger(), observed)["QUARANTINE_RATE"]


# ---- Sinks that have a log ---------------------------------------------------------------------------------


@pytest.mark.parametrize("paused", [False, True])
def test_rows_that_wait_in_the_log_of_a_sink_for_too_long_are_an_alert_unless_it_is_paused(
    paused: bool,
) -> None:
    spool = telemetry_pb2.Spool(rows=1_234, paused=paused)
    spool.since.FromDatetime(NOON - 6 * MINUTE + SKEW)
    spool.error.CopyFrom(events_pb2.DaggerError(reason="NOT_REACHED", detail="nobody listens"))
    observed = watched((NOON - 2 * SECOND, NOON - 3 * SECOND), spools={"influx": spool})

    finding = looked(a_dagger(), observed)[alerts_pb2.ALERT_CONDITION_SINK_BEHIND]
    assert finding.active is not paused
    if not paused:
        assert finding.summary == (
            "influx is 5 min 58 s behind, 1,234 rows wait in its log: NOT_REACHED: nobody listens"
        )


# ---- What a driver says of itself --------------------------------------------------------------------------


@pytest.mark.parametrize("measured", [True, False], ids=["", "an older driver"])
@pytest.mark.parametrize(
    "code",
    [
        "LATE_ROWS",
        "NO_OUTPUT",
        "PARTITION_BEHIND",
        "RECORDS_EXPIRED",
        "FRESHNESS_MISSED",
        "WAITING_FOR_EXECUTORS",
    ],
)
def test_what_a_driver_warns_of_is_an_alert_in_its_words_since_it_first_said_so(
    code: str, measured: bool
) -> None:
    observed = watch.begin(NOON - 60 * MINUTE, 3)
    for ago, late in ((40, 1), (30, 0), (20, 2), (10, 3), (5, 4)):
        at = NOON - ago * SECOND
        warnings = ["TOPIC_JOINED a: from here", f"{code}: {late} of 9"] if late else []
        beat = a_heartbeat(at, progressed=at, warnings=warnings)
        if measured and late:
            beat.measures[code].CopyFrom(telemetry_pb2.Measure(value=late / 8, limit=0.01, unit="share"))
        observed = watch.hear(observed, beat, at)
    condition = alerts_pb2.AlertCondition.Value(f"ALERT_CONDITION_{code}")
    finding = diagnose(a_dagger(DEGRADED), observed, now=NOON, hearing=NOON, limits=LIMITS)[condition]

    measure = Measure(0.5, 0.01, "share") if measured else None

    assert finding == Finding(True, "4 of 9", NOON - 20 * SECOND, measure=measure)


# ---- The watch ---------------------------------------------------------------------------------------------


def test_an_older_launch_is_not_listened_to() -> None:
    observed = watch.launch(HEALTHY, 4, NOON)
    late = a_heartbeat(NOON + SECOND, progressed=NOON)

    assert watch.hear(observed, late, NOON + SECOND) == observed


def test_a_heartbeat_twice_is_one() -> None:
    beat = a_heartbeat(NOON - SECOND, progressed=NOON)
    once = watch.hear(watched(), beat, NOON)

    assert watch.hear(once, beat, NOON + SECOND) == once


def test_a_heartbeat_that_came_late_is_passed_over_and_a_clock_that_was_set_back_is_followed() -> None:
    newest = watch.hear(watched(), a_heartbeat(NOON, progressed=NOON), NOON)
    late = a_heartbeat(NOON - 59 * SECOND, progressed=NOON)
    set_back = a_heartbeat(NOON - 3600 * SECOND, progressed=NOON - 3600 * SECOND)
    after = NOON + 5 * SECOND

    assert watch.hear(newest, late, after) == newest
    assert watch.hear(newest, set_back, after).heard_at == after


def test_the_samples_of_a_long_watch_stay_few() -> None:
    observed = counted(*((5 * n, 0, 0) for n in range(500, 0, -1)))

    assert len(observed.samples) == 61


@pytest.mark.parametrize(
    ("ago", "url"), [(14, None), (16, "http://worker-1:4040"), (1_000, "http://worker-1:4040")]
)
def test_a_driver_is_asked_only_when_it_has_been_silent(ago: int, url: str | None) -> None:
    observed = watched((NOON - ago * SECOND, NOON - ago * SECOND))

    assert to_probe(a_dagger(), observed, now=NOON, hearing=NOON - 60 * MINUTE, limits=LIMITS) == url


@for_all(
    st.sampled_from(PHASES),
    st.lists(st.tuples(st.integers(-4_000, 0), st.none() | st.integers(-4_000, 100)), max_size=5),
    st.none() | st.booleans(),
    st.none() | st.integers(-4_000, 0),
)
def test_anything_can_be_judged(phase: Any, beats: Any, answers: bool | None, hearing: int | None) -> None:
    observed = watched(
        *((NOON + at * SECOND, None if p is None else NOON + p * SECOND) for at, p in sorted(beats, key=str))
    )
    observed = observed if answers is None else watch.probe(observed, answers=answers)
    since = None if hearing is None else NOON + hearing * SECOND
    findings = diagnose(a_dagger(phase), observed, now=NOON, hearing=since, limits=LIMITS)

    assert all(
        isinstance(finding, Finding) and finding.summary and finding.since <= NOON
        for finding in findings.values()
    )


def test_a_stall_is_measured_beside_its_limit_and_names_who_has_to_act() -> None:
    error = events_pb2.DaggerError(domain=events_pb2.ERROR_DOMAIN_EXTERNAL, reason="SINK_DOWN")
    at = NOON - SECOND
    observed = watched((at, NOON - 10 * MINUTE), retrying=[error])

    finding = looked(a_dagger(), observed)[STALL]

    assert finding.advice is not None
    assert (finding.measure, finding.advice.domain) == (
        Measure(600.0, 120.0, "s"),
        events_pb2.ERROR_DOMAIN_EXTERNAL,
    )
