"""A page and `daggers get` say the same of one dagger at one moment: whose it is, and what to do next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from daggers.v1 import alerts_pb2, events_pb2, gateway_pb2, spec_pb2, telemetry_pb2, vitals_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given as for_all
from hypothesis import strategies as st

from fleet import Dagger
from fleet.alerts.alert import Alert, Condition
from fleet.conditions.dagger_conditions import OF_DAGGERS, SEVERITIES, diagnose
from fleet.conditions.history import History
from fleet.fold.phases import (
    BACKING_OFF,
    DEGRADED,
    FAILED,
    PENDING,
    RUNNING,
    STARTING,
    UNREACHABLE,
)
from fleet.health import vitals, watch
from fleet.health.advice import ADVICE, advise_condition
from fleet.health.degradation import Limits
from fleet.health.watch import Watch
from health_monitor.alerts.alert import HeldFinding, Policy, decide

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
HEARING = NOON - 60 * MINUTE
USER, EXTERNAL = events_pb2.ERROR_DOMAIN_USER, events_pb2.ERROR_DOMAIN_EXTERNAL
INTERNAL = events_pb2.ERROR_DOMAIN_INTERNAL
UNKNOWN = events_pb2.ERROR_DOMAIN_UNSPECIFIED

FAILURE = alerts_pb2.ALERT_CONDITION_FAILED
SILENCE = alerts_pb2.ALERT_CONDITION_UNREACHABLE
STALL = alerts_pb2.ALERT_CONDITION_NO_PROGRESS
QUARANTINE = alerts_pb2.ALERT_CONDITION_QUARANTINE_RATE
EXECUTORS = alerts_pb2.ALERT_CONDITION_WAITING_FOR_EXECUTORS
EXPIRED = alerts_pb2.ALERT_CONDITION_RECORDS_EXPIRED
LATE = alerts_pb2.ALERT_CONDITION_LATE_ROWS
OUTPUT = alerts_pb2.ALERT_CONDITION_NO_OUTPUT
PARTITION = alerts_pb2.ALERT_CONDITION_PARTITION_BEHIND
STALE = alerts_pb2.ALERT_CONDITION_FRESHNESS_MISSED
INPUT = alerts_pb2.ALERT_CONDITION_NO_INPUT
LAG = alerts_pb2.ALERT_CONDITION_LAG_GROWING
LOOP = alerts_pb2.ALERT_CONDITION_RESTART_LOOP
BEHIND_SINK = alerts_pb2.ALERT_CONDITION_SINK_BEHIND


def a_dagger(phase: gateway_pb2.Phase.ValueType, **changes: Any) -> Dagger:
    whole: dict[str, Any] = {
        "phase_time": NOON - 10 * MINUTE,
        "update_time": HEARING,
        "driver": events_pb2.DriverHandle(host="worker-1"),
    }
    return Dagger(
        name="bookings", spec=spec_pb2.DaggerSpec(), warnings=(), version=1, phase=phase, sequence=3,
        desired=gateway_pb2.DESIRED_RUNNING, create_sequence=1, create_time=HEARING, generation=3,
        **(whole | changes),
    )  # fmt: skip


def an_error(domain: events_pb2.ErrorDomain.ValueType) -> events_pb2.DaggerError:
    return events_pb2.DaggerError(domain=domain, reason="WHY", detail="influx: it does not answer.")


def heard(*beats: tuple[int, dict[str, Any]], progressed: int = 0) -> Watch:
    """Heartbeats, each so many seconds ago; the last progress was so many before each, or ten minutes ago."""
    observed = watch.begin(HEARING, 3)
    for ago, fields in beats:
        at = NOON - ago * SECOND
        beat = telemetry_pb2.Heartbeat(dagger="bookings", generation=3, **fields)
        beat.time.FromDatetime(at)
        beat.last_progress.FromDatetime(min(at, NOON - progressed * SECOND))
        observed = watch.hear(observed, beat, at)
    return observed


def shown(dagger: Dagger, observed: Watch) -> list[vitals_pb2.HealthWarning]:
    """What `daggers get` warns of."""
    return list(vitals.to_proto(dagger, observed, now=NOON, hearing=HEARING).warnings)


LIMITS = Limits(share_time=timedelta(0))


def fired(dagger: Dagger, observed: Watch, condition: Condition, past: History) -> alerts_pb2.AlertFired:
    """The alert of what is found now."""
    found = diagnose(dagger, observed, now=NOON, hearing=HEARING, limits=LIMITS, history=past)
    held = HeldFinding(found[condition], HEARING, HEARING)
    turn = decide(
        Alert(dagger="bookings", condition=condition),
        held,
        dagger=dagger,
        receivers=[],
        now=NOON,
        policy=Policy(),
    )
    assert isinstance(turn, alerts_pb2.AlertFired)
    return turn


GIVEN_UP = {
    whose: a_dagger(FAILED, driver=None, last_error=an_error(whose)) for whose in (USER, EXTERNAL, INTERNAL)
}
AWAY = {"retrying": [an_error(EXTERNAL)]}
WAITS = telemetry_pb2.Spool(
    rows=9, since=Timestamp(seconds=int((NOON - 10 * MINUTE).timestamp())), error=an_error(EXTERNAL)
)
BUSY = {"running_batch_age_ms": 600_000, "running_batch_id": 7, "batch_duration_ms": 2_000}
KEPT = {"rows_in": 100, "quarantined": {"MALFORMED": 50}}
REFUSED = {"rows_out": [100], "quarantined": {"NO": 50}, "refused_rows": {"NO": 50}}
# Input for twenty minutes, then none for as long; and a lag that takes a tenth of what comes.
DRY = heard(*((ago, {"rows_in": 10 * (2400 - max(ago, 1200))}) for ago in range(2400, -1, -5)))
BEHIND = heard(
    *(
        (ago, {"rows_in": 90 * (900 - ago), "lag": {"a/0": 10 * (900 - ago) + 1}})
        for ago in range(900, -1, -5)
    )
)
ENDS = History(ends=(NOON - 9 * MINUTE, NOON - 5 * MINUTE, NOON - MINUTE), error=an_error(USER))
WAITING = a_dagger(PENDING, driver=None, last_error=an_error(EXTERNAL))
ENDED = {"last_error": an_error(USER), "attempt": 2}
MOMENTS: dict[str, tuple[Condition, Dagger, Watch, History, int]] = {
    "given up, the user's": (FAILURE, GIVEN_UP[USER], heard(), History(), USER),
    "given up, outside": (FAILURE, GIVEN_UP[EXTERNAL], heard(), History(), EXTERNAL),
    "given up, ours": (FAILURE, GIVEN_UP[INTERNAL], heard(), History(), INTERNAL),
    "a host away": (SILENCE, a_dagger(UNREACHABLE), heard((700, {})), History(), EXTERNAL),
    "a driver silent": (SILENCE, a_dagger(RUNNING), heard((45, {})), History(), EXTERNAL),
    "no room": (STALL, WAITING, heard(), History(), EXTERNAL),
    "no scheduler": (STALL, a_dagger(PENDING, driver=None), heard(), History(), INTERNAL),
    "backing off": (STALL, a_dagger(BACKING_OFF, driver=None, **ENDED), heard(), History(), USER),
    "ended often": (STALL, a_dagger(STARTING, **ENDED), heard(), History(), USER),
    "a slow start": (STALL, a_dagger(STARTING), heard(), History(), EXTERNAL),
    "a sink away": (STALL, a_dagger(DEGRADED), heard((2, AWAY), progressed=600), History(), EXTERNAL),
    "a batch stuck": (STALL, a_dagger(DEGRADED), heard((2, BUSY), progressed=600), History(), UNKNOWN),
    "a source away": (STALL, a_dagger(DEGRADED), heard((2, {}), progressed=600), History(), EXTERNAL),
    "bad records": (QUARANTINE, a_dagger(RUNNING), heard((60, {}), (1, KEPT)), History(), EXTERNAL),
    "refused rows": (QUARANTINE, a_dagger(RUNNING), heard((60, {}), (1, REFUSED)), History(), USER),
    "late rows": (LATE, a_dagger(DEGRADED), heard((2, {"warnings": ["LATE_ROWS: 9"]})), History(), USER),
    "no output": (OUTPUT, a_dagger(DEGRADED), heard((2, {"warnings": ["NO_OUTPUT: 9"]})), History(), USER),
    "records deleted unread": (
        EXPIRED,
        a_dagger(DEGRADED),
        heard((2, {"warnings": ["RECORDS_EXPIRED: up to 9 records"]})),
        History(),
        EXTERNAL,
    ),
    "a partition behind": (
        PARTITION,
        a_dagger(DEGRADED),
        heard((2, {"warnings": ["PARTITION_BEHIND: 9"]})),
        History(),
        EXTERNAL,
    ),
    "rows that come late to a sink": (
        STALE,
        a_dagger(DEGRADED),
        heard((2, {"warnings": ["FRESHNESS_MISSED: 9"]})),
        History(),
        EXTERNAL,
    ),
    "a sink behind": (
        BEHIND_SINK,
        a_dagger(DEGRADED),
        heard((2, AWAY | {"spools": {"influx": WAITS}})),
        History(),
        EXTERNAL,
    ),
    "no executor": (
        EXECUTORS,
        a_dagger(DEGRADED),
        heard((2, {"warnings": ["WAITING_FOR_EXECUTORS: it waits"]})),
        History(),
        EXTERNAL,
    ),
    "no input": (INPUT, a_dagger(RUNNING), DRY, History(), EXTERNAL),
    "a lag that grows": (LAG, a_dagger(RUNNING), BEHIND, History(), USER),
    "a loop": (LOOP, a_dagger(BACKING_OFF, driver=None, **ENDED), heard(), ENDS, USER),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_page_says_whose_it_is_and_what_is_next_as_daggers_get_does_first(moment: str) -> None:
    condition, dagger, observed, past, whose = MOMENTS[moment]
    if condition == SILENCE and dagger.phase == RUNNING:
        observed = watch.probe(observed, answers=False)

    page, told = fired(dagger, observed, condition, past), shown(dagger, observed)

    assert (page.domain, page.next) == (told[0].domain, told[0].next)
    assert page.domain == whose
    assert "`daggers " in page.next


def test_every_condition_of_a_dagger_has_a_moment() -> None:
    assert {condition for condition, *_ in MOMENTS.values()} == set(OF_DAGGERS)


@pytest.mark.parametrize("condition", sorted(SEVERITIES))
def test_every_condition_is_in_the_one_table(condition: Condition) -> None:
    assert advise_condition(condition) in ADVICE.values()


PHASES = [FAILED, UNREACHABLE, PENDING, STARTING, BACKING_OFF, RUNNING, DEGRADED]


@for_all(
    st.sampled_from(PHASES),
    st.none() | st.sampled_from([USER, EXTERNAL, INTERNAL]),
    st.integers(0, 3),
    st.integers(0, 900),
    st.lists(st.tuples(st.integers(0, 900), st.sampled_from([{}, AWAY, BUSY, KEPT])), max_size=4),
    st.integers(0, 900),
)
def test_a_dagger_that_stands_still_has_one_cause_in_both(
    phase: Any, whose: Any, attempt: int, ago: int, beats: Any, progressed: int
) -> None:
    error = None if whose is None else an_error(whose)
    dagger = a_dagger(phase, last_error=error, attempt=attempt, phase_time=NOON - ago * SECOND)
    observed = heard(*sorted(beats, key=lambda beat: -beat[0]), progressed=progressed)
    told = shown(dagger, observed)
    found = diagnose(dagger, observed, now=NOON, hearing=HEARING, limits=Limits())
    stands = [each for each in (FAILURE, SILENCE, STALL) if each in found and found[each].active]
    pages = [fired(dagger, observed, stand, History()) for stand in stands]

    assert all("`daggers " in page.next for page in pages)
    assert not told or all(page.next in {warning.next for warning in told} for page in pages)
