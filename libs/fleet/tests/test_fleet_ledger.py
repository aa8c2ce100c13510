"""The fold of the alerts topic: epochs, damage, what each receiver is told next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from daggers.v1 import alerts_pb2
from google.protobuf.message import Message

from eventlog import Draft, Record, read_record
from fleet.alerts.alert import Acknowledgement
from fleet.alerts.ledger import Ledger

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
FAILED = alerts_pb2.ALERT_CONDITION_FAILED


def record(sequence: int, message: Message, *, id_: str = "", time: datetime | None = None) -> Record:
    draft = Draft(id_ or f"id-{sequence}", "/test", "bookings", time or NOON + sequence * SECOND, message)
    return read_record(sequence, draft.headers(), message.SerializeToString())


def given(*messages: Message) -> Ledger:
    ledger = Ledger()
    for sequence, message in enumerate(messages):
        ledger.apply(record(sequence, message))
    return ledger


def meta(epoch: int = 0, dagger: str = "bookings") -> alerts_pb2.AlertMeta:
    return alerts_pb2.AlertMeta(epoch=epoch, dagger=dagger, condition=FAILED, incident=1)


def fired(epoch: int = 0, dagger: str = "bookings") -> alerts_pb2.AlertFired:
    return alerts_pb2.AlertFired(meta=meta(epoch, dagger), receivers=["slack", "pagerduty"])


def failed(*, throttled: bool, seconds: int, dagger: str = "bookings") -> alerts_pb2.NotificationFailed:
    event = alerts_pb2.NotificationFailed(
        meta=meta(dagger=dagger),
        notice=alerts_pb2.ALERT_NOTICE_FIRED,
        receiver="slack",
        attempt=1,
        throttled=throttled,
    )
    event.not_before.FromDatetime(NOON + seconds * SECOND)
    return event


STARTED = alerts_pb2.MonitorStarted(monitor_id="one")
OTHER = alerts_pb2.MonitorStarted(monitor_id="two")


def next_told(ledger: Ledger, second: int, receiver: str = "slack") -> str | None:
    """Dagger of what the receiver is told next, so many seconds after NOON."""
    notify = ledger.next_notification(receiver, pace=SECOND, now=NOON + second * SECOND)
    return notify and notify.alert.dagger


def test_the_newest_claim_leads() -> None:
    ledger = given(STARTED, OTHER)

    assert (ledger.epoch, ledger.leader) == (1, "two")


def test_facts_of_a_stale_epoch_are_ignored() -> None:
    assert given(STARTED, OTHER, fired(epoch=0)).alerts == {}


def brought(*attempts: int) -> alerts_pb2.OutageReported:
    """What a monitor of epoch 0 did while nobody could write: it tried to tell Slack, so many times."""
    report = alerts_pb2.OutageReported(fired=fired(epoch=0))
    report.time.FromDatetime(NOON - 60 * SECOND)
    for number in attempts:
        attempt = report.attempts.add()
        attempt.time.FromDatetime(NOON - 50 * SECOND)
        attempt.sent.meta.CopyFrom(meta())
        attempt.sent.notice, attempt.sent.receiver = alerts_pb2.ALERT_NOTICE_FIRED, "slack"
        attempt.sent.attempt = number
    return report


def test_what_was_told_without_the_log_is_of_no_epoch_and_is_not_told_again() -> None:
    ledger = given(STARTED, OTHER, brought(1))
    alert = ledger.alert("bookings", FAILED)

    assert (alert.firing, alert.fired_at) == (True, NOON - 60 * SECOND)
    assert next_told(ledger, 1, "slack") is None
    assert next_told(ledger, 1, "pagerduty") == "bookings"


def test_a_report_that_comes_again_and_says_more_adds_what_is_new() -> None:
    twice, once = given(STARTED, brought(), brought(1), brought(1)), given(STARTED, brought(1))

    assert twice.alert("bookings", FAILED).deliveries == once.alert("bookings", FAILED).deliveries
    assert twice.alert("bookings", FAILED).incident == 1


def test_facts_of_the_newest_epoch_are_applied() -> None:
    assert given(STARTED, OTHER, fired(epoch=1)).alert("bookings", FAILED).firing


def test_a_claim_that_is_delivered_again_takes_nothing_back() -> None:
    ledger = given(STARTED, OTHER)
    ledger.apply(record(2, STARTED, id_="id-0"))

    assert (ledger.epoch, ledger.leader) == (1, "two")


def test_a_record_that_was_applied_is_not_applied_again() -> None:
    ledger = given(STARTED, fired())

    assert ledger.apply(record(1, fired(dagger="other"))) is False
    assert list(ledger.alerts) == [("bookings", FAILED)]


def test_damage_and_what_is_not_known_are_kept_aside_and_the_fold_goes_on() -> None:
    ledger = given(STARTED)
    headers = record(1, fired()).type
    ledger.apply(read_record(1, [("ce_type", headers.encode())], b"\xff"))
    ledger.apply(read_record(2, [("ce_type", b"daggers.v1.FromTheFuture")], b""))
    ledger.apply(record(3, fired()))

    assert [event.sequence for event in ledger.unreadable] == [1, 2]
    assert ledger.alert("bookings", FAILED).firing


def test_the_longest_waiting_is_told_first() -> None:
    assert next_told(given(STARTED, fired(dagger="second"), fired(dagger="first")), second=5) == "second"


def test_what_failed_before_waits_behind_what_was_never_tried() -> None:
    ledger = given(
        STARTED, fired(dagger="a"), fired(dagger="b"), failed(throttled=False, seconds=4, dagger="a")
    )

    assert next_told(ledger, second=9) == "b"


def test_the_pace_of_a_receiver_is_kept_also_over_a_restart() -> None:
    ledger = given(
        STARTED, fired(dagger="a"), fired(dagger="b"), failed(throttled=False, seconds=60, dagger="a")
    )
    attempted = ledger.sequence

    assert [
        ledger.next_notification("slack", pace=2 * SECOND, now=NOON + (attempted + n) * SECOND) is None
        for n in (1, 2)
    ] == [
        True,
        False,
    ]


def test_a_receiver_that_limits_rates_is_left_alone_and_the_other_is_not() -> None:
    ledger = given(
        STARTED, fired(dagger="a"), fired(dagger="b"), failed(throttled=True, seconds=60, dagger="a")
    )

    assert [
        next_told(ledger, second=59),
        next_told(ledger, second=60),
        next_told(ledger, second=59, receiver="pagerduty"),
    ] == [
        None,
        "b",
        "a",
    ]


def test_what_changed_after_a_sequence_comes_in_the_order_of_the_newest_changes() -> None:
    ledger = given(
        STARTED,
        fired(dagger="a"),
        fired(dagger="b"),
        fired(dagger="c"),
        failed(throttled=False, seconds=4, dagger="a"),
    )

    assert [(alert.dagger, alert.sequence) for alert in ledger.changed_since(2)] == [("c", 3), ("a", 4)]


def test_why_a_receiver_did_not_take_an_alert_is_known_until_it_does() -> None:
    ledger = given(STARTED, fired(), failed(throttled=False, seconds=4))
    before = ledger.alert("bookings", FAILED).deliveries["slack"]
    notice = alerts_pb2.ALERT_NOTICE_FIRED
    sent = alerts_pb2.NotificationSent(meta=meta(), notice=notice, receiver="slack", attempt=2)
    ledger.apply(record(3, sent))

    after = ledger.alert("bookings", FAILED).deliveries["slack"]
    assert (before.failure is not None, before.done, after.failure, after.done) == (True, False, None, True)


# ---- Causes ------------------------------------------------------------------------------------------------

KAFKA_AWAY, NO_PROGRESS = alerts_pb2.ALERT_CONDITION_KAFKA_AWAY, alerts_pb2.ALERT_CONDITION_NO_PROGRESS


def about(dagger: str, condition: alerts_pb2.AlertCondition.ValueType) -> alerts_pb2.AlertMeta:
    return alerts_pb2.AlertMeta(dagger=dagger, condition=condition, incident=1)


def begin(dagger: str, condition: alerts_pb2.AlertCondition.ValueType) -> alerts_pb2.AlertFired:
    return alerts_pb2.AlertFired(meta=about(dagger, condition), receivers=["slack"])


def end(dagger: str, condition: alerts_pb2.AlertCondition.ValueType) -> alerts_pb2.AlertResolved:
    return alerts_pb2.AlertResolved(meta=about(dagger, condition))


def take_notice(dagger: str, condition: alerts_pb2.AlertCondition.ValueType) -> alerts_pb2.NotificationSent:
    return alerts_pb2.NotificationSent(
        meta=about(dagger, condition), notice=alerts_pb2.ALERT_NOTICE_FIRED, receiver="slack", attempt=1
    )


CAUSE = [STARTED, begin("platform", KAFKA_AWAY), take_notice("platform", KAFKA_AWAY)]


def test_while_kafka_is_away_what_follows_from_it_is_kept_and_the_rest_is_told() -> None:
    ledger = given(*CAUSE, begin("bookings", NO_PROGRESS))
    other = given(*CAUSE, begin("bookings", NO_PROGRESS), begin("orders", FAILED))

    assert (next_told(ledger, 60), next_told(other, 60)) == (None, "orders")
    assert ledger.find_causes() == {("bookings", NO_PROGRESS): ("platform", KAFKA_AWAY)}


def test_what_outlives_its_cause_is_told() -> None:
    ledger = given(*CAUSE, begin("bookings", NO_PROGRESS), end("platform", KAFKA_AWAY))

    assert ledger.find_causes() == {}
    assert next_told(ledger, 60) == "bookings"


def test_what_is_over_before_its_cause_is_told_to_nobody() -> None:
    ledger = given(
        *CAUSE, begin("bookings", NO_PROGRESS), end("bookings", NO_PROGRESS), end("platform", KAFKA_AWAY)
    )

    assert ledger.alert("bookings", NO_PROGRESS).deliveries["slack"].done
    assert next_told(ledger, 60) == "platform"


TURNING = (
    ("platform", KAFKA_AWAY),
    ("host/a", alerts_pb2.ALERT_CONDITION_HOST_AWAY),
    ("host/b", alerts_pb2.ALERT_CONDITION_HOST_AWAY),
    *((dagger, condition) for dagger in ("on_a", "on_b") for condition in (FAILED, NO_PROGRESS)),
)


@pytest.mark.parametrize("seed", range(20))
def test_causes_are_the_same_whether_they_are_found_at_each_turn_or_at_once(seed: int) -> None:
    chance, messages, opened = Random(seed), list[Message]([STARTED]), dict[object, int]()
    ledger = given(STARTED)
    for _ in range(60):
        turning = chance.choice(TURNING)
        name, condition = turning
        incident = opened.get(turning, 0)
        incident_meta = about(name, condition)
        if incident > 0:
            incident_meta.incident, opened[turning] = incident, -incident
            messages.append(alerts_pb2.AlertResolved(meta=incident_meta))
        else:
            incident_meta.incident = opened[turning] = 1 - incident
            messages.append(alerts_pb2.AlertFired(meta=incident_meta, receivers=["slack"], host=name[-1]))
        ledger.apply(record(len(messages) - 1, messages[-1]))

        assert ledger.find_causes() == given(*messages).find_causes()


def test_who_was_told_of_the_begin_before_the_cause_came_is_told_of_the_end() -> None:
    ledger = given(
        STARTED, begin("bookings", NO_PROGRESS), take_notice("bookings", NO_PROGRESS), *CAUSE[1:],
        end("bookings", NO_PROGRESS),
    )  # fmt: skip

    assert next_told(ledger, 60) == "bookings"


# ---- Silences ----------------------------------------------------------------------------------------------


def silence(
    begin: int, end: int, *matchers: str, id_: str = "s", team: str = ""
) -> alerts_pb2.SilenceCreated:
    """Silence from `begin` to `end`, in seconds after NOON, of bookings unless matchers are given."""
    created = alerts_pb2.SilenceCreated()
    created.silence.MergeFrom(
        alerts_pb2.AlertSilence(
            id=id_, team=team, matchers=matchers or ["dagger=bookings"], author="user:ada", reason="deploy"
        )
    )
    created.silence.begin.FromDatetime(NOON + begin * SECOND)
    created.silence.end.FromDatetime(NOON + end * SECOND)
    return created


def is_over(epoch: int = 0, incident: int = 1) -> alerts_pb2.AlertResolved:
    event = alerts_pb2.AlertResolved(meta=meta(epoch))
    event.meta.incident = incident
    return event


def take(
    attempt: int = 1, notice: alerts_pb2.AlertNotice.ValueType = alerts_pb2.ALERT_NOTICE_FIRED
) -> alerts_pb2.NotificationSent:
    return alerts_pb2.NotificationSent(meta=meta(), notice=notice, receiver="slack", attempt=attempt)


def test_what_a_silence_matches_is_kept_until_its_end_and_the_rest_is_told() -> None:
    ledger = given(STARTED, silence(0, 60), fired())
    other = given(STARTED, silence(0, 60), fired(), fired(dagger="orders"))
    at_end = ledger.next_notification("slack", pace=SECOND, now=NOON + 60 * SECOND)

    assert (next_told(ledger, 59), next_told(other, 59)) == (None, "orders")
    assert at_end is not None
    assert (at_end.alert.dagger, at_end.released_at) == ("bookings", NOON + 60 * SECOND)


def test_a_silence_holds_nothing_back_before_it_begins() -> None:
    assert next_told(given(STARTED, silence(30, 60), fired()), 29) == "bookings"


def test_whatever_epoch_leads_a_silence_counts_and_another_of_its_id_does_not() -> None:
    ledger = given(STARTED, OTHER, silence(0, 60), silence(0, 600), fired(epoch=1))

    assert (next_told(ledger, 59), next_told(ledger, 60)) == (None, "bookings")


def test_a_silence_that_is_ended_holds_nothing_back() -> None:
    ledger = given(
        STARTED, silence(0, 60), fired(), alerts_pb2.SilenceExpired(silence_id="s", actor="user:bob")
    )
    ended = ledger.silences["s"]

    assert (ended.end, ended.ended_by) == (NOON + 3 * SECOND, "user:bob")
    assert next_told(ledger, 4) == "bookings"
    again = record(70, alerts_pb2.SilenceExpired(silence_id="s", actor="user:eve"))
    assert not ledger.apply(again)
    assert not ledger.apply(record(71, alerts_pb2.SilenceExpired(silence_id="other")))


def test_what_is_over_within_a_silence_is_told_to_those_alone_who_show_it_as_open() -> None:
    untold = given(STARTED, silence(0, 60), fired(), is_over())
    notified = given(STARTED, fired(), take(), silence(0, 60), is_over())

    assert [next_told(untold, second) for second in (30, 90)] == [None, None]
    assert [next_told(notified, second) for second in (30, 90)] == [None, "bookings"]
    assert notified.alert("bookings", FAILED).deliveries["pagerduty"].done  # it had not heard of the begin


def test_an_incident_that_comes_and_goes_in_a_silence_leaves_the_end_of_the_one_before_to_be_told() -> None:
    again = fired()
    again.meta.incident = 2
    ledger = given(STARTED, fired(), take(), silence(0, 60), is_over(), again, is_over(incident=2))
    notify = ledger.next_notification("slack", pace=SECOND, now=NOON + 60 * SECOND)

    assert notify is not None
    assert notify.alert.notice == alerts_pb2.ALERT_NOTICE_RESOLVED


def test_who_took_the_end_shows_nothing_as_open() -> None:
    over = take(notice=alerts_pb2.ALERT_NOTICE_RESOLVED)
    ledger = given(STARTED, fired(), take(), is_over(), over)

    assert not any(each.shows_open for each in ledger.alert("bookings", FAILED).deliveries.values())


def test_those_who_watch_are_told_that_an_open_alert_is_silenced_and_is_no_more() -> None:
    ledger = given(STARTED, fired(), fired(dagger="orders"), silence(0, 60))
    silenced = [(alert.dagger, alert.sequence) for alert in ledger.changed_since(2)]
    ledger.apply(record(4, alerts_pb2.SilenceExpired(silence_id="s")))

    assert silenced == [("bookings", 3)]
    assert [(alert.dagger, alert.sequence) for alert in ledger.changed_since(3)] == [("bookings", 4)]


def test_a_silence_that_cannot_be_read_holds_nothing_back() -> None:
    no_matcher, no_instant = silence(0, 60, "no matcher", id_="a"), silence(0, 60, id_="b")
    no_instant.silence.end.seconds = 2**62
    ledger = given(STARTED, no_matcher, no_instant, fired())

    assert (ledger.silences, next_told(ledger, 9)) == ({}, "bookings")


def test_silences_are_forgotten_a_month_after_their_end() -> None:
    day = 86_400
    ledger = given(STARTED, silence(0, 60, id_="old"), silence(0, 2 * day, id_="newer"))
    ledger.apply(record(31 * day, silence(31 * day, 32 * day, id_="newest")))

    assert list(ledger.silences) == ["newer", "newest"]


# ---- Acknowledgements --------------------------------------------------------------------------------------


def acknowledge(
    *daggers: str, until: int | None = None, actor: str = "user:ada", incident: int = 1
) -> alerts_pb2.AlertAcknowledged:
    """Acknowledge the alerts of these daggers, of bookings where none is given."""
    metas = [meta(dagger=dagger) for dagger in daggers or ("bookings",)]
    for each in metas:
        each.incident = incident
    event = alerts_pb2.AlertAcknowledged(incidents=metas, actor=actor, comment="on it")
    if until is not None:
        event.until.FromDatetime(NOON + until * SECOND)
    return event


def find_author(ledger: Ledger, second: int, dagger: str = "bookings") -> str | None:
    """Principal that looks after the alert, so many seconds after NOON."""
    given = ledger.alert(dagger, FAILED).find_acknowledgement(NOON + second * SECOND)
    return given and given.author


def test_who_acknowledges_looks_after_an_incident_until_it_is_over_and_not_after_the_next() -> None:
    again = fired()
    again.meta.incident = 2
    ledger = given(STARTED, fired(), acknowledge())
    during = ledger.alert("bookings", FAILED).acknowledgement
    ledger.apply(record(3, is_over()))
    after = find_author(ledger, 9_999)
    ledger.apply(record(4, again))

    assert during == Acknowledgement(author="user:ada", time=NOON + 2 * SECOND, comment="on it")
    assert (after, find_author(ledger, 5)) == ("user:ada", None)


def test_an_acknowledgement_counts_until_its_end_and_one_of_what_is_over_as_it_was_then() -> None:
    ledger = given(STARTED, fired(), acknowledge(until=60))
    counts = [find_author(ledger, 59), find_author(ledger, 60)]
    ledger.apply(record(30, is_over()))

    assert counts == ["user:ada", None]
    assert find_author(ledger, 61) == "user:ada"


def test_the_newest_acknowledgement_counts_the_same_again_changes_nothing_and_it_can_be_taken_back() -> None:
    ledger = given(STARTED, fired(), acknowledge())
    assert not ledger.apply(record(3, acknowledge()))
    assert ledger.apply(record(4, acknowledge(actor="user:bob")))
    newest = find_author(ledger, 5)
    ended = alerts_pb2.AcknowledgementEnded(incidents=[meta()], actor="user:eve")

    assert ledger.apply(record(5, ended))
    assert (newest, find_author(ledger, 6)) == ("user:bob", None)
    assert not ledger.apply(record(6, ended))


def test_a_callback_counts_once_whatever_came_between() -> None:
    callback = acknowledge(actor="pagerduty:P1 (Ada)")
    callback.receiver = "pagerduty"
    ledger = given(STARTED, fired())
    first = ledger.apply(record(2, callback, id_="callback/1"))
    ledger.apply(record(3, acknowledge(actor="user:bob")))

    assert (first, ledger.apply(record(4, callback, id_="callback/1"))) == (True, False)
    assert find_author(ledger, 5) == "user:bob"
    assert ledger.apply(record(5, callback, id_="callback/2"))
    assert find_author(ledger, 6) == "pagerduty:P1 (Ada)"


def test_a_receiver_takes_back_what_was_acknowledged_at_itself_alone() -> None:
    ended = alerts_pb2.AcknowledgementEnded(incidents=[meta()], actor="pagerduty", receiver="pagerduty")
    callback = acknowledge(actor="pagerduty:P1 (Ada)")
    callback.receiver = "pagerduty"
    elsewhere, own = given(STARTED, fired(), acknowledge()), given(STARTED, fired(), callback)

    assert (elsewhere.apply(record(3, ended)), find_author(elsewhere, 4)) == (False, "user:ada")
    assert (own.apply(record(3, ended)), find_author(own, 4)) == (True, None)


@pytest.mark.parametrize(
    ("receiver", "due"),
    [("", ["pagerduty"]), ("slack", ["pagerduty"]), ("pagerduty", [])],
)
def test_who_calls_back_is_not_told_of_its_own_acknowledgement(receiver: str, due: list[str]) -> None:
    event = acknowledge()
    event.receiver = receiver

    alert = given(STARTED, fired(), event).alert("bookings", FAILED)

    assert list(alert.acknowledgement_deliveries) == due


def test_several_are_acknowledged_at_once_whatever_epoch_leads_and_those_that_are_not_open_stay() -> None:
    ledger = given(STARTED, OTHER, fired(epoch=1), fired(epoch=1, dagger="orders"))
    ledger.apply(record(4, acknowledge("bookings", "orders", "nothing")))
    watched = [(alert.dagger, alert.sequence) for alert in ledger.changed_since(3)]

    assert [find_author(ledger, 9, dagger) for dagger in ("bookings", "orders", "nothing")] == [
        "user:ada", "user:ada", None,
    ]  # fmt: skip
    assert watched == [("bookings", 4), ("orders", 4)]
    assert not ledger.apply(record(5, acknowledge(incident=2)))


def test_an_acknowledgement_holds_no_notification_back() -> None:
    assert next_told(given(STARTED, fired(), acknowledge()), 9) == "bookings"
    over = given(STARTED, fired(), take(), acknowledge(), is_over())
    notify = over.next_notification("slack", pace=SECOND, now=NOON + 60 * SECOND)

    assert notify is not None
    assert notify.alert.notice == alerts_pb2.ALERT_NOTICE_RESOLVED


def test_an_acknowledgement_whose_end_cannot_be_read_changes_nothing() -> None:
    endless = acknowledge(until=1)
    endless.until.seconds = 2**62

    assert find_author(given(STARTED, fired(), endless), 0) is None


def test_an_incident_has_a_name_of_its_own() -> None:
    again = fired()
    again.meta.incident = 2
    ledger = given(STARTED, fired(), fired(dagger="orders"))
    names = {ledger.alert(dagger, FAILED).id for dagger in ("bookings", "orders")}
    ledger.apply(record(3, is_over()))
    ended = ledger.alert("bookings", FAILED).id
    ledger.apply(record(4, again))

    assert ended in names
    assert len({*names, ledger.alert("bookings", FAILED).id}) == 3


def test_a_cause_says_what_it_holds_back_and_that_says_its_cause() -> None:
    ledger = given(
        *CAUSE, begin("bookings", NO_PROGRESS), begin("orders", NO_PROGRESS), begin("orders", FAILED)
    )
    kafka, failed_ = ledger.alert("platform", KAFKA_AWAY), ledger.alert("orders", FAILED)
    followers = ledger.list_held(kafka)
    causes = [ledger.find_cause(alert) for alert in (*followers, kafka, failed_)]
    ledger.apply(record(len(CAUSE) + 3, end("platform", KAFKA_AWAY)))

    assert [alert.dagger for alert in followers] == ["bookings", "orders"]
    assert causes == [kafka, kafka, None, None]
    assert ledger.list_held(kafka) == []
