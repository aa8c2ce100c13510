"""What a person is told: the whole message of each receiver, and each number in it counted again."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import alerts_pb2, events_pb2
from pydantic import SecretStr

from chassis.durations import measured, spoken
from fleet.alert import PLATFORM, Alert, Notify, condition_name, dedup_key, evolve
from health_monitor.condition import DOMAINS, OF_PLATFORM, SEVERITIES
from health_monitor.page import COMMANDS, Page
from health_monitor.receiver import event_errors, plain
from health_monitor.receivers import pagerduty, slack

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
GOLDEN = Path(__file__).parent / "pages.json"
PORTAL = "https://daggers.example/"
CONDITIONS = sorted(SEVERITIES)
NUMBERS: dict[int, tuple[float, float, str]] = {
    alerts_pb2.ALERT_CONDITION_NO_PROGRESS: (163.0, 120.0, "s"),
    alerts_pb2.ALERT_CONDITION_UNREACHABLE: (41.0, 30.0, "s"),
    alerts_pb2.ALERT_CONDITION_QUARANTINE_RATE: (0.034, 0.01, "share"),
    alerts_pb2.ALERT_CONDITION_LATE_ROWS: (0.5, 0.01, "share"),
    alerts_pb2.ALERT_CONDITION_NO_OUTPUT: (700.0, 480.0, "s"),
    alerts_pb2.ALERT_CONDITION_RESTART_LOOP: (4, 3, "count"),
    alerts_pb2.ALERT_CONDITION_NO_INPUT: (960.0, 900.0, "s"),
    alerts_pb2.ALERT_CONDITION_LAG_GROWING: (0.125, 0.05, "share"),
    alerts_pb2.ALERT_CONDITION_KAFKA_AWAY: (41.0, 30.0, "s"),
}


def told(condition: alerts_pb2.AlertCondition.ValueType, *, resolved: bool = False) -> Page:
    """A page about `completed_bookings`, or the platform, that was changed four minutes before."""
    name = PLATFORM if condition in OF_PLATFORM else "completed_bookings"
    meta = alerts_pb2.AlertMeta(dagger=name, condition=condition, incident=3)
    fired = alerts_pb2.AlertFired(
        meta=meta,
        dedup_key=dedup_key(name, condition),
        severity=SEVERITIES[condition],
        summary="what <happened> & why",
        receivers=["team"],
        domain=DOMAINS.get(condition, events_pb2.ERROR_DOMAIN_USER),
    )
    fired.since.FromDatetime(NOON - MINUTE)
    if condition in NUMBERS:
        fired.value, fired.limit, fired.unit = NUMBERS[condition]
    if name != PLATFORM:
        fired.generation, fired.team = 41, "pricing"
        fired.last_change.revision, fired.last_change.actor = 7, "rohil.s"
        fired.last_change.time.FromDatetime(NOON - 4 * MINUTE - timedelta(seconds=2))
    alert = evolve(Alert(dagger=name, condition=condition, incident=2), fired, NOON)
    if resolved:
        over = alerts_pb2.AlertResolved(meta=meta, summary="it is well again")
        over.until.FromDatetime(NOON + 2 * MINUTE)
        alert = evolve(alert, over, NOON + 3 * MINUTE)
    return Page(Notify(alert, "team", 1), PORTAL)


def text_of(page: Page) -> str:
    """Slack's message."""
    body = slack.request(page, slack.Settings(url=SecretStr("https://slack.example"))).body
    return str(json.loads(body)["text"])


def event_of(page: Page) -> dict[str, Any]:
    """PagerDuty's event."""
    key = pagerduty.Settings(routing_key=SecretStr("0" * 32))
    event: dict[str, Any] = json.loads(pagerduty.request(page, key).body)
    return event


def shown() -> dict[str, Any]:
    """Every message there is, by condition and turn."""
    return {
        f"{condition_name(condition)}, {'resolved' if over else 'fired'}": {
            "slack": text_of(told(condition, resolved=over)).split("\n"),
            "pagerduty": event_of(told(condition, resolved=over)),
        }
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
    numbers = [str(alert.incident), f"{since:%Y-%m-%dT%H:%M:%SZ}"]
    if condition in NUMBERS:
        value, limit, unit = NUMBERS[condition]
        numbers += [measured(value, unit), measured(limit, unit)]
    if fired.HasField("last_change"):
        assert alert.fired_at is not None
        before = alert.fired_at - fired.last_change.time.ToDatetime(tzinfo=UTC)
        assert spoken(before) == "4 min 2 s"
        numbers += [str(fired.last_change.revision), spoken(before)]
    text = plain(text_of(page))
    for number in sorted(numbers, key=len, reverse=True):
        assert number in text
        text = text.replace(number, "", 1)

    assert not re.search(r"\d", text), "a number that nobody counted"


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_page_says_whose_it_is_since_when_what_is_next_and_where_to_read(
    condition: alerts_pb2.AlertCondition.ValueType,
) -> None:
    page = told(condition)
    text = plain(text_of(page))

    labels = ["since", "who has to act:", "next: daggers ", "runbook: docs/operations.md#alert-"]
    assert [label for label in labels if label not in text] == []
    assert COMMANDS[condition].replace("NAME", page.alert.dagger) in text
    assert event_errors(event_of(page), size=1) == []


def test_a_link_is_told_only_where_there_is_a_portal() -> None:
    failed = told(alerts_pb2.ALERT_CONDITION_FAILED)
    without = Page(failed.notify)

    assert failed.link == "https://daggers.example/daggers/completed_bookings"
    assert told(alerts_pb2.ALERT_CONDITION_KAFKA_AWAY).link == "https://daggers.example"
    assert event_of(failed)["client_url"] == failed.link
    assert "client_url" not in event_of(without)
    assert "portal" not in text_of(without)


def test_what_is_not_known_of_an_old_record_is_left_out() -> None:
    meta = alerts_pb2.AlertMeta(dagger="b", condition=alerts_pb2.ALERT_CONDITION_FAILED, incident=1)
    old = evolve(Alert(dagger="b", condition=meta.condition), alerts_pb2.AlertFired(meta=meta), NOON)

    assert Page(Notify(old, "team", 1)).facts == {
        "who has to act": "not known yet",
        "next": "daggers get b",
        "runbook": "docs/operations.md#alert-failed",
    }


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(shown(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
