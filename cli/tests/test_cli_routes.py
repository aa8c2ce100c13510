"""`daggers routes` and `daggers alerts route` against a gateway with a team that has two receivers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from daggers.v1 import access_pb2, alerts_pb2, events_pb2, spec_pb2
from tests.alertcallers import build_alert_log

from chassis.endpoint import Endpoint
from eventlog import Draft
from eventlog.memory import MemoryLog
from eventlog.testing import START

ROUTES = """\
kind: routes
name: pricing
receivers: [slack]
routes:
  - match: [severity=critical]
    receivers: [pagerduty]
    escalation: {after: 15m, receivers: [slack]}
"""


def build_log() -> MemoryLog:
    """Build the control topic: a team and a dagger of it."""
    log, place = MemoryLog(), spec_pb2.SecretRef(file="/run/daggers/secret")
    receivers = [
        access_pb2.TeamReceiver(kind=kind, secrets={"url": place}) for kind in ("slack", "pagerduty")
    ]
    for event in (
        events_pb2.TeamRegistered(team=access_pb2.Team(name="pricing", receivers=receivers)),
        events_pb2.DaggerRequested(name="orders", spec=spec_pb2.DaggerSpec(team="pricing")),
    ):
        draft = Draft(type(event).__name__, "/test", "orders", START, event)
        log.place(draft.headers(), event.SerializeToString())
    return log


def build_alerts() -> MemoryLog:
    """Build the alerts topic: one open alert."""
    meta = alerts_pb2.AlertMeta(dagger="orders", condition=alerts_pb2.ALERT_CONDITION_FAILED, incident=1)
    fired = alerts_pb2.AlertFired(
        meta=meta, team="pricing", severity=alerts_pb2.ALERT_SEVERITY_CRITICAL, receivers=["pricing/slack"]
    )
    return build_alert_log(alerts_pb2.MonitorStarted(monitor_id="one"), fired)


@pytest.fixture
def gateway(serve: Callable[..., int]) -> str:
    """Address of a gateway that has these."""
    return f"127.0.0.1:{serve(Endpoint('127.0.0.1:0'), log=build_log, alerts=build_alerts)}"


def test_routes_are_planned_applied_shown_rolled_back_and_deleted(shell: Any) -> None:
    file = shell.file("routes.yaml", ROUTES)
    planned = shell("routes", "plan", file)
    before = shell("routes", "list")
    applied = shell("routes", "apply", file, "-m", "pager for what is critical")
    again = shell("routes", "apply", file)
    file_again = shell("routes", "get", "pricing")
    edited = shell.file("edited.yaml", ROUTES.replace("15m", "5m"))
    plan_of_edit = shell("routes", "plan", edited)
    shell("routes", "apply", edited)
    back = shell("routes", "rollback", "pricing", "--to", "1", "--yes")
    history = json.loads(shell("routes", "history", "pricing", "-o", "json")[1])
    deleted = shell("routes", "delete", "pricing", "--yes")

    assert "+receivers:" in planned[1]
    assert "would go to pricing/pagerduty, and went to pricing/slack" in planned[1]
    assert before[2] == "no team has routes: all are told at once\n"
    assert (applied[0], applied[1]) == (0, "routes of team pricing are applied (revision 1)\n")
    assert again[1] == "routes of team pricing were there already (revision 1)\n"
    assert yaml.safe_load(file_again[1]) == yaml.safe_load(ROUTES)
    assert [line.strip() for line in plan_of_edit[1].splitlines() if line[0] in "+-"] == [
        "-    after: 15m", "+    after: 5m",
    ]  # fmt: skip
    assert back[1] == "routes of team pricing are those of revision 1 (revision 3)\n"
    assert [(each["revision"], each["message"]) for each in history] == [
        (3, "rollback to revision 1"), (2, None), (1, "pager for what is critical"),
    ]  # fmt: skip
    assert history[0]["routes"] == history[2]["routes"]
    assert (deleted[0], deleted[1]) == (0, "routes of team pricing are deleted\n")
    assert "deleted" in shell("routes", "history", "pricing")[1].splitlines()[1]


def test_what_is_wrong_is_named_with_its_place_in_the_file(shell: Any) -> None:
    file = shell.file("routes.yaml", ROUTES.replace("receivers: [pagerduty]", "receivers: [pagerdty]"))
    code, out, _ = shell("routes", "apply", file, "-o", "json")
    [finding] = json.loads(out)["error"]["findings"]

    assert (code, finding["field"], finding["line"], finding["suggestion"]) == (
        1, "routes[0].receivers[0]", 6, "pagerduty",
    )  # fmt: skip
    code, _, err = shell("routes", "apply", shell.file("wrong.yaml", ROUTES.replace("match", "mach")))
    assert (code, "did you mean match?" in err) == (1, True)


def test_who_would_be_told_is_said_with_why_and_when(shell: Any) -> None:
    at_once = shell("alerts", "route", "--for", "orders")
    file = shell.file("routes.yaml", ROUTES)
    tried = shell(
        "alerts", "route", "--for", "orders", "severity=critical", "-f", file, "--at", "2026-06-01T12:00:00Z"
    )
    shell("routes", "apply", file)
    code, out, _ = shell(
        "alerts", "route", "--for", "orders", "severity=warning", "tag_api=pay", "-o", "json"
    )

    assert at_once[1] == "team pricing has no routes: at once, pricing/slack, pricing/pagerduty\n"
    assert "pricing/slack after 15m" in " ".join(tried[1].split())
    assert "2026-06-01T12:00:30Z" in tried[1]
    [route] = json.loads(out)["routes"]
    assert (code, route["destination"]["receivers"]) == (0, ["pricing/slack"])


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("alerts", "route", "--for", "nowhere"), 1, "nowhere"),
        (("alerts", "route", "--for", "orders", "critical"), 2, "LABEL=VALUE"),
        (("routes", "get", "supply"), 1, "told at once"),
        (("routes", "rollback", "supply", "--to", "2", "--yes"), 1, "no routes"),
        (("routes", "delete", "supply", "--yes"), 1, "supply"),
    ],
)
def test_what_is_not_there_is_named(shell: Any, words: tuple[str, ...], code: int, says: str) -> None:
    result = shell(*words)

    assert (result[0], says in result[2]) == (code, True)
