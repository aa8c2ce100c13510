"""`daggers alerts silence`, `silences`, `unsilence` against a gateway with one open alert."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from daggers.v1 import alerts_pb2
from tests.alertcallers import build_alert_log

from chassis.endpoint import Endpoint
from cli.errors import MisusedError
from cli.framework.instants import ahead
from eventlog.memory import MemoryLog
from eventlog.testing import START

WHY = ("--for", "2h", "--reason", "new disk")


def build_log() -> MemoryLog:
    """Build the alerts topic."""
    meta = alerts_pb2.AlertMeta(
        epoch=0, dagger="orders", condition=alerts_pb2.ALERT_CONDITION_FAILED, incident=1
    )
    fired = alerts_pb2.AlertFired(meta=meta, summary="it was given up", team="pricing", receivers=["slack"])
    fired.since.FromDatetime(START)
    return build_alert_log(alerts_pb2.MonitorStarted(monitor_id="one"), fired)


@pytest.fixture
def gateway(serve: Callable[..., int]) -> str:
    """Address of a gateway that has this alert and no silence."""
    return f"127.0.0.1:{serve(Endpoint('127.0.0.1:0'), alerts=build_log)}"


def test_a_silence_is_made_listed_shown_on_its_alert_and_ended(shell: Any) -> None:
    code, created, _ = shell("alerts", "silence", "dagger=ord*", "--team", "pricing", *WHY, "-o", "json")
    silence = json.loads(created)["silence"]
    _, listed, _ = shell("alerts", "silences")
    _, alerts, _ = shell("alerts", "list")
    ended, text, _ = shell("alerts", "unsilence", silence["id"])
    _, after, _ = shell("alerts", "silences", "--all", "-o", "json")

    assert (code, json.loads(created)["alerts"], silence["matchers"]) == (0, 1, ["dagger=ord*"])
    assert listed.split()[8:12] == [silence["id"], "pricing", "dagger=ord*", "1"]
    assert f"silenced until {silence['end'][:19]}" in " ".join(alerts.split())
    assert "new disk; slack due" in " ".join(alerts.split())
    assert (ended, text) == (0, f"the end of silence {silence['id']} releases 1 open alert\n")
    assert [one["silence"]["id"] for one in json.loads(after)] == [silence["id"]]
    assert shell("alerts", "silences")[2] == "nothing is silenced\n"


def test_a_silence_that_matches_nothing_is_said_at_once_and_a_dry_run_makes_none(shell: Any) -> None:
    code, out, err = shell("alerts", "silence", "condition=no_input", "team=pricing", *WHY, "--dry-run")

    assert code == 0
    assert "matches no open alert" in err
    assert out.startswith(
        "a silence would hold back alerts of team pricing with condition=no_input team=pricing"
    )
    assert shell("alerts", "silences")[2] == "nothing is silenced\n"


def test_the_team_is_that_of_the_dagger_which_a_matcher_names(shell: Any) -> None:
    code, _, err = shell("alerts", "silence", "dagger=nowhere", *WHY)

    assert (code, "nowhere" in err) == (1, True)  # there is no such dagger whose team it could be


def test_what_is_wrong_is_named_by_the_argument(shell: Any) -> None:
    code, _, err = shell("alerts", "silence", "sevrity=error", "--team", "pricing", *WHY)

    assert code == 1
    assert "MATCHER" in err
    assert "did you mean severity?" in err
    assert shell("alerts", "silence", "severity=error", "--for", "soon", "--reason", "x")[0] == 2
    assert shell("alerts", "unsilence", "pricing/0")[0] == 1


def test_instants_to_come_are_spans_from_now_on_or_given() -> None:
    now = datetime(2026, 6, 1, 12, tzinfo=UTC)

    assert ahead("--begin", "2h", now) == now + timedelta(hours=2)
    assert ahead("--begin", "2026-06-02T00:00:00+02:00", now) == datetime(2026, 6, 1, 22, tzinfo=UTC)
    with pytest.raises(MisusedError, match="from now on"):
        ahead("--begin", "tomorrow", now)
