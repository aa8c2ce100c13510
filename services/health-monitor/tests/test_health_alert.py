"""The decider: given what was recorded, when something is found or tried, then this is written or told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from daggers.v1 import alerts_pb2, events_pb2, spec_pb2
from hypothesis import given as for_all
from hypothesis import strategies as st

from eventlog.testing import given as control_records
from fleet import Dagger, Fleet
from fleet.alerts.alert import Alert, Event, Notify, evolve, next_notification
from fleet.conditions.finding import Finding, Measure
from fleet.health.advice import Advice
from health_monitor.alerts.alert import HeldFinding, Policy, conclude, decide, hold
from health_monitor.receivers import Permanent, Success, Temporary

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
POLICY = Policy(hold=10 * SECOND, resolve_hold=30 * SECOND)
FAILED = alerts_pb2.ALERT_CONDITION_FAILED
AILING = Finding(True, "it was given up", NOON)
WELL = Finding(False, "it runs again", NOON)
NOBODY = Alert(dagger="bookings", condition=FAILED)
BOTH = ("slack", "pagerduty")


def a_dagger() -> Dagger:
    fleet = Fleet()
    asked = events_pb2.DaggerRequested(name="bookings", spec=spec_pb2.DaggerSpec(team="pricing"))
    for record in control_records(asked):
        fleet.apply(record)
    return fleet.daggers["bookings"]


DAGGER = a_dagger()


def meta(incident: int = 1) -> alerts_pb2.AlertMeta:
    return alerts_pb2.AlertMeta(dagger="bookings", condition=FAILED, incident=incident)


def fired(incident: int = 1, receivers: Sequence[str] = ("slack",)) -> alerts_pb2.AlertFired:
    return alerts_pb2.AlertFired(
        meta=meta(incident), dedup_key="daggers/bookings/failed", receivers=receivers
    )


def resolved(incident: int = 1) -> alerts_pb2.AlertResolved:
    event = alerts_pb2.AlertResolved(meta=meta(incident), summary="it runs again")
    event.until.FromDatetime(NOON)
    return event


def sent(notice: str = "FIRED", incident: int = 1, attempt: int = 1) -> alerts_pb2.NotificationSent:
    value = alerts_pb2.AlertNotice.Value(f"ALERT_NOTICE_{notice}")
    return alerts_pb2.NotificationSent(meta=meta(incident), notice=value, receiver="slack", attempt=attempt)


def failed(attempt: int = 1, not_before: datetime | None = None) -> alerts_pb2.NotificationFailed:
    event = alerts_pb2.NotificationFailed(
        meta=meta(), notice=alerts_pb2.ALERT_NOTICE_FIRED, receiver="slack", attempt=attempt
    )
    if not_before is not None:
        event.not_before.FromDatetime(not_before)
    return event


def given(*events: Event) -> Alert:
    """The alert after these events, a second apart from NOON on."""
    alert = NOBODY
    for number, event in enumerate(events):
        alert = evolve(alert, event, NOON + number * SECOND)
    return alert


def when(alert: Alert, finding: Finding | None, held_for: timedelta) -> Any:
    """What is decided when a finding has held for so long."""
    held = HeldFinding(finding, NOON - held_for, finding.since) if finding else None
    return decide(alert, held, dagger=DAGGER, receivers=BOTH, now=NOON, policy=POLICY)


# ---- decide ------------------------------------------------------------------------------------------------


def test_a_condition_that_has_held_fires() -> None:
    event = when(NOBODY, AILING, 10 * SECOND)

    expected = alerts_pb2.AlertFired(
        meta=meta(),
        dedup_key="daggers/bookings/failed",
        severity=alerts_pb2.ALERT_SEVERITY_CRITICAL,
        summary="it was given up",
        team="pricing",
        receivers=BOTH,
        next="Read `daggers get bookings`: it names the error, and whose it is.",
    )
    expected.since.FromDatetime(NOON)
    assert event == expected


def test_an_alert_says_what_was_measured_its_limit_and_who_has_to_act() -> None:
    domain = events_pb2.ERROR_DOMAIN_EXTERNAL
    whose = Advice("sink", domain, "Repair {name}.")
    finding = Finding(True, "it stalls", NOON, measure=Measure(600.0, 120.0, "s"), advice=whose)

    event = when(NOBODY, finding, 10 * SECOND)

    assert (event.value, event.limit, event.unit) == (600.0, 120.0, "s")
    assert (event.domain, event.next) == (domain, "Repair bookings.")


def test_a_condition_that_has_not_held_long_enough_does_not_fire() -> None:
    assert when(NOBODY, AILING, 9.9 * SECOND) is None


def test_a_condition_that_fired_does_not_fire_again() -> None:
    assert when(given(fired()), AILING, timedelta(hours=1)) is None


def test_a_condition_that_is_gone_for_long_enough_resolves() -> None:
    event = when(given(fired()), WELL, 30 * SECOND)

    assert event == resolved()


def test_a_condition_that_is_gone_for_a_moment_does_not_resolve() -> None:
    assert when(given(fired()), WELL, 29 * SECOND) is None


def test_a_stopped_dagger_resolves_without_a_wait() -> None:
    over = Finding(False, "it was stopped", NOON, final=True)

    event = when(given(fired()), over, timedelta())

    expected = resolved()
    expected.summary = "it was stopped"
    assert event == expected


def test_without_evidence_nothing_is_decided() -> None:
    assert [when(alert, None, timedelta(hours=1)) for alert in (NOBODY, given(fired()))] == [None, None]


def test_what_never_fired_is_never_resolved() -> None:
    assert when(NOBODY, WELL, timedelta(hours=1)) is None


def test_the_second_incident_has_the_next_number_and_the_same_dedup_key() -> None:
    event = when(given(fired(), resolved()), AILING, 10 * SECOND)

    assert (event.meta.incident, event.dedup_key) == (2, fired().dedup_key)


def test_a_summary_without_end_is_cut() -> None:
    event = when(NOBODY, Finding(True, "x" * 10_000, NOON), 10 * SECOND)

    assert (len(event.summary), event.summary[-1]) == (500, "…")


def test_the_dedup_key_of_the_longest_name_fits_pagerduty() -> None:
    event = decide(
        Alert(dagger="b" * 63, condition=alerts_pb2.ALERT_CONDITION_QUARANTINE_RATE),
        HeldFinding(AILING, NOON - 10 * SECOND, NOON),
        dagger=DAGGER,
        receivers=BOTH,
        now=NOON,
        policy=POLICY,
    )

    assert event is not None
    assert len(event.dedup_key) <= 255


def test_a_hold_begins_anew_when_the_finding_changes_or_is_missing() -> None:
    looks = [AILING, AILING, WELL, AILING, None, AILING, AILING]
    held, since = None, []
    for number, finding in enumerate(looks):
        held = hold(held, finding, NOON + number * SECOND)
        since.append(None if held is None else (held.since - NOON) // SECOND)

    assert since == [0, 0, 2, 3, None, 5, 5]


def test_an_incident_lasts_from_when_the_condition_began_until_it_was_over_whenever_that_was_noticed() -> (
    None
):
    """A stall from 12:00:00 to 12:02:43: it fires after two minutes, and resolves half a minute late."""
    alert, held = NOBODY, None
    for second in range(121, 300):
        now = NOON + second * SECOND
        progress = NOON + max(second - 2, 163) * SECOND
        finding = Finding(True, "no progress", NOON) if second < 165 else Finding(False, "progress", progress)
        held = hold(held, finding, now)
        event = decide(alert, held, dagger=DAGGER, receivers=BOTH, now=now, policy=POLICY)
        alert = alert if event is None else evolve(alert, event, now)

    assert (alert.fired_at, alert.resolved_at) == (NOON + 131 * SECOND, NOON + 195 * SECOND)
    assert alert.lasted == timedelta(minutes=2, seconds=43)


def test_a_resolution_from_before_it_said_when_it_was_over_lasted_until_it_was_written() -> None:
    began, over = fired(), resolved()
    began.since.FromDatetime(NOON - MINUTE)
    over.ClearField("until")

    assert given(began, over).lasted == MINUTE + SECOND


# ---- next_notification -------------------------------------------------------------------------------------


def due(alert: Alert, receiver: str = "slack", now: datetime = NOON) -> tuple[int, int] | None:
    """Which notice is due and as which attempt."""
    notify = next_notification(alert, receiver, now=now)
    return notify and (notify.alert.notice, notify.attempt)


def test_what_fired_is_told_to_those_it_names_and_to_nobody_else() -> None:
    alert = given(fired(receivers=["slack"]))

    assert (due(alert), due(alert, "pagerduty")) == ((alerts_pb2.ALERT_NOTICE_FIRED, 1), None)


def test_what_was_sent_is_not_told_again() -> None:
    assert due(given(fired(), sent())) is None


def test_the_resolution_is_told_after_what_fired_was_sent() -> None:
    assert due(given(fired(), sent(), resolved())) == (alerts_pb2.ALERT_NOTICE_RESOLVED, 1)


def test_the_resolution_replaces_what_was_never_delivered() -> None:
    """It may have been: a crash after the POST leaves no record, and no incident may stay open for ever."""
    assert due(given(fired(), resolved())) == (alerts_pb2.ALERT_NOTICE_RESOLVED, 1)


def test_a_failed_attempt_is_made_again_when_its_time_comes() -> None:
    later = NOON + timedelta(minutes=1)
    alert = given(fired(), failed(not_before=later))

    assert (due(alert, now=later - SECOND), due(alert, now=later)) == (
        None,
        (alerts_pb2.ALERT_NOTICE_FIRED, 2),
    )


def test_what_was_given_up_is_not_told_again() -> None:
    assert due(given(fired(), failed()), now=NOON + timedelta(days=1)) is None


def test_the_next_incident_is_told_although_the_last_was_given_up() -> None:
    alert = given(fired(), failed(), resolved(), fired(incident=2))

    assert due(alert) == (alerts_pb2.ALERT_NOTICE_FIRED, 1)


# ---- conclude ----------------------------------------------------------------------------------------------


def attempt(number: int = 1, outcome: Any = None, now: datetime = NOON) -> Any:
    outcome = outcome or Temporary("RECEIVER_ERROR", "it answered 500")
    return conclude(Notify(given(fired()), "slack", number), outcome, now=now, policy=POLICY)


def test_what_was_taken_is_recorded_as_sent() -> None:
    assert attempt(3, Success()) == sent(attempt=3)


def test_what_is_refused_for_good_is_given_up_at_once() -> None:
    event = attempt(1, Permanent("REFUSED", "it answered 400"))

    assert (event.reason, event.HasField("not_before")) == ("REFUSED", False)


def test_waits_grow_and_end_at_the_longest() -> None:
    waits = [attempt(number).not_before.ToDatetime(tzinfo=UTC) - NOON for number in range(1, 15)]

    assert SECOND <= waits[0] <= 2 * SECOND
    assert waits[5] > 10 * waits[0]
    assert POLICY.longest_delay / 2 <= waits[-1] <= POLICY.longest_delay


def test_the_receivers_own_wait_is_obeyed_and_holds_for_everything() -> None:
    event = attempt(1, Temporary("THROTTLED", "it answered 429", 90 * SECOND, throttled=True))

    assert (event.not_before.ToDatetime(tzinfo=UTC), event.throttled) == (NOON + 90 * SECOND, True)


def test_after_a_day_it_is_given_up() -> None:
    event = attempt(100, now=NOON + POLICY.give_up)

    assert not event.HasField("not_before")


def test_what_a_silence_held_back_for_days_is_tried_again_from_its_end_on() -> None:
    released_at = NOON + 3 * POLICY.give_up
    notify = Notify(given(fired()), "slack", 1, released_at=released_at)
    failure = Temporary("RECEIVER_ERROR", "it answered 500")

    event = conclude(notify, failure, now=released_at, policy=POLICY)

    assert isinstance(event, alerts_pb2.NotificationFailed)
    assert event.HasField("not_before")


# ---- evolve: anything twice --------------------------------------------------------------------------------


@st.composite
def lives(draw: st.DrawFn) -> list[Event]:
    """What a monitor may write in some run: decided and concluded, never invented."""
    alert, events, now = NOBODY, [], NOON
    for _ in range(draw(st.integers(1, 12))):
        now += timedelta(minutes=draw(st.integers(1, 30)))
        notify = next_notification(alert, "slack", now=now)
        event: Any
        if notify is not None and draw(st.booleans()):
            outcome = draw(
                st.sampled_from(
                    [Success(), Temporary("T", "t"), Permanent("P", "p"), Temporary("T", "t", SECOND)]
                )
            )
            event = conclude(notify, outcome, now=now, policy=POLICY)
        else:
            held = HeldFinding(WELL if alert.firing else AILING, NOON - timedelta(hours=1), NOON)
            event = decide(alert, held, dagger=DAGGER, receivers=BOTH, now=now, policy=POLICY)
        events.append(event)
        alert = evolve(alert, event, now)
    return events


@for_all(lives(), st.data())
def test_any_record_twice_is_once(events: list[Event], data: st.DataObject) -> None:
    again = list(events)
    for _ in range(data.draw(st.integers(1, 4))):
        first = data.draw(st.integers(0, len(events) - 1))
        place = data.draw(
            st.integers(next(n for n, e in enumerate(again) if e is events[first]) + 1, len(again))
        )
        again.insert(place, type(events[first]).FromString(events[first].SerializeToString()))

    def fold(records: list[Event]) -> Alert:
        alert = NOBODY
        for record in records:
            alert = evolve(alert, record, NOON)
        return alert

    assert fold(again) == fold(events)


@for_all(lives())
def test_a_restart_at_any_point_owes_nothing_that_was_recorded_as_sent(events: list[Event]) -> None:
    far = NOON + timedelta(days=365)
    told: set[tuple[int, int]] = set()
    notified_again = []
    for upto in range(len(events)):
        event = events[upto]
        if isinstance(event, alerts_pb2.NotificationSent):
            told.add((event.meta.incident, event.notice))
        notify = next_notification(given(*events[: upto + 1]), "slack", now=far)
        if notify is not None and (notify.alert.incident, notify.alert.notice) in told:
            notified_again.append(notify)

    assert notified_again == []
