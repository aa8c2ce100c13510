"""`daggers alerts` against a gateway that has folded what a health monitor wrote."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest
from daggers.v1 import alerts_pb2, events_pb2
from rich.console import Console
from tests.alertcallers import build_alert_log

from chassis.endpoint import Endpoint
from cli.commands.alert_text import line, table
from cli.commands.alerts import watch_alerts
from cli.errors import UnreachableError
from cli.framework.gateway import Gateway
from cli.framework.watch_resumption import by_sequence, resume
from cli.output.printer import Format, Printer
from eventlog.testing import START
from fleet.alerts.alert import Alert

FAILED = alerts_pb2.ALERT_CONDITION_FAILED
RATE = alerts_pb2.ALERT_CONDITION_QUARANTINE_RATE
ORDERS = Alert(dagger="orders", condition=RATE, incident=1).id
LATER = START + timedelta(minutes=2)


def meta(dagger: str, condition: Any) -> alerts_pb2.AlertMeta:
    return alerts_pb2.AlertMeta(epoch=0, dagger=dagger, condition=condition, incident=1)


def fired(dagger: str, condition: Any, summary: str, **fields: Any) -> alerts_pb2.AlertFired:
    severity = alerts_pb2.ALERT_SEVERITY_WARNING
    event = alerts_pb2.AlertFired(
        meta=meta(dagger, condition), severity=severity, summary=summary, team="pricing", **fields
    )
    event.since.FromDatetime(START)
    return event


def attempt(kind: Any, receiver: str, **fields: Any) -> Any:
    notice = alerts_pb2.ALERT_NOTICE_FIRED
    return kind(meta=meta("orders", RATE), notice=notice, receiver=receiver, attempt=1, **fields)


def over() -> alerts_pb2.AlertResolved:
    event = alerts_pb2.AlertResolved(meta=meta("bookings", FAILED), summary="it runs again")
    event.until.FromDatetime(LATER)
    return event


HISTORY = (
    alerts_pb2.MonitorStarted(monitor_id="one"),
    fired("bookings", FAILED, "it was given up: NO_SECRET", domain=events_pb2.ERROR_DOMAIN_USER),
    fired(
        "orders", RATE, "12 records were quarantined in 1 min, 17.6%: MALFORMED",
        value=0.176, limit=0.01, unit="share", receivers=["slack", "pagerduty"], generation=3,
        next="Read `daggers quarantine list orders`.",
    ),
    attempt(alerts_pb2.NotificationSent, "slack"),
    attempt(alerts_pb2.NotificationFailed, "pagerduty", reason="REFUSED", detail="it answered 400"),
    over(),
)  # fmt: skip


@pytest.fixture(scope="module")
def gateway(serve: Callable[..., int]) -> str:
    """Address of a gateway that has these alerts."""
    return f"127.0.0.1:{serve(Endpoint('127.0.0.1:0'), alerts=lambda: build_alert_log(*HISTORY))}"


def cells(out: str) -> list[str]:
    return [" ".join(row.split()) for row in out.splitlines()]


def test_the_list_has_what_is_open_with_its_limit_and_who_was_told(shell: Any) -> None:
    code, out, _ = shell("alerts", "list")

    assert (code, cells(out)) == (
        0,
        [
            "INCIDENT DAGGER CONDITION SINCE WHAT NOTIFIED",
            f"{ORDERS} orders QUARANTINE_RATE 2026-01-01T00:00:00Z 12 records were quarantined in 1 min,"
            " 17.6%: MALFORMED"
            " (limit 1.0%); next: Read `daggers quarantine list orders`. pagerduty failed: REFUSED, slack",
        ],
    )


def test_with_all_the_list_has_what_is_over_and_since_when(shell: Any) -> None:
    _, out, _ = shell("alerts", "list", "--all")

    assert cells(out)[:2] == [
        "DAGGER CONDITION SINCE UNTIL WHAT NOTIFIED",
        "bookings FAILED 2026-01-01T00:00:00Z 2026-01-01T00:02:00Z it runs again; it was: it was given up:"
        " NO_SECRET nobody",
    ]


def test_the_list_of_one_dagger_says_when_there_is_nothing(shell: Any) -> None:
    assert shell("alerts", "list", "bookings") == (0, "", "no alert is open\n")
    assert shell("alerts", "list", "nothing", "--all") == (0, "", "no alert has fired\n")


def test_a_name_that_is_none_is_refused_by_its_argument(shell: Any) -> None:
    code, _, err = shell("alerts", "list", "NOT A NAME")

    assert (code, "NAME" in err) == (1, True)


def test_the_document_of_an_alert_has_all_that_is_known_of_it(shell: Any) -> None:
    _, out, _ = shell("alerts", "list", "-o", "json")

    assert json.loads(out) == [
        {
            "dagger": "orders",
            "condition": "QUARANTINE_RATE",
            "incident": 1,
            "severity": "WARNING",
            "domain": None,
            "summary": "12 records were quarantined in 1 min, 17.6%: MALFORMED",
            "next": "Read `daggers quarantine list orders`.",
            "since": "2026-01-01T00:00:00Z",
            "fire_time": "2026-01-01T00:00:00Z",
            "until": None,
            "resolution": None,
            "value": 0.176,
            "limit": 0.01,
            "unit": "share",
            "generation": 3,
            "team": "pricing",
            "deliveries": [
                {
                    "receiver": "pagerduty",
                    "state": "FAILED",
                    "attempts": 1,
                    "reason": "REFUSED",
                    "detail": "it answered 400",
                    "not_before": None,
                },
                {
                    "receiver": "slack",
                    "state": "SENT",
                    "attempts": 1,
                    "reason": None,
                    "detail": None,
                    "not_before": None,
                },
            ],
            "sequence": 4,
            "rule": None,
            "key": {},
            "values": {},
            "silence": None,
            "acknowledgement": None,
            "id": ORDERS,
            "labels": {
                "dagger": "orders",
                "condition": "quarantine_rate",
                "severity": "warning",
                "team": "pricing",
            },
            "holds_back": 0,
            "cause": None,
        }
    ]


def test_the_document_of_what_is_over_says_by_whom_it_was_and_until_when(shell: Any) -> None:
    _, out, _ = shell("alerts", "list", "bookings", "--all", "-o", "json")

    (document,) = json.loads(out)
    assert {key: document[key] for key in ("domain", "until", "resolution", "value", "unit")} == {
        "domain": "USER",
        "until": "2026-01-01T00:02:00Z",
        "resolution": "it runs again",
        "value": None,
        "unit": None,
    }


def test_a_terminal_of_100_columns_holds_the_table(gateway: str) -> None:
    terminal = Console(width=100, file=io.StringIO())
    printer = Printer(Format.TEXT, terminal)
    with Gateway(gateway) as open_gateway:
        found = list(islice(watch_alerts(open_gateway, "", -1), 2))

    table(printer, found, resolved=True)

    lines = terminal.file.getvalue().splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 100
    assert "QUARANTINE_RATE" in "\n".join(lines)


def test_a_watch_tells_what_is_open_and_behind_a_sequence_what_changed(gateway: str) -> None:
    with Gateway(gateway) as open_gateway:
        (first,) = islice(watch_alerts(open_gateway, "", None), 1)
        changed = list(islice(watch_alerts(open_gateway, "", 1), 2))

    assert line(first) == (
        "     4  2026-01-01T00:00:00Z  orders                    QUARANTINE_RATE  OPEN      12 records were"
        " quarantined in 1 min, 17.6%: MALFORMED (limit 1.0%); notified: pagerduty failed: REFUSED, slack"
    )
    assert [(alert.dagger, alert.HasField("until")) for alert in changed] == [
        ("orders", False),
        ("bookings", True),
    ]


def test_a_watch_that_breaks_is_taken_up_behind_its_last_step() -> None:
    begun: list[int | None] = []

    def steps(since: int | None) -> Iterator[Any]:
        begun.append(since)
        yield SimpleNamespace(sequence=(since or 0) + 1)
        raise UnreachableError("gone")

    seen = [step.sequence for step in islice(resume(steps, None, by_sequence), 2)]

    assert (seen, begun) == ([1, 2], [None, 1])


def test_a_watch_that_never_began_says_so_at_once() -> None:
    def steps(since: int | None) -> Iterator[Any]:
        raise UnreachableError("nobody")
        yield

    with pytest.raises(UnreachableError):
        next(resume(steps, None, by_sequence))


def test_get_tells_the_alerts_of_a_dagger_that_are_open(shell: Any, dagger_file: str) -> None:
    shell.fill()
    for name in ("orders", "bookings"):
        text = dagger_file.replace("orders_by_city", name)
        assert shell("apply", "-f", shell.file(f"{name}.yaml", text))[0] == 0
    _, out, _ = shell("get", "orders")
    of_orders = json.loads(shell("get", "orders", "-o", "json")[1])["alerts"]
    of_bookings = json.loads(shell("get", "bookings", "-o", "json")[1])["alerts"]

    assert (
        "alert: QUARANTINE_RATE since 2026-01-01T00:00:00Z: 12 records were quarantined in 1 min, 17.6%:"
        " MALFORMED (limit 1.0%); notified: pagerduty failed: REFUSED, slack"
    ) in out.splitlines()
    assert [order["condition"] for order in of_orders] == ["QUARANTINE_RATE"]
    assert of_bookings == []  # what was wrong is over
