"""What a person is told: the whole message of each receiver, and each number in it counted again."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import alerts_pb2, events_pb2, gateway_pb2, spec_pb2
from pydantic import SecretStr

from chassis.durations import format_measure, format_span
from fleet import Dagger
from fleet.alerts.alert import (
    CLUSTER,
    HOST,
    PLATFORM,
    PRINCIPAL,
    STORE,
    TEAM,
    Alert,
    GroupTurn,
    Notify,
    condition_name,
    evolve,
)
from fleet.conditions.dagger_conditions import (
    OF_CLUSTERS,
    OF_HOSTS,
    OF_PLATFORM,
    OF_PRINCIPALS,
    OF_STORES,
    OF_TEAMS,
    SEVERITIES,
)
from fleet.conditions.finding import Finding, Measure
from fleet.health import advice
from health_monitor.alerts.alert import HeldFinding, Policy, decide
from health_monitor.page import Page
from health_monitor.receiver import event_errors, plain
from health_monitor.receivers import alertmanager, email, pagerduty, slack, webhook

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
GOLDEN = Path(__file__).parent / "pages.json"
PORTAL = "https://daggers.example/"
CONDITIONS = sorted(SEVERITIES)
BY_ERROR = {
    alerts_pb2.ALERT_CONDITION_FAILED,
    alerts_pb2.ALERT_CONDITION_RESTART_LOOP,
}
"""Conditions of which only the error says whose they are."""
NUMBERS: dict[int, tuple[float, float, str]] = {
    alerts_pb2.ALERT_CONDITION_NO_PROGRESS: (163.0, 120.0, "s"),
    alerts_pb2.ALERT_CONDITION_UNREACHABLE: (41.0, 30.0, "s"),
    alerts_pb2.ALERT_CONDITION_QUARANTINE_RATE: (0.034, 0.01, "share"),
    alerts_pb2.ALERT_CONDITION_LATE_ROWS: (0.5, 0.01, "share"),
    alerts_pb2.ALERT_CONDITION_NO_OUTPUT: (700.0, 480.0, "s"),
    alerts_pb2.ALERT_CONDITION_RECORDS_EXPIRED: (1234, 0, "count"),
    alerts_pb2.ALERT_CONDITION_RESTART_LOOP: (4, 3, "count"),
    alerts_pb2.ALERT_CONDITION_NO_INPUT: (960.0, 900.0, "s"),
    alerts_pb2.ALERT_CONDITION_LAG_GROWING: (0.125, 0.05, "share"),
    alerts_pb2.ALERT_CONDITION_KAFKA_AWAY: (41.0, 30.0, "s"),
    alerts_pb2.ALERT_CONDITION_TEAM_QUOTA: (41, 40, "count"),
    alerts_pb2.ALERT_CONDITION_PARTITION_BEHIND: (312.0, 300.0, "s"),
    alerts_pb2.ALERT_CONDITION_REFUSALS: (34, 20, "count"),
    alerts_pb2.ALERT_CONDITION_FRESHNESS_MISSED: (14.5, 10.0, "s"),
    alerts_pb2.ALERT_CONDITION_WAITING_FOR_EXECUTORS: (2, 0, "count"),
    alerts_pb2.ALERT_CONDITION_HOST_AWAY: (41.0, 30.0, "s"),
    alerts_pb2.ALERT_CONDITION_SPARK_AWAY: (41, 1, "count"),
    alerts_pb2.ALERT_CONDITION_STORE_AWAY: (41, 1, "count"),
    alerts_pb2.ALERT_CONDITION_SINK_BEHIND: (312.0, 300.0, "s"),
    alerts_pb2.ALERT_CONDITION_RULE: (0.081, 0.05, "number"),
}
OF_NO_DAGGER = (
    dict.fromkeys(OF_PLATFORM, PLATFORM)
    | dict.fromkeys(OF_TEAMS, f"{TEAM}pricing")
    | dict.fromkeys(OF_PRINCIPALS, f"{PRINCIPAL}user:ada@example.org")
    | dict.fromkeys(OF_HOSTS, f"{HOST}alpha")
    | dict.fromkeys(OF_CLUSTERS, f"{CLUSTER}blue")
    | dict.fromkeys(OF_STORES, f"{STORE}influx.example.org")
)


DAGGER = Dagger(
    name="completed_bookings",
    spec=spec_pb2.DaggerSpec(team="pricing"),
    warnings=(),
    version=7,
    desired=gateway_pb2.DESIRED_RUNNING,
    phase=gateway_pb2.RUNNING,
    phase_time=NOON,
    sequence=50,
    create_sequence=1,
    create_time=NOON,
    update_time=NOON,
    generation=41,
)


def told(condition: alerts_pb2.AlertCondition.ValueType, *, resolved: bool = False) -> Page:
    """A page about `completed_bookings`, that was changed four minutes before, the platform or a team."""
    dagger = None if condition in OF_NO_DAGGER else DAGGER
    change = None
    if dagger is not None:
        change = alerts_pb2.LastChange(revision=7, actor="rohil.s")
        change.time.FromDatetime(NOON - 4 * MINUTE - timedelta(seconds=2))
    measure = Measure(*NUMBERS[condition]) if condition in NUMBERS else None
    before = Alert(dagger=dagger.name if dagger else OF_NO_DAGGER[condition], condition=condition, incident=2)
    finding = Finding(True, "what <happened> & why", NOON - MINUTE, measure=measure)
    alert = turned(before, finding, NOON, dagger, change)
    if resolved:
        over = Finding(False, "it is well again", NOON + 2 * MINUTE)
        alert = turned(alert, over, NOON + 3 * MINUTE, dagger, change)
    return Page(Notify(alert, "team", 1), PORTAL)


def turned(
    alert: Alert,
    finding: Finding,
    now: datetime,
    dagger: Dagger | None,
    change: alerts_pb2.LastChange | None,
) -> Alert:
    """The alert after what was found has held for long enough."""
    held = HeldFinding(finding, NOON - 60 * MINUTE, finding.since)
    turn = decide(alert, held, dagger=dagger, receivers=["team"], now=now, policy=Policy(), change=change)
    assert turn is not None
    return evolve(alert, turn, now)


def text_of(page: Page) -> str:
    """Slack's message."""
    body = slack.request(page, slack.Settings(url=SecretStr("https://slack.example"))).body
    return str(json.loads(body)["text"])


