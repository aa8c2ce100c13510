"""`daggers alerts ack` and `unack` against a gateway with open alerts of a condition and of a rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from daggers.v1 import alerts_pb2
from tests.alertcallers import build_alert_log

from chassis.endpoint import Endpoint
from eventlog.memory import MemoryLog
from fleet.alerts.alert import Alert

FAILED, RULE = alerts_pb2.ALERT_CONDITION_FAILED, alerts_pb2.ALERT_CONDITION_RULE
METAS = (
    alerts_pb2.AlertMeta(dagger="orders", condition=FAILED, incident=1),
    alerts_pb2.AlertMeta(dagger="orders", condition=RULE, rule="busy", key={"tag_city": "oslo"}, incident=1),
    alerts_pb2.AlertMeta(dagger="orders", condition=RULE, rule="busy", key={"tag_city": "rome"}, incident=1),
)
ORDERS = Alert(dagger="orders", condition=FAILED, incident=1).id


def build_log() -> MemoryLog:
    """Build the alerts topic."""
    fired = [alerts_pb2.AlertFired(meta=meta, team="pricing", receivers=["slack"]) for meta in METAS]
    return build_alert_log(alerts_pb2.MonitorStarted(monitor_id="one"), *fired)


@pytest.fixture
def gateway(serve: Callable[..., int]) -> str:
    """Address of a gateway that has these alerts, which nobody has acknowledged."""
    return f"127.0.0.1:{serve(Endpoint('127.0.0.1:0'), alerts=build_log)}"


def test_an_incident_is_acknowledged_by_its_digits_shown_so_and_released(shell: Any) -> None:
    code, text, _ = shell("alerts", "ack", ORDERS[:6], "--comment", "new disk", "--for", "2h")
    _, table, _ = shell("alerts", "list")
    _, listed, _ = shell("alerts", "list", "-o", "json")
    _, released, _ = shell("alerts", "unack", "orders", "failed", "-o", "json")

    given = next(alert for alert in json.loads(listed) if alert["id"] == ORDERS)["acknowledgement"]
    assert (code, text) == (0, f"acknowledged: {ORDERS} orders FAILED\n")
    assert (given["comment"], given["until"] is not None) == ("new disk", True)
    assert f"acknowledged until {given['until'][:19]}" in " ".join(table.split())
    assert [alert["acknowledgement"] for alert in json.loads(released)["alerts"]] == [None]


def test_all_keys_of_a_rule_are_meant_by_its_name_and_a_dry_run_changes_nothing(shell: Any) -> None:
    _, checked, _ = shell("alerts", "ack", "orders", "busy", "--dry-run")
    _, before, _ = shell("alerts", "list", "-o", "json")
    code, out, _ = shell("alerts", "ack", "orders", "busy", "-o", "json")

    assert [line.partition(" orders ")[2] for line in checked.splitlines()] == [
        "busy tag_city=oslo", "busy tag_city=rome",
    ]  # fmt: skip
    assert not any(alert["acknowledgement"] for alert in json.loads(before))
    assert (code, [alert["rule"] for alert in json.loads(out)["alerts"]]) == (0, ["busy", "busy"])
    assert all(alert["acknowledgement"]["until"] is None for alert in json.loads(out)["alerts"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("orders", "bussy"), "did you mean busy?"),
        (("ffff",), "no open incident ffff"),
        ((ORDERS[:3],), "four of its digits"),
        (("nowhere", "failed"), "none is"),
    ],
)
def test_what_is_not_open_is_named(shell: Any, words: tuple[str, ...], says: str) -> None:
    code, _, err = shell("alerts", "ack", *words)

    assert (code, says in " ".join(err.split())) == (1, True)


def test_a_span_that_is_none_is_a_misuse(shell: Any) -> None:
    assert shell("alerts", "ack", ORDERS, "--for", "soon")[0] == 2
