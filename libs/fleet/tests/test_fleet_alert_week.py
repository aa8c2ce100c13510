"""Alerts remember their incidents of the last week, for whoever asks how often they fired."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from daggers.v1 import alerts_pb2

from fleet.alerts.alert import MOST_PAST, Alert, Span, evolve

NOON = datetime(2026, 6, 8, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FAILED = alerts_pb2.ALERT_CONDITION_FAILED


def fire(alert: Alert, time: datetime) -> Alert:
    fired = alerts_pb2.AlertFired(meta=alert.meta(incident=alert.incident + 1))
    fired.since.FromDatetime(time)
    return evolve(alert, fired, time)


def resolve(alert: Alert, time: datetime) -> Alert:
    resolved = alerts_pb2.AlertResolved(meta=alert.meta())
    resolved.until.FromDatetime(time)
    return evolve(alert, resolved, time)


def test_a_week_has_what_was_open_within_it_from_its_begin_on() -> None:
    alert = Alert(dagger="bookings", condition=FAILED)
    for begin, end in ((9 * DAY, 8 * DAY), (8 * DAY, 6 * DAY), (2 * DAY, 2 * DAY - HOUR)):
        alert = resolve(fire(alert, NOON - begin), NOON - end)
    alert = fire(alert, NOON - HOUR)

    assert alert.list_week(NOON) == [
        Span(NOON - 7 * DAY, NOON - 6 * DAY),
        Span(NOON - 2 * DAY, NOON - 2 * DAY + HOUR),
        Span(NOON - HOUR, NOON),
    ]


def test_an_alert_that_flaps_for_a_week_is_remembered_a_hundred_times() -> None:
    alert = Alert(dagger="bookings", condition=FAILED)
    for number in range(MOST_PAST + 20):
        begin = NOON - 5 * DAY + number * timedelta(minutes=10)
        alert = resolve(fire(alert, begin), begin + timedelta(minutes=1))

    assert len(alert.list_week(NOON)) == MOST_PAST
    assert alert.list_week(NOON + 8 * DAY) == []