def event_of(page: Page) -> dict[str, Any]:
    """PagerDuty's event."""
    key = pagerduty.Settings(routing_key=SecretStr("0" * 32))
    event: dict[str, Any] = json.loads(pagerduty.request(page, key).body)
    return event


SHOWN_BY_ALL = (
    alerts_pb2.ALERT_CONDITION_FAILED,
    alerts_pb2.ALERT_CONDITION_LATE_ROWS,
    alerts_pb2.ALERT_CONDITION_HOST_AWAY,
)
"""Conditions whose messages of every other kind of receiver are agreed, too: with and without a number."""


def shown_by_others(page: Page) -> dict[str, Any]:
    """Build the messages of the other kinds: what a mailbox, a webhook and an Alertmanager get."""
    page = replace(page, attempted_at=NOON + 5 * MINUTE)
    own = email.Settings(
        url=SecretStr("smtp://u:p@smtp.example.org"), to="on-call@example.org", sender="daggers@example.org"
    )
    mail = message_from_bytes(email.request(page, own).message, policy=default)
    body = mail.get_body(("plain",))
    assert body is not None
    key = "whsec_MfKQ9r8GKYqUTwjUPD8ILPZIo2LaLjSw"
    hook = webhook.request(page, webhook.Settings(url=SecretStr("https://a.example"), key=SecretStr(key)))
    manager = alertmanager.request(page, alertmanager.Settings(url=SecretStr("https://b.example")))
    return {
        "email": {"subject": mail["subject"], "text": body.get_content().split("\n")},
        "webhook": json.loads(hook.body),
        "alertmanager": json.loads(manager.body),
    }


def shown() -> dict[str, Any]:
    """Every message there is, by condition and turn."""
    return {
        f"{condition_name(condition)}, {'resolved' if over else 'fired'}": {
            "slack": text_of(told(condition, resolved=over)).split("\n"),
            "pagerduty": event_of(told(condition, resolved=over)),
        }
        | (shown_by_others(told(condition, resolved=over)) if condition in SHOWN_BY_ALL else {})
        for condition in CONDITIONS
        for over in (False, True)
    }


def test_every_message_is_as_it_was_agreed() -> None:
    """After a change that is meant, running this file as a program writes the golden one."""
    assert json.loads(GOLDEN.read_text(encoding="utf-8")) == shown()


