"""The judge: whose state only time can turn, and must be looked at each time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from daggers.v1 import alerts_pb2

from fleet.alerts.ledger import Ledger
from health_monitor.alerts import alert
from health_monitor.alerts.judge import Judge
from health_monitor.conditions.dagger_conditions import OF_DAGGERS
from health_monitor.conditions.finding import Finding

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FAILED = alerts_pb2.ALERT_CONDITION_FAILED
BAD, WELL = Finding(True, "it was given up", NOON), Finding(False, "it runs again", NOON)


def test_open_is_what_is_wrong_and_what_fires_until_it_is_resolved() -> None:
    ledger = Ledger()
    judge = Judge(ledger, receivers=lambda _: ["a"], policy=alert.Policy())
    opened = []

    def turn(finding: Finding | None, seconds: int) -> object:
        found = {} if finding is None else {FAILED: finding}
        turned = judge.next_turn("d", found, of=OF_DAGGERS, now=NOON + timedelta(seconds=seconds))
        opened.append(list(judge.open))
        return type(turned)

    before = turn(WELL, 0)
    waiting = turn(BAD, 1)
    fired = turn(BAD, 12)
    ledger.alerts["d", FAILED] = replace(
        ledger.alert("d", FAILED), incident=1, fired=alerts_pb2.AlertFired(), fired_at=NOON
    )
    mending = turn(WELL, 20)
    resolved = turn(WELL, 51)
    ledger.alerts["d", FAILED] = replace(ledger.alert("d", FAILED), resolved=alerts_pb2.AlertResolved())
    after = turn(WELL, 52)

    assert [before, waiting, fired] == [type(None), type(None), alerts_pb2.AlertFired]
    assert [mending, resolved, after] == [type(None), alerts_pb2.AlertResolved, type(None)]
    assert opened == [[], ["d"], ["d"], ["d"], ["d"], []]
