"""A silence that is about to end is announced once to each receiver of what it holds back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from daggers.v1 import alerts_pb2
from google.protobuf.message import Message

from eventlog import Draft, read_record
from fleet.alerts.alert import PLATFORM, Notify
from fleet.alerts.ledger import Ledger
from fleet.alerts.routing.matching import parse_matcher
from fleet.alerts.routing.silences import Silence, build_message

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
END = NOON + 60 * MINUTE
SOON = END - 15 * MINUTE
STALL = alerts_pb2.ALERT_CONDITION_NO_PROGRESS
SLACK, PAGERDUTY = "pricing/slack", "pricing/pagerduty"


class SilenceStory:
    """A log of alerts, and its fold."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.append(NOON, alerts_pb2.MonitorStarted(monitor_id="one"))

    def append(self, time: datetime, message: Message) -> bool:
        sequence = self.ledger.sequence + 1
        draft = Draft(f"id-{sequence}", "/test", "s", time, message)
        return self.ledger.apply(read_record(sequence, draft.headers(), message.SerializeToString()))

    def silence(self, matcher: str = "dagger=b*", begin: datetime = NOON, end: datetime = END) -> None:
        id_ = f"pricing/{self.ledger.sequence}"
        own = Silence(
            id=id_, matchers=(parse_matcher(matcher),), begin=begin, end=end, author="ada", reason="disk"
        )
        self.append(NOON, alerts_pb2.SilenceCreated(silence=build_message(own)))

    def fire(self, dagger: str, condition: int = STALL, **destination: Any) -> None:
        meta = alerts_pb2.AlertMeta(dagger=dagger, condition=condition, incident=1)  # type: ignore[arg-type]
        fired = alerts_pb2.AlertFired(meta=meta, receivers=[SLACK, PAGERDUTY])
        if destination:
            route = fired.destinations.add(receivers=[SLACK], **destination)
            route.group_interval.FromSeconds(10)
        self.append(NOON + SECOND, fired)

    def resolve(self, dagger: str) -> None:
        meta = alerts_pb2.AlertMeta(dagger=dagger, condition=STALL, incident=1)
        self.append(NOON + 2 * SECOND, alerts_pb2.AlertResolved(meta=meta))

    def find(self, now: datetime, receiver: str = SLACK) -> Notify | None:
        notify = self.ledger.next_notification(receiver, pace=SECOND, now=now)
        assert notify is None or receiver in self.ledger.list_receivers(now)
        return notify

    def fail(self, now: datetime, attempt: int, not_before: datetime, *, throttled: bool = False) -> bool:
        event = alerts_pb2.SilenceNotificationFailed(notice=_notice(attempt), throttled=throttled)
        event.not_before.FromDatetime(not_before)
        return self.append(now, event)


def _notice(attempt: int = 1, silence: str = "pricing/0") -> alerts_pb2.SilenceNotice:
    return alerts_pb2.SilenceNotice(silence_id=silence, receiver=SLACK, attempt=attempt)


def _build_sent(attempt: int = 1) -> alerts_pb2.SilenceNotificationSent:
    return alerts_pb2.SilenceNotificationSent(notice=_notice(attempt))


def _list_daggers(notify: Notify | None) -> list[str] | None:
    return None if notify is None or notify.ending is None else [one.dagger for one in notify.ending.alerts]


def test_it_is_announced_a_quarter_of_an_hour_before_with_what_it_holds_back() -> None:
    story = SilenceStory()
    story.silence()
    story.fire("bookings")
    story.fire("baskets")
    story.fire("buses")
    story.resolve("buses")

    assert story.find(SOON - SECOND) is None
    assert _list_daggers(story.find(SOON)) == ["bookings", "baskets"]
    assert _list_daggers(story.find(END - SECOND)) == ["bookings", "baskets"]


def test_it_is_announced_once_whoever_leads() -> None:
    story = SilenceStory()
    story.silence()
    story.fire("bookings")

    assert story.append(SOON, _build_sent())
    assert not story.append(SOON, _build_sent())
    assert story.find(SOON + MINUTE) is None
    story.append(SOON + MINUTE, alerts_pb2.MonitorStarted(monitor_id="two"))
    assert story.find(SOON + 2 * MINUTE) is None


def test_a_word_of_a_monitor_that_was_replaced_does_not_count() -> None:
    story = SilenceStory()
    story.silence()
    story.fire("bookings")
    story.append(SOON, alerts_pb2.MonitorStarted(monitor_id="two"))

    assert not story.append(SOON, _build_sent())
    assert _list_daggers(story.find(SOON)) == ["bookings"]


def test_an_attempt_that_failed_is_made_again_when_it_may_be() -> None:
    story = SilenceStory()
    story.silence()
    story.fire("bookings")
    story.fail(SOON, 1, SOON + 30 * SECOND, throttled=True)
    again = story.ledger.next_notification(SLACK, pace=SECOND, now=SOON + 30 * SECOND)

    assert story.find(SOON + 29 * SECOND) is None
    assert again is not None
    assert again.attempt == 2
    assert story.append(SOON + 31 * SECOND, _build_sent(2))
    assert story.find(SOON + MINUTE) is None


def test_an_attempt_that_is_given_up_is_the_last() -> None:
    story = SilenceStory()
    story.silence()
    story.fire("bookings")
    story.append(SOON, alerts_pb2.SilenceNotificationFailed(notice=_notice()))

    assert story.find(SOON + MINUTE) is None


def test_pagerduty_is_not_told_what_is_no_incident() -> None:
    story = SilenceStory()
    story.silence()
    story.fire("bookings")

    assert story.find(SOON, PAGERDUTY) is None


def test_a_short_silence_and_one_that_holds_nothing_back_are_not_announced() -> None:
    story = SilenceStory()
    story.silence(begin=SOON)
    story.silence("dagger=orders")
    story.fire("bookings")

    assert story.find(SOON) is None


def test_what_another_silence_or_a_cause_goes_on_to_hold_back_is_nobodys_news() -> None:
    story = SilenceStory()
    story.silence()
    story.silence("dagger=bookings", begin=END, end=END + 60 * MINUTE)
    story.fire("bookings")
    assert story.find(SOON) is None

    story.fire("baskets")
    assert _list_daggers(story.find(SOON)) == ["baskets"]

    story.silence(f"dagger={PLATFORM}", end=END + 60 * MINUTE)
    story.fire(PLATFORM, alerts_pb2.ALERT_CONDITION_KAFKA_AWAY)
    assert story.find(SOON) is None


def test_routes_with_times_of_a_week_are_told_within_them() -> None:
    story = SilenceStory()
    story.silence()
    story.fire("bookings", windows=["00:00-12:50 UTC"])

    assert _list_daggers(story.find(SOON)) == ["bookings"]
    assert story.find(NOON + 50 * MINUTE) is None


def test_alerts_come_before_announcements() -> None:
    story = SilenceStory()
    story.silence()
    story.fire("bookings")
    story.fire("orders")

    notify = story.find(SOON)
    assert notify is not None
    assert (notify.alert.dagger, notify.ending) == ("orders", None)