@pytest.mark.parametrize("condition", CONDITIONS)
def test_each_number_of_a_message_is_the_alerts(condition: alerts_pb2.AlertCondition.ValueType) -> None:
    page = told(condition)
    alert, fired = page.alert, page.fired
    since = fired.since.ToDatetime(tzinfo=UTC)
    numbers = [str(alert.incident), f"{since:%Y-%m-%dT%H:%M:%SZ}", alert.id]
    if condition in NUMBERS:
        value, limit, unit = NUMBERS[condition]
        numbers += [format_measure(value, unit), format_measure(limit, unit)]
    if fired.HasField("last_change"):
        assert alert.fired_at is not None
        before = alert.fired_at - fired.last_change.time.ToDatetime(tzinfo=UTC)
        assert format_span(before) == "4 min 2 s"
        numbers += [str(fired.last_change.revision), format_span(before)]
    text = plain(text_of(page))
    for number in sorted(numbers, key=len, reverse=True):
        assert number in text
        text = text.replace(number, "", 1)

    assert not re.search(r"\d", text), "a number that nobody counted"


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_page_says_all_that_on_call_needs(condition: alerts_pb2.AlertCondition.ValueType) -> None:
    """Whose it is, the value beside its limit, since, the last change, what to do, the runbook, a link."""
    page = told(condition)
    expected = {"since", "who has to act", "next", "acknowledge", "runbook"}
    expected |= {"measured"} if condition in NUMBERS else set()
    expected |= set() if condition in OF_NO_DAGGER else {"last change"}

    event = event_of(page)
    labels = {line.partition(":")[0].partition(" <!date")[0] for line in text_of(page).split("\n")[2:-1]}

    assert labels == expected
    assert page.facts.keys() == expected - {"since"}
    bare = {**page.facts, "acknowledge": page.facts["acknowledge"].strip("`")}
    assert event["payload"]["custom_details"].items() >= bare.items()
    assert event["payload"]["timestamp"] == "2026-01-01T11:59:00Z"
    assert page.link == event["client_url"]
    assert f"<{page.link}|portal>" in text_of(page)
    assert event_errors(event, size=1) == []


def test_only_a_failure_is_no_matter_of_a_number() -> None:
    assert set(CONDITIONS) - NUMBERS.keys() == {alerts_pb2.ALERT_CONDITION_FAILED}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_page_says_whose_it_is_and_what_is_next_as_the_advice_does(
    condition: alerts_pb2.AlertCondition.ValueType,
) -> None:
    page, known = told(condition), advice.advise_condition(condition)
    whose = page.facts["who has to act"]

    assert page.facts["next"] == known.next_of(page.alert.dagger)
    assert "`daggers " in page.facts["next"]
    assert "{" not in page.facts["next"]
    assert whose.startswith(events_pb2.ErrorDomain.Name(known.domain).removeprefix("ERROR_DOMAIN_")) or (
        # what an error says, and there is none here
        whose == "not known yet" and condition in BY_ERROR
    )


def test_a_link_is_told_only_where_there_is_a_portal() -> None:
    failed = told(alerts_pb2.ALERT_CONDITION_FAILED)
    without = Page(failed.notify)

    assert failed.link == "https://daggers.example/daggers/completed_bookings"
    assert told(alerts_pb2.ALERT_CONDITION_KAFKA_AWAY).link == "https://daggers.example"
    assert told(alerts_pb2.ALERT_CONDITION_SPARK_AWAY).link == "https://daggers.example/clusters/blue"
    assert told(alerts_pb2.ALERT_CONDITION_TEAM_QUOTA).link == "https://daggers.example/teams/pricing"
    assert told(alerts_pb2.ALERT_CONDITION_REFUSALS).link == (
        "https://daggers.example/audit?principal=user:ada@example.org"
    )
    assert event_of(failed)["client_url"] == failed.link
    assert "client_url" not in event_of(without)
    assert "portal" not in text_of(without)


def test_what_is_not_known_of_an_old_record_is_left_out() -> None:
    meta = alerts_pb2.AlertMeta(dagger="b", condition=alerts_pb2.ALERT_CONDITION_FAILED, incident=1)
    old = evolve(Alert(dagger="b", condition=meta.condition), alerts_pb2.AlertFired(meta=meta), NOON)

    assert Page(Notify(old, "team", 1)).facts == {
        "who has to act": "not known yet",
        "next": "Read `daggers get b`: it names the error, and whose it is.",
        "acknowledge": f"`daggers alerts ack {old.id}`",
        "runbook": "docs/operations.md#alert-failed",
    }


def test_an_old_record_says_whose_it_is_where_its_condition_tells() -> None:
    meta = alerts_pb2.AlertMeta(dagger="b", condition=alerts_pb2.ALERT_CONDITION_LAG_GROWING, incident=1)
    old = evolve(Alert(dagger="b", condition=meta.condition), alerts_pb2.AlertFired(meta=meta), NOON)

    assert Page(Notify(old, "team", 1)).facts["who has to act"] == "USER, whoever wrote the dagger"


