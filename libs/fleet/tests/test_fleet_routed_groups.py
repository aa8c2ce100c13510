"""Alerts that routes lead, in the fold of the alerts topic: groups, repeats, acknowledgement, escalation."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from daggers.v1 import alerts_pb2
from google.protobuf.message import Message

from eventlog import Draft, read_record
from fleet.alerts.alert import PLATFORM, GroupTurn, Notify
from fleet.alerts.ledger import Ledger
from fleet.alerts.routing import grouping
from fleet.alerts.routing.routes import Destination
from fleet.alerts.routing.trees import build_destination

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
FAILED = alerts_pb2.ALERT_CONDITION_FAILED
DESTINATION = Destination(
    revision=3,
    path=(0,),
    receivers=("pricing/slack",),
    group_by=("team",),
    group_wait=10 * SECOND,
    group_interval=60 * SECOND,
    repeat_interval=timedelta(hours=1),
    escalate_after=timedelta(minutes=10),
    escalate_to=("pricing/pagerduty",),
)


class AlertStory:
    """A ledger that is told events at seconds after NOON, and receivers that take what is due."""

    def __init__(self, destination: Destination = DESTINATION) -> None:
        self.ledger = Ledger()
        self.destination = destination
        self.records = list[Any]()
        self.add(0, alerts_pb2.MonitorStarted(monitor_id="one"))

    def add(self, second: float, message: Message) -> bool:
        sequence = self.ledger.sequence + 1
        draft = Draft(f"id-{sequence}", "/test", "s", NOON + second * SECOND, message)
        self.records.append(read_record(sequence, draft.headers(), message.SerializeToString()))
        return self.ledger.apply(self.records[-1])

    def fire(
        self,
        second: float,
        dagger: str,
        incident: int = 1,
        condition: alerts_pb2.AlertCondition.ValueType = FAILED,
    ) -> None:
        meta = alerts_pb2.AlertMeta(dagger=dagger, condition=condition, incident=incident)
        fired = alerts_pb2.AlertFired(
            meta=meta,
            team="pricing",
            receivers=self.destination.receivers,
            destinations=[build_destination(self.destination)],
        )
        self.add(second, fired)

    def resolve(
        self,
        second: float,
        dagger: str,
        incident: int = 1,
        condition: alerts_pb2.AlertCondition.ValueType = FAILED,
    ) -> None:
        meta = alerts_pb2.AlertMeta(dagger=dagger, condition=condition, incident=incident)
        self.add(second, alerts_pb2.AlertResolved(meta=meta, summary="over"))

    def silence(self, begin: float, end: float, dagger: str) -> None:
        silence = alerts_pb2.AlertSilence(
            id=f"s{begin}", matchers=[f"dagger={dagger}"], author="user:ada", reason="deploy"
        )
        silence.begin.FromDatetime(NOON + begin * SECOND)
        silence.end.FromDatetime(NOON + end * SECOND)
        self.add(begin, alerts_pb2.SilenceCreated(silence=silence))

    def acknowledge(self, second: float, *daggers: str, receiver: str = "") -> None:
        metas = [self.ledger.alert(dagger, FAILED).meta() for dagger in daggers]
        event = alerts_pb2.AlertAcknowledged(incidents=metas, actor="user:ada", receiver=receiver)
        self.add(second, event)

    def find(self, second: float, receiver: str = "pricing/slack") -> Notify | None:
        now = NOON + second * SECOND
        return self.ledger.next_notification(receiver, pace=timedelta(0), now=now)

    def find_texts(self, second: float, receiver: str = "pricing/slack") -> tuple[str, str] | None:
        """Daggers that fire, and those that are over, of what is due."""
        due = self.find(second, receiver)
        if due is None:
            return None
        group = get_group(due)
        return tuple(" ".join(alert.dagger for alert in each) for each in (group.firing, group.resolved))  # type: ignore[return-value]

    def take(self, second: float, receiver: str = "pricing/slack") -> tuple[str, str] | None:
        """Take what is due as the receiver."""
        texts, due = self.find_texts(second, receiver), self.find(second, receiver)
        if due is not None:
            notice = get_group(due).build_message(receiver, due.attempt)
            assert self.add(second, alerts_pb2.GroupNotificationSent(notice=notice))
        return texts

    def refuse(self, second: float, *, again: float | None, receiver: str = "pricing/slack") -> None:
        """Refuse what is due as the receiver."""
        due = self.find(second, receiver)
        assert due is not None
        notice = get_group(due).build_message(receiver, due.attempt)
        failed = alerts_pb2.GroupNotificationFailed(notice=notice, reason="TIMEOUT")
        if again is not None:
            failed.not_before.FromDatetime(NOON + again * SECOND)
        assert self.add(second, failed)


def get_group(due: Notify) -> GroupTurn:
    assert due.group is not None
    return due.group


def test_what_routes_lead_is_told_in_groups_after_their_wait_and_once() -> None:
    story = AlertStory()
    story.fire(0, "a")
    story.fire(5, "b")
    early = story.find(9)
    first = story.take(10)
    story.fire(20, "c")

    assert (early, first, story.take(69), story.take(70), story.take(71)) == (
        None, ("a b", ""), None, ("a b c", ""), None,
    )  # fmt: skip
    assert all(story.ledger.alert(name, FAILED).deliveries["pricing/slack"].done for name in "abc")


def test_what_is_over_is_told_to_be_so_to_who_was_told_that_it_began_and_to_nobody_else() -> None:
    story = AlertStory()
    story.fire(0, "a")
    story.fire(1, "b")
    story.resolve(2, "b")
    first = story.take(10)
    story.resolve(20, "a")

    assert (first, story.take(70), story.take(999)) == (("a", ""), ("", "a"), None)
    assert [each.is_done for each in story.ledger.routed.groups.values()] in ([], [True])
    untold = story.ledger.alert("b", FAILED).deliveries["pricing/slack"]
    assert (untold.done, untold.attempts) == (True, 0)  # withheld


def test_records_that_come_twice_and_words_of_another_epoch_change_nothing() -> None:
    story = AlertStory()
    story.fire(0, "a")
    due = story.find(10)
    assert due is not None
    notice = get_group(due).build_message("pricing/slack", 1)
    stale = alerts_pb2.GroupNotificationSent(notice=notice)
    stale.notice.epoch = 7
    sent = alerts_pb2.GroupNotificationSent(notice=notice)
    applied = [story.add(10, stale), story.add(10, sent), story.add(10, sent)]

    again = Ledger()
    for record in story.records:
        again.apply(record)
        again.apply(record)
    assert applied == [False, True, False]
    assert not story.ledger.awaits(sent, NOON)
    assert (again.routed.groups, again.alerts) == (story.ledger.routed.groups, story.ledger.alerts)


def test_a_receiver_that_takes_nothing_is_tried_again_with_what_is_true_then() -> None:
    story = AlertStory()
    story.fire(0, "a")
    story.refuse(10, again=40)
    state = story.ledger.alert("a", FAILED).deliveries["pricing/slack"]
    between = story.find(39)
    story.fire(30, "b")
    second = story.find(40)
    story.refuse(71, again=75)
    third = story.find(75)

    assert (state.done, state.failure and state.failure.reason) == (False, "TIMEOUT")
    assert (between, second and second.attempt, third and third.attempt) == (None, 2, 3)
    assert story.take(75) == ("a b", "")


def test_what_ends_while_nobody_knows_whether_it_was_told_is_told_to_be_over() -> None:
    story = AlertStory()
    story.fire(0, "a")
    story.refuse(10, again=40)  # it may have arrived all the same
    story.resolve(20, "a")

    assert story.take(70) == ("", "a")


def test_what_fires_anew_where_its_end_may_have_been_told_is_told_again() -> None:
    story = AlertStory()
    story.fire(0, "a")
    story.take(10)
    story.resolve(20, "a")
    story.refuse(70, again=80)  # it may have arrived: the receiver may take it for over
    story.fire(75, "a", 2)

    assert story.take(130) == ("a", "")
    assert story.find(190) is None


def test_what_ends_again_after_a_begin_that_may_have_been_told_is_told_to_be_over() -> None:
    story = AlertStory()
    story.fire(0, "a")
    story.fire(0, "b")
    story.take(10)
    story.resolve(20, "a")
    notices = [story.take(70)]
    story.fire(75, "a", 2)
    story.refuse(130, again=140)
    story.resolve(135, "a", 2)
    notices.append(story.take(190))

    assert notices == [("b", "a"), ("b", "a")]


def test_what_may_have_been_told_is_told_to_be_over_after_a_silence_too() -> None:
    story = AlertStory()
    story.fire(0, "a")
    story.fire(0, "b")
    story.refuse(10, again=20)  # both may have arrived
    silence = alerts_pb2.AlertSilence(id="s", matchers=["dagger=a"], author="user:ada", reason="deploy")
    silence.begin.FromDatetime(NOON + 15 * SECOND)
    silence.end.FromDatetime(NOON + 300 * SECOND)
    story.add(15, alerts_pb2.SilenceCreated(silence=silence))
    during = story.take(70)
    story.resolve(80, "a")

    assert during is not None
    assert story.take(130) is None
    assert story.take(310) == ("b", "a")


def test_what_is_given_up_is_tried_again_when_there_is_news_or_at_the_repeat() -> None:
    story = AlertStory()
    story.fire(0, "a")
    story.refuse(10, again=None)
    state = story.ledger.alert("a", FAILED).deliveries["pricing/slack"]

    assert (state.done, state.failure is not None, story.find(70)) == (True, True, None)
    assert story.find_texts(3_610) == ("a", "")
    story.fire(80, "b")
    assert story.take(130) == ("a b", "")


def test_a_notice_is_repeated_unless_all_of_it_is_acknowledged() -> None:
    story = AlertStory()
    story.fire(0, "a")
    story.fire(1, "b")
    story.take(10)
    repeated = story.take(3_610)
    story.acknowledge(3_700, "a")
    one_left = story.take(7_210)
    story.acknowledge(7_300, "b")
    quiet = [story.take(second) for second in (10_810, 14_410)]
    story.resolve(14_500, "a")

    assert (repeated, one_left, quiet) == (("a b", ""), ("a b", ""), [None, None])
    assert story.take(14_530) == ("b", "a")


def test_what_fires_anew_is_nobodys_and_is_reminded_of() -> None:
    story = AlertStory()
    story.fire(0, "a")
    story.take(10)
    story.acknowledge(20, "a")
    story.resolve(30, "a")
    story.fire(40, "a", incident=2)  # between two looks: to the receiver it goes on
    delivery = story.ledger.alert("a", FAILED).deliveries["pricing/slack"]

    assert (story.take(70), delivery.done) == (None, True)
    assert story.take(3_610) == ("a", "")


def is_acknowledgement(due: Notify | None) -> bool:
    return due is not None and get_group(due).acknowledged


def test_a_pager_is_not_told_of_what_was_acknowledged_at_itself_but_of_the_rest() -> None:
    pager = "pricing/pagerduty"
    story = AlertStory(replace(DESTINATION, receivers=(pager,), escalate_to=()))
    story.fire(0, "a")
    story.take(10, pager)
    story.acknowledge(20, "a", receiver=pager)
    own = story.find(70, pager)
    story.fire(80, "b")
    news = story.take(130, pager)
    story.acknowledge(140, "b")

    assert (own, news) == (None, ("a b", ""))
    assert is_acknowledgement(story.find(190, pager))


def test_what_a_receiver_was_told_of_a_group_is_found_by_its_key() -> None:
    story = AlertStory()
    story.fire(0, "a")
    story.fire(1, "b")
    due = story.find(10)
    story.take(10)
    story.resolve(20, "b")
    story.fire(30, "c")
    assert due is not None
    key = get_group(due).dedup_key

    def find(receiver: str, second: float, dedup_key: str = key) -> list[str]:
        instant = NOON + second * SECOND
        alerts = story.ledger.routed.list_announced(dedup_key, receiver, instant)
        return [alert.dagger for alert in alerts]

    assert find("pricing/slack", 40) == ["a"]  # b is over, of c it was not told yet
    assert find("pricing/slack", -1) == []
    assert find("pricing/pagerduty", 40) == []
    assert find("pricing/slack", 40, f"{key}0") == []


def test_what_nobody_acknowledges_is_told_to_the_next() -> None:
    story = AlertStory()
    story.fire(0, "a")
    story.fire(1, "b")
    story.take(10)
    story.acknowledge(60, "b")
    early = story.take(609, "pricing/pagerduty")
    escalated = story.take(610, "pricing/pagerduty")
    story.resolve(620, "a")
    story.resolve(620, "b")

    assert (early, escalated) == (None, ("a", ""))
    assert story.take(670, "pricing/pagerduty") == ("", "a")
    assert story.take(670) == ("", "a b")


def test_a_receiver_that_is_away_does_not_put_the_escalation_off() -> None:
    story = AlertStory()
    story.fire(0, "a")
    story.refuse(10, again=9_999)

    assert story.take(610, "pricing/pagerduty") == ("a", "")


def test_a_silence_holds_back_what_it_matches_of_a_group_until_the_look_after_its_end() -> None:
    story = AlertStory()
    silence = alerts_pb2.AlertSilence(id="s", matchers=["dagger=a"], author="user:ada", reason="deploy")
    silence.begin.FromDatetime(NOON)
    silence.end.FromDatetime(NOON + 100 * SECOND)
    story.add(0, alerts_pb2.SilenceCreated(silence=silence))
    story.fire(0, "a")
    story.fire(1, "b")

    assert [story.take(second) for second in (10, 70, 130)] == [("b", ""), None, ("a b", "")]


def test_a_cause_holds_back_what_follows_until_the_look_after_its_end() -> None:
    story = AlertStory()
    kafka = alerts_pb2.AlertMeta(dagger=PLATFORM, condition=alerts_pb2.ALERT_CONDITION_KAFKA_AWAY, incident=1)
    story.add(0, alerts_pb2.AlertFired(meta=kafka))
    story.fire(1, "a", condition=alerts_pb2.ALERT_CONDITION_UNREACHABLE)
    before = story.take(11)
    story.add(30, alerts_pb2.AlertResolved(meta=kafka, summary="it is back"))

    assert [before, *(story.take(second) for second in (31, 71))] == [None, None, ("a", "")]


def test_only_receivers_that_have_not_heard_of_the_newest_look_are_due() -> None:
    story = AlertStory()
    story.fire(0, "a")

    def list_due(second: int) -> list[str]:
        return story.ledger.routed.list_receivers(NOON + second * SECOND, story.ledger.sequence)

    before, at_look = list_due(9), list_due(10)
    story.take(10)
    story.find(11, "pricing/pagerduty")  # it is not escalated yet

    assert (before, at_look, list_due(11), list_due(70)) == (
        [], [*DESTINATION.receivers, *DESTINATION.escalate_to], [], at_look,
    )  # fmt: skip


def test_a_group_that_is_full_goes_on_in_another() -> None:
    story = AlertStory()
    names = [f"d{number:04}" for number in range(grouping.MOST_MEMBERS + 5)]
    for name in names:
        story.fire(0, name)
    sizes = list[int]()
    while (due := story.find(10)) is not None:
        sizes.append(len(get_group(due).firing))
        story.take(10)

    assert sorted(sizes) == [5, grouping.MOST_MEMBERS]
    assert all(story.ledger.alert(name, FAILED).deliveries["pricing/slack"].done for name in names)


def test_the_gravest_and_oldest_is_named_first_and_the_key_is_the_groups() -> None:
    story = AlertStory()
    story.fire(0, "b")
    story.fire(1, "a")
    due = story.find(10)
    assert due is not None
    group = get_group(due)

    assert (due.alert.dagger, group.team, group.revision, group.path) == ("b", "pricing", 3, (0,))
    assert group.dedup_key.startswith("daggers/team/pricing/group/")


def test_a_destination_that_cannot_be_read_leads_nowhere() -> None:
    story = AlertStory()
    meta = alerts_pb2.AlertMeta(dagger="a", condition=FAILED, incident=1)
    story.add(
        0, alerts_pb2.AlertFired(meta=meta, destinations=[alerts_pb2.AlertDestination(receivers=["x"])])
    )

    assert story.ledger.routed.groups == {}


# ---- Found by simulated nights (tests/nights) --------------------------------------------------------------


def test_an_end_that_one_receiver_has_taken_is_told_once_also_while_another_has_not() -> None:
    story = AlertStory(replace(DESTINATION, receivers=("pricing/slack", "pricing/email")))
    for name in "ab":
        story.fire(0, name)
    notices = [story.take(10), story.take(10, "pricing/email")]
    story.resolve(20, "a")
    notices.append(story.take(70))
    story.refuse(70, again=9_999, receiver="pricing/email")
    story.resolve(80, "b")

    assert [*notices, story.take(130)] == [("a b", ""), ("a b", ""), ("b", "a"), ("", "b")]


def test_what_was_announced_by_attempts_that_failed_is_told_once_its_silence_is_over() -> None:
    story = AlertStory()
    for name in "ab":
        story.fire(0, name)
    story.refuse(10, again=20)
    story.silence(15, 100, "a")
    during = story.take(70)

    assert (during, story.take(130), story.take(190)) == (("b", ""), ("a b", ""), None)


def test_what_fires_anew_by_other_routes_is_not_told_to_be_over_by_the_group_of_before() -> None:
    story = AlertStory()
    story.fire(0, "a")
    notices = [story.take(10)]
    story.silence(15, 100, "a")
    story.resolve(20, "a")
    story.destination = replace(DESTINATION, revision=4)
    story.fire(80, "a", 2)
    notices += [story.take(second) for second in (130, 150, 210)]
    story.resolve(220, "a", 2)
    ends = [due for second in (270, 271, 330) if (due := story.take(second))]

    # each group tells the end of what it has shown as open
    assert (notices, ends) == ([("a", ""), None, ("a", ""), None], [("", "a"), ("", "a")])


def test_a_group_of_before_that_told_nothing_leaves_what_fires_anew_to_the_next() -> None:
    story = AlertStory()
    story.silence(0, 100, "a")
    story.fire(0, "a")
    story.resolve(20, "a")
    story.destination = replace(DESTINATION, revision=4)
    story.fire(80, "a", 2)

    assert [story.take(second) for second in (130, 150, 210)] == [None, ("a", ""), None]
    assert [key.revision for key in story.ledger.routed.groups] == [4]


def test_what_a_cause_held_back_until_its_end_is_told_to_nobody_by_the_look_before() -> None:
    story = AlertStory()
    kafka = alerts_pb2.AlertMeta(dagger=PLATFORM, condition=alerts_pb2.ALERT_CONDITION_KAFKA_AWAY, incident=1)
    story.add(0, alerts_pb2.AlertFired(meta=kafka))
    story.fire(1, "a", condition=alerts_pb2.ALERT_CONDITION_UNREACHABLE)
    before = story.find(12)
    story.resolve(20, "a", condition=alerts_pb2.ALERT_CONDITION_UNREACHABLE)

    assert [before, *(story.find(second) for second in (21, 71))] == [None, None, None]


def test_what_fires_anew_where_its_end_was_not_told_is_escalated_from_then_on() -> None:
    story = AlertStory()
    story.fire(0, "a")
    story.take(10)
    story.silence(15, 100, "a")
    story.resolve(20, "a")
    story.fire(90, "a", 2)
    early = story.take(670, "pricing/pagerduty")

    assert (early, story.take(730, "pricing/pagerduty")) == (None, ("a", ""))
