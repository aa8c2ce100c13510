"""What a dagger does now: numbers of its heartbeats, and warnings that say whose they are and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2, telemetry_pb2, vitals_pb2

from fleet import Dagger
from fleet.fold.dagger import Revision
from fleet.fold.phases import (
    BACKING_OFF,
    DEGRADED,
    FAILED,
    PENDING,
    RUNNING,
    STARTING,
    STOPPED,
    UNREACHABLE,
)
from fleet.health import vitals, watch
from fleet.health.advice import ADVICE
from fleet.health.degradation import SHOWN, Reason, degradation_reasons
from fleet.health.watch import Watch

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
SKEW = timedelta(hours=3)
EXTERNAL = events_pb2.ERROR_DOMAIN_EXTERNAL
USER = events_pb2.ERROR_DOMAIN_USER
AWAY = events_pb2.DaggerError(
    domain=EXTERNAL,
    reason="SINK_UNAVAILABLE",
    detail="influx: InfluxDB at http://db:8086 does not answer (NewConnectionError).",
    retryable=True,
)


def a_dagger(phase: gateway_pb2.Phase.ValueType = RUNNING, **changes: Any) -> Dagger:
    whole: dict[str, Any] = {
        "version": 1,
        "desired": gateway_pb2.DESIRED_RUNNING,
        "driver": events_pb2.DriverHandle(host="worker-1"),
        "spec": spec_pb2.DaggerSpec(),
        "ran": True,
        "phase_time": NOON - 10 * MINUTE,
    }
    return Dagger(
        name="bookings", warnings=(), phase=phase, sequence=5, create_sequence=1, generation=3,
        create_time=NOON - 60 * MINUTE, update_time=NOON - 60 * MINUTE, **(whole | changes),
    )  # fmt: skip


def beat(at: datetime, **fields: Any) -> telemetry_pb2.Heartbeat:
    """A heartbeat of a driver that gets on, whose clock is hours off."""
    heartbeat = telemetry_pb2.Heartbeat(
        dagger="bookings", generation=3, state=telemetry_pb2.Heartbeat.STATE_RUNNING, **fields
    )
    heartbeat.time.FromDatetime(at + SKEW)
    heartbeat.last_progress.FromDatetime(at + SKEW - SECOND)
    return heartbeat


def heard(*beats: tuple[int, dict[str, Any]]) -> Watch:
    """A watch that heard heartbeats, each so many seconds before noon."""
    observed = watch.begin(NOON - 60 * MINUTE, 3)
    for ago, fields in beats:
        at = NOON - ago * SECOND
        observed = watch.hear(observed, beat(at, **fields), at)
    return observed


def shown(dagger: Dagger, observed: Watch) -> vitals_pb2.Vitals:
    return vitals.to_proto(dagger, observed, now=NOON, hearing=NOON - 60 * MINUTE)


def warned(dagger: Dagger, observed: Watch) -> list[tuple[str, str, str]]:
    return [(warning.code, warning.object, warning.message) for warning in shown(dagger, observed).warnings]


# ---- Numbers -----------------------------------------------------------------------------------------------


def test_rates_are_those_of_the_last_minute() -> None:
    beats = [(ago, {"rows_in": 10 * (300 - ago) if ago < 100 else 0}) for ago in range(300, -1, -5)]

    assert shown(a_dagger(), heard(*beats)).records_per_s == 10


def test_a_lag_that_no_look_at_kafka_told_is_no_number() -> None:
    never = shown(a_dagger(), heard((1, {"rows_in": 7})))
    known = shown(a_dagger(), heard((1, {"lag": {"a/0": 0}})))

    assert (never.HasField("lag"), known.HasField("lag"), known.lag) == (False, True, 0)


def test_a_lag_of_long_ago_is_no_number_while_kafka_does_not_answer() -> None:
    old = beat(NOON, lag={"a/0": 0})
    old.last_progress.FromDatetime(NOON + SKEW - 10 * MINUTE)
    busy = beat(NOON, lag={"a/0": 5}, running_batch_age_ms=600_000)
    busy.last_progress.CopyFrom(old.last_progress)
    found = [
        shown(a_dagger(), watch.hear(watch.begin(NOON - 60 * MINUTE, 3), each, NOON)) for each in (old, busy)
    ]

    assert [(each.HasField("lag"), each.lag) for each in found] == [(False, 0), (True, 5)]


def test_the_rates_of_a_dagger_that_catches_up_are_not_told_as_its_cost() -> None:
    def cost(lag: Callable[[int], int]) -> float:
        beats = [
            (ago, {"rows_in": 1_000 * (100 - ago), "lag": {"a/0": lag(ago)}}) for ago in range(100, -1, -5)
        ]
        observed = heard(*beats)
        return vitals.cost(a_dagger(), observed, now=NOON, hearing=NOON - 60 * MINUTE).records_per_second

    assert [cost(lambda ago: 900 * ago), cost(lambda _: 90_000), cost(lambda _: 0)] == [0, 1_000, 1_000]


def test_rates_of_a_slow_trigger_are_taken_over_three_of_them() -> None:
    spec = spec_pb2.DaggerSpec(trigger={"seconds": 60})
    beats = [(ago, {"rows_in": 600 * ((300 - ago) // 60)}) for ago in range(300, -1, -5)]

    assert shown(a_dagger(spec=spec), heard(*beats)).records_per_s == 10


def test_rows_are_counted_at_the_sink_that_took_most() -> None:
    found = shown(a_dagger(), heard((60, {"rows_out": [0, 0]}), (0, {"rows_out": [30, 60]})))

    assert (found.rows, found.rows_per_s) == (60, 1)


def test_a_driver_that_was_heard_once_has_counts_and_no_rates() -> None:
    found = shown(a_dagger(), heard((1, {"rows_in": 7, "lag": {"a/0": 2, "a/1": 3}, "memory_bytes": 9})))

    assert (found.records, found.lag, found.memory_bytes) == (7, 5, 9)
    assert [name for name in ("records_per_s", "watermark") if found.HasField(name)] == []  # type: ignore[arg-type]


@pytest.mark.parametrize(("phase", "ago"), [(STOPPED, 0), (RUNNING, 40)])
def test_a_driver_that_is_gone_or_silent_has_no_rates(phase: Any, ago: int) -> None:
    found = shown(a_dagger(phase), heard((ago + 60, {"rows_in": 0}), (ago, {"rows_in": 9})))

    assert (found.records, found.HasField("records_per_s")) == (9, False)


def test_instants_of_the_driver_are_told_by_the_observers_clock() -> None:
    heartbeat = beat(NOON - 4 * SECOND)
    heartbeat.last_commit.FromDatetime(NOON + SKEW - 9 * SECOND)
    observed = watch.hear(watch.begin(NOON - MINUTE, 3), heartbeat, NOON - 4 * SECOND)

    found = shown(a_dagger(), observed)

    assert found.heard_time.ToDatetime(UTC) == NOON - 4 * SECOND
    assert found.last_commit.ToDatetime(UTC) == NOON - 9 * SECOND
    assert found.last_progress.ToDatetime(UTC) == NOON - 5 * SECOND


def test_what_was_late_and_quarantined_lately_is_told_beside_what_ever_was() -> None:
    before = {"late_rows": 100, "quarantined": {"MALFORMED": 50}}
    after = {"late_rows": 103, "quarantined": {"MALFORMED": 52, "NO_EVENT_TIME": 1}}
    found = shown(a_dagger(), heard((900, {}), (250, before), (0, after)))

    assert (found.late_rows, found.recent_late_rows) == (103, 103)
    found = shown(a_dagger(), heard((900, {}), (400, before), (290, before), (0, after)))
    assert (found.late_rows, found.recent_late_rows) == (103, 3)
    assert (dict(found.quarantined), found.recent_quarantined) == ({"MALFORMED": 52, "NO_EVENT_TIME": 1}, 3)


def test_rows_and_windows_are_two_numbers_of_what_was_late() -> None:
    before = {"late_rows": 100, "late_windows": 400, "late_rows_by_table": {"a": 60, "b": 40}}
    after = {"late_rows": 103, "late_windows": 409, "late_rows_by_table": {"a": 63, "b": 40}}
    found = shown(a_dagger(), heard((900, {}), (400, before), (290, before), (0, after)))
    older = shown(a_dagger(), heard((900, {}), (290, {"late_rows": 1}), (0, {"late_rows": 4})))

    assert (found.late_windows, found.recent_late_windows) == (409, 9)
    assert dict(found.late_rows_by_table) == {"a": 63, "b": 40}
    assert (older.late_rows, older.recent_late_rows, older.HasField("late_windows")) == (4, 4, False)


def test_a_dagger_that_was_never_heard_has_its_name() -> None:
    found = shown(a_dagger(PENDING, driver=None, phase_time=NOON), watch.begin(NOON))

    assert found == vitals_pb2.Vitals(dagger="bookings")


# ---- Warnings ----------------------------------------------------------------------------------------------


def test_every_reason_has_advice() -> None:
    assert {str(reason) for reason in Reason} <= ADVICE.keys()


def test_what_the_check_of_a_query_found_is_the_analysts_and_about_the_query() -> None:
    lint = "HIGH_CARDINALITY_TAG: A time-series store keeps a series for each value of a tag."
    newer = "OF_A_NEWER_DRIVER something else"

    warnings = shown(a_dagger(), heard((5, {}), (0, {"warnings": [lint, newer]}))).warnings

    assert [(each.code, each.object, each.domain) for each in warnings] == [
        ("HIGH_CARDINALITY_TAG", "query", USER),
        ("OF_A_NEWER_DRIVER", "", events_pb2.ERROR_DOMAIN_UNSPECIFIED),
    ]
    assert "`daggers validate FILE` shows the place" in warnings[0].next


def test_every_warning_that_a_driver_makes_has_advice() -> None:
    runtime = Path(__file__).parents[3] / "services" / "runtime" / "src" / "runtime"
    text = "\n".join(
        file.read_text() for room in ("source", "launch", "state") for file in (runtime / room).rglob("*.py")
    )
    codes = set(re.findall(r'f"([A-Z]+(?:_[A-Z]+)+):? ', text)) | {"LARGE_GROUPS"}

    assert {"TOPIC_GONE", "STREAM_UNREACHABLE"} <= codes
    assert codes <= ADVICE.keys()


def test_a_driver_that_runs_again_says_why_the_one_before_it_ended() -> None:
    error = events_pb2.DaggerError(domain=USER, reason="OUT_OF_MEMORY", detail="The heap is full.")
    ended = gateway_pb2.DriverExit(generation=2, error=error)
    ended.time.FromDatetime(NOON - 4 * MINUTE)
    looping = a_dagger(attempt=3, last_exit=ended)

    (warning,) = shown(looping, heard((5, {}), (0, {}))).warnings

    assert (warning.code, warning.domain, warning.object) == ("OUT_OF_MEMORY", USER, "driver")
    assert warning.message == (
        "its driver has ended 3 times, the last time 4 min ago: The heap is full; it runs again"
    )
    assert "--previous" in warning.next
    assert warned(a_dagger(attempt=0, last_exit=ended), heard((5, {}), (0, {}))) == []


def test_a_healthy_dagger_has_no_warning() -> None:
    assert warned(a_dagger(), heard((5, {}), (0, {}))) == []


def test_a_sink_that_does_not_answer_is_named_with_how_long_and_that_nothing_is_lost() -> None:
    observed = heard(
        (130, {}), (125, {"retrying": [AWAY]}), (60, {"retrying": [AWAY]}), (0, {"retrying": [AWAY]})
    )

    (warning,) = shown(a_dagger(), observed).warnings

    assert warning.message == (
        "influx: InfluxDB at http://db:8086 does not answer (NewConnectionError), for 2 min 5 s;"
        " its rows wait, nothing is lost"
    )
    assert (warning.code, warning.object, warning.domain) == ("SINK_UNAVAILABLE", "influx", EXTERNAL)
    assert warning.since.ToDatetime(UTC) == NOON - 125 * SECOND
    assert "goes on by itself" in warning.next


def test_a_sink_that_answers_again_is_away_anew_the_next_time() -> None:
    observed = heard((125, {"retrying": [AWAY]}), (60, {}), (4, {"retrying": [AWAY]}))

    (warning,) = shown(a_dagger(), observed).warnings

    assert warning.since.ToDatetime(UTC) == NOON - 4 * SECOND


def test_a_few_late_records_are_a_warning_before_they_are_an_alert() -> None:
    few = "LATE_RECORDS: 3 of the 9,000 rows of the last 5 min came after a window of theirs was closed."

    found = warned(a_dagger(), heard((0, {"warnings": [few]})))

    assert found == [("LATE_RECORDS", "input", few.partition(": ")[2])]


def test_many_late_records_are_told_once() -> None:
    warnings = ["LATE_RECORDS: many.", "LATE_ROWS: many."]

    assert warned(a_dagger(), heard((0, {"warnings": warnings}))) == [("LATE_ROWS", "input", "many.")]


def test_one_quarantined_record_is_a_warning() -> None:
    observed = heard((60, {}), (30, {}), (0, {"rows_in": 99, "quarantined": {"MALFORMED": 1}}))

    (warning,) = shown(a_dagger(), observed).warnings

    assert warning.message == "1 records were quarantined in 1 min (1.0%): MALFORMED; each is kept, with why"
    assert warning.next == "Read `daggers quarantine list bookings`: it shows each, and why."
    assert warning.since.ToDatetime(UTC) == NOON - 30 * SECOND


def test_rows_that_sinks_refuse_are_the_users_to_look_at() -> None:
    refused = {"quarantined": {"SINK_REFUSED": 2}, "refused_rows": {"SINK_REFUSED": 2}, "rows_out": [198]}

    (warning,) = shown(a_dagger(), heard((60, {}), (0, refused))).warnings

    assert (warning.domain, warning.message[:27]) == (USER, "2 rows were refused by sink")


def test_what_was_quarantined_long_ago_is_no_warning() -> None:
    kept = {"quarantined": {"MALFORMED": 5}}

    assert warned(a_dagger(), heard((700, {}), (600, kept), (299, kept), (0, kept))) == []


def test_a_driver_that_is_not_heard_is_named_with_how_long() -> None:
    found = warned(a_dagger(), heard((45, {})))

    assert found == [
        ("NO_HEARTBEAT", "driver", "its driver has sent no heartbeat for 45 s; it may still run")
    ]


def test_a_gateway_that_hears_nothing_at_all_tells_what_it_heard_last() -> None:
    silent = vitals.to_proto(a_dagger(), heard((45, {})), now=NOON, hearing=None)
    away = vitals.to_proto(a_dagger(), heard((45, {"retrying": [AWAY]})), now=NOON, hearing=None)

    assert [each.code for each in (*silent.warnings, *away.warnings)] == ["SINK_UNAVAILABLE"]


def test_a_batch_that_is_stuck_says_how_long_it_runs() -> None:
    running = {"running_batch_age_ms": 90_000, "running_batch_id": 7, "batch_duration_ms": 2_000}
    heartbeat = beat(NOON, **running)
    heartbeat.last_progress.FromDatetime(NOON + SKEW - 90 * SECOND)
    observed = watch.hear(watch.begin(NOON - MINUTE, 3), heartbeat, NOON)

    assert warned(a_dagger(), observed) == [
        ("BATCH_STUCK", "batch", "batch 7 has run for 1 min 30 s so far, the last one took 2 s")
    ]


@pytest.mark.parametrize(
    ("phase", "domain", "text", "next_step"),
    [
        (FAILED, USER, "it was given up: no such column", "Correct the query"),
        (FAILED, EXTERNAL, "it was given up: no such column", "then use `daggers start bookings`."),
        (BACKING_OFF, EXTERNAL, "its driver has ended 3 times: no such column", "launched again by itself"),
        (STARTING, EXTERNAL, "its driver has ended twice: no such column", "launched again by itself"),
        (PENDING, EXTERNAL, "it waits: no such column", "launched as soon"),
    ],
)
def test_why_it_does_not_run_is_said_with_whose_it_is_and_what_to_do(
    phase: Any, domain: Any, text: str, next_step: str
) -> None:
    error = events_pb2.DaggerError(domain=domain, reason="WHY", detail="no such column.")
    dagger = a_dagger(phase, driver=None, last_error=error, attempt=2)

    (warning,) = shown(dagger, watch.begin(NOON - MINUTE)).warnings

    assert (warning.code, warning.message, warning.domain) == ("WHY", text, domain)
    assert next_step in warning.next


@pytest.mark.parametrize("phase", [FAILED, BACKING_OFF])
def test_what_never_ran_is_offered_the_version_that_did(phase: Any) -> None:
    error = events_pb2.DaggerError(domain=USER, reason="WHY", detail="no such column.")
    first, edited = Revision(1, 7), Revision(4, 20)
    ran = {"good_version": 3, "version": 5, "revisions": (first, edited)}
    dagger = a_dagger(phase, driver=None, last_error=error, attempt=2, **ran)

    (offered,) = shown(dagger, watch.begin(NOON - MINUTE)).warnings
    (none,) = shown(replace(dagger, good_version=0), watch.begin(NOON - MINUTE)).warnings
    (of_itself,) = shown(replace(dagger, good_version=4), watch.begin(NOON - MINUTE)).warnings

    assert offered.next.endswith("`daggers rollback bookings --to 3` goes back to what ran.")
    assert "rollback" not in none.next + of_itself.next


def test_a_driver_that_never_ended_is_not_said_to_have_ended_though_its_launch_waited() -> None:
    waited = events_pb2.DaggerError(domain=EXTERNAL, reason="FULL", detail="no room")

    assert warned(a_dagger(STARTING, last_error=waited, phase_time=NOON), watch.begin(NOON)) == []


@pytest.mark.parametrize(("seconds", "count"), [(119, 0), (120, 1)])
def test_that_nobody_launches_it_is_told_after_two_minutes(seconds: int, count: int) -> None:
    dagger = a_dagger(PENDING, driver=None, phase_time=NOON - seconds * SECOND)

    warnings = shown(dagger, watch.begin(NOON)).warnings

    assert [warning.message for warning in warnings] == [
        "no driver has been launched for 2 min; does a scheduler run, or do many of them start at once?"
    ] * count


def test_a_launch_that_waits_for_its_turn_says_so_in_place_of_the_question() -> None:
    pending = a_dagger(phase=PENDING, phase_time=NOON - 3 * MINUTE)
    turn = "host a starts as many daggers as there are cores"
    [warning] = vitals.to_proto(pending, watch.begin(NOON), now=NOON, hearing=None, turn=turn).warnings

    assert (warning.code, warning.object) == ("WAITS_FOR_TURN", "launch")
    assert warning.message == f"it waits for its turn to start, for 3 min: {turn}"


def test_an_overloaded_host_is_named_before_what_it_slows_and_not_where_it_slows_nothing() -> None:
    words = "the host is overloaded: tasks waited for a processor 91 % of the last minute"
    heartbeat = beat(NOON, overload=words)
    gets_on = warned(a_dagger(), watch.hear(watch.begin(NOON - MINUTE, 3), heartbeat, NOON))
    heartbeat.last_progress.FromDatetime(NOON + SKEW - 90 * SECOND)
    observed = watch.hear(watch.begin(NOON - MINUTE, 3), heartbeat, NOON)
    evidence = watch.evidence_of(observed, NOON, None)

    stands = warned(a_dagger(), observed)
    reasons = degradation_reasons(a_dagger(), evidence, phase_age=MINUTE, remote=False, limits=SHOWN)

    assert gets_on == []
    assert [code for code, *_ in stands] == reasons == ["HOST_OVERLOADED", "NO_PROGRESS"]
    assert stands[0] == ("HOST_OVERLOADED", "host", words)


def test_a_sink_that_is_away_is_named_before_the_progress_that_it_holds_back() -> None:
    heartbeat = beat(NOON, retrying=[AWAY])
    heartbeat.last_progress.FromDatetime(NOON + SKEW - 90 * SECOND)

    warnings = warned(a_dagger(), watch.hear(watch.begin(NOON - MINUTE, 3), heartbeat, NOON))

    assert [code for code, *_ in warnings] == ["SINK_UNAVAILABLE", "NO_PROGRESS"]


def test_a_host_that_does_not_answer_is_named() -> None:
    (warning,) = shown(a_dagger(UNREACHABLE), heard((700, {}))).warnings

    assert "on worker-1 answers, for 10 min; it may still run" in warning.message


def test_a_dagger_that_is_degraded_by_the_log_alone_is_judged_by_what_is_heard() -> None:
    assert warned(a_dagger(DEGRADED, reasons=("SINK_RETRYING",)), heard((0, {}))) == []


def test_how_fresh_rows_are_is_shown_as_the_driver_says_it_and_an_older_one_says_nothing() -> None:
    crm = telemetry_pb2.Freshness(rows=9, p50_ms=400, p95_ms=5_900, p99_ms=6_100)
    vitals = shown(a_dagger(), heard((2, {"freshness": {"crm": crm}})))

    assert dict(vitals.freshness) == {"crm": crm}
    assert dict(shown(a_dagger(), heard((2, {}))).freshness) == {}