def test_a_message_that_is_escalated_says_why_it_comes() -> None:
    own = alerts_pb2.AlertDestination(revision=4, path=[0, 1], receivers=["pricing/slack"])
    own.escalate_to.append("pricing/pagerduty")
    own.escalate_after.FromTimedelta(15 * MINUTE)
    alert = told(alerts_pb2.ALERT_CONDITION_FAILED).alert
    assert alert.fired is not None
    alert.fired.destinations.append(own)
    turn = GroupTurn(
        team="pricing", revision=4, path=(0, 1), labels={}, begin=NOON, number=1, time=NOON,
        first_attempt=NOON, firing=(alert,), resolved=(),
    )  # fmt: skip

    def facts(receiver: str, group: GroupTurn = turn) -> dict[str, str]:
        return Page(Notify(alert, receiver, 1, group=group)).facts

    assert facts("pricing/pagerduty")["escalated"] == "nobody acknowledged it in 15 min"
    assert "escalated" not in facts("pricing/slack")
    assert "escalated" not in facts("pricing/pagerduty", replace(turn, path=(0, 2)))


def test_a_message_that_a_silence_held_back_says_until_when() -> None:
    page = told(alerts_pb2.ALERT_CONDITION_FAILED)
    released = replace(page, notify=replace(page.notify, released_at=NOON + 5 * MINUTE))
    before = replace(page, notify=replace(page.notify, released_at=NOON - 5 * MINUTE))

    assert released.facts["held back"] == "by a silence until 2026-01-01 12:05:00 UTC"
    assert "held back" not in before.facts


def test_what_was_measured_long_before_the_message_is_said_to_be_old() -> None:
    page = told(alerts_pb2.ALERT_CONDITION_LATE_ROWS)

    def read_measure(after: timedelta) -> str:
        return replace(page, attempted_at=NOON + after).facts["measured"]

    assert read_measure(5 * MINUTE) == "50.0%, limit 1.0%"
    assert read_measure(6 * MINUTE) == "50.0%, limit 1.0%, when it fired"


def test_the_runbook_is_where_the_platform_serves_it() -> None:
    page = replace(told(alerts_pb2.ALERT_CONDITION_FAILED), runbook_url="https://wiki.example/daggers")

    assert page.facts["runbook"] == "https://wiki.example/daggers#alert-failed"


def test_what_a_rule_finds_is_its_teams_matter() -> None:
    meta = alerts_pb2.AlertMeta(
        dagger="b", condition=alerts_pb2.ALERT_CONDITION_RULE, incident=1, rule="errors", key={"k": "v" * 900}
    )
    fired = alerts_pb2.AlertFired(meta=meta, team="pricing", summary="many")
    before = Alert(dagger="b", condition=meta.condition, rule="errors", key=dict(meta.key))
    page = Page(Notify(evolve(before, fired, NOON), "team", 1))

    assert page.facts["who has to act"] == "team pricing, whose rule it is"
    assert page.condition == f"errors (k={'v' * 59}…)"


@pytest.mark.parametrize(
    ("condition", "sentence", "headline"),
    [
        ("NO_PROGRESS", "no progress for 2 min", "completed_bookings: no progress for 2 min"),
        ("FAILED", "it was given up", "completed_bookings: failed: it was given up"),
    ],
)
def test_a_headline_says_nothing_twice(condition: str, sentence: str, headline: str) -> None:
    page = told(alerts_pb2.AlertCondition.Value(f"ALERT_CONDITION_{condition}"))
    page.fired.summary = sentence

    assert page.headline == headline


def test_however_long_texts_are_slack_shows_head_link_and_incident_within_its_limit() -> None:
    page = told(alerts_pb2.ALERT_CONDITION_FAILED)
    page.fired.summary, page.fired.next = "&" * 500, "<" * 5_000
    lines = text_of(page).split("\n")

    assert len("\n".join(lines)) <= 4_000
    assert lines[0] == ":rotating_light: *completed_bookings*: critical, failed"
    assert set(lines[1].removesuffix("…").split("&amp;")) == {""}
    assert lines[-1].endswith("|portal>")


@pytest.mark.parametrize(
    ("value", "limit", "unit", "text"),
    [
        (0.4, 0.25, "s", "0.4 s, limit 0.25 s"),
        (163.5, 120, "s", "2 min 43 s, limit 2 min"),
        (0.0006, 0.0005, "share", "0.06%, limit 0.05%"),
        (0.034, 0.01, "share", "3.4%, limit 1.0%"),
        (0.0, 0.5, "share", "0.0%, limit 50.0%"),
    ],
)
def test_a_value_is_told_from_its_limit(value: float, limit: float, unit: str, text: str) -> None:
    page = told(alerts_pb2.ALERT_CONDITION_LATE_ROWS)
    page.fired.value, page.fired.limit, page.fired.unit = value, limit, unit

    assert page.facts["measured"] == text


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(shown(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
