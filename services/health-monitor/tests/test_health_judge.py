"""The judge: whose state only time can turn, and must be looked at each time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from daggers.v1 import alerts_pb2

from fleet.alerts.ledger import Ledger
from fleet.conditions.condition_limits import ConditionSettings, Setting
from fleet.conditions.dagger_conditions import OF_DAGGERS
from fleet.conditions.finding import Finding, Measure
from health_monitor.alerts import alert
from health_monitor.alerts.judge import Judge

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
    ledger.alerts["d", FAILED] = ledger.alert("d", FAILED)._replace(
        incident=1, fired=alerts_pb2.AlertFired(), fired_at=NOON
    )
    mending = turn(WELL, 20)
    resolved = turn(WELL, 51)
    ledger.alerts["d", FAILED] = ledger.alert("d", FAILED)._replace(resolved=alerts_pb2.AlertResolved())
    after = turn(WELL, 52)

    assert [before, waiting, fired] == [type(None), type(None), alerts_pb2.AlertFired]
    assert [mending, resolved, after] == [type(None), alerts_pb2.AlertResolved, type(None)]
    assert opened == [[], ["d"], ["d"], ["d"], ["d"], []]


def test_what_is_said_of_a_condition_counts_for_its_hold_and_its_end() -> None:
    ledger = Ledger()
    judge = Judge(ledger, receivers=lambda _: ["a"], policy=alert.Policy(resolve_hold=timedelta()))
    late = alerts_pb2.ALERT_CONDITION_LATE_ROWS
    settings = {late: ConditionSettings(hold=Setting(60, "dagger"), clear=Setting(0.01, "dagger"))}

    def turn(share: float, seconds: int) -> object:
        measure = Measure(share, 0.05, "share")
        finding = Finding(share > 0.05, f"{share:.0%} are late", NOON, measure=measure)
        now = NOON + timedelta(seconds=seconds)
        return type(judge.next_turn("d", {late: finding}, of=OF_DAGGERS, now=now, settings=settings))

    before = [turn(0.06, 0), turn(0.06, 59)]
    fired = turn(0.06, 60)
    ledger.alerts["d", late] = ledger.alert("d", late)._replace(
        incident=1, fired=alerts_pb2.AlertFired(), fired_at=NOON
    )
    still = turn(0.02, 90)  # a share would be over at half its limit
    over = turn(0.01, 91)

    assert before == [type(None)] * 2
    assert (fired, still, over) == (alerts_pb2.AlertFired, type(None), alerts_pb2.AlertResolved)
