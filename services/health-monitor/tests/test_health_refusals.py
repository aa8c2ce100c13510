"""A principal that is refused again and again: one alert of it, told to the platform's receivers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from daggers.v1 import alerts_pb2, audit_pb2

from eventlog import Draft
from eventlog.memory import MemoryLog
from eventlog.testing import LogTail
from fleet.alerts.ledger import Ledger
from health_monitor.conditions.refusals import CONDITION, MOST, UNAUTHENTICATED, WITHIN, Refusals

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def refused(principal: str = "account:bot", **fields: Any) -> audit_pb2.CallAudited:
    told = {"kind": audit_pb2.AUDIT_KIND_REFUSED, "refused": True, "reason": "ROLE_MISSING"}
    return audit_pb2.CallAudited(principal=principal, **{**told, **fields})


class Audit:
    """A log of the audit, and what a monitor makes of it."""

    def __init__(self) -> None:
        self.log, self.refusals = MemoryLog(), Refusals()
        self.refusals.begin()

    async def tell(self, call: audit_pb2.CallAudited, now: datetime, times: int = 1) -> None:
        for _ in range(times):
            await self.log.append(Draft("a", "/test", "s", now, call))
            (record,) = await self.log.read([await self.log.end()])
            self.refusals.add(record, now)


async def test_twenty_refusals_within_five_minutes_are_an_incident_and_nineteen_are_none() -> None:
    audit = Audit()
    await audit.tell(refused(), NOON, MOST - 1)
    below = audit.refusals.judge("account:bot", NOON)
    await audit.tell(refused(reason="FOREIGN_TOPIC"), NOON + SECOND)
    above = audit.refusals.judge("account:bot", NOON + SECOND)
    later = audit.refusals.judge("account:bot", NOON + WITHIN)

    assert below is not None
    assert above is not None
    assert later is not None
    assert (below.active, above.active, later.active) == (False, True, False)
    assert above.summary == (
        "calls of account:bot were refused 20 times in 5 min: ROLE_MISSING (19), FOREIGN_TOPIC (1)"
    )
    assert above.measure == (20, 20, "count")


async def test_a_record_that_stands_for_many_calls_counts_as_many() -> None:
    audit = Audit()
    await audit.tell(refused(calls=500), NOON)
    found = audit.refusals.judge("account:bot", NOON)

    assert found is not None
    assert found.active
    assert "500 times" in found.summary


@pytest.mark.parametrize(
    "call",
    [
        refused(refused=False),
        refused(kind=audit_pb2.AUDIT_KIND_CHECK),
        refused(kind=audit_pb2.AUDIT_KIND_READ, refused=False, allowed=True),
    ],
)
async def test_what_was_let_through_or_only_checked_is_not_counted(call: audit_pb2.CallAudited) -> None:
    audit = Audit()
    await audit.tell(call, NOON, 100)

    assert audit.refusals.principals_to_judge(Ledger(), NOON) == []


async def test_calls_without_a_token_are_counted_by_address_and_are_one_incident() -> None:
    audit = Audit()
    without: dict[str, Any] = {"principal": "", "kind": audit_pb2.AUDIT_KIND_UNAUTHENTICATED}
    for number in range(100):
        await audit.tell(refused(peer=f"10.0.0.{number}", **without), NOON)
    spread = audit.refusals.judge(UNAUTHENTICATED, NOON)
    for number in range(5):
        await audit.tell(refused(peer=f"10.0.0.{number}", calls=30, **without), NOON)
    found = audit.refusals.judge(UNAUTHENTICATED, NOON)

    assert spread is not None
    assert found is not None
    assert (spread.active, found.active) == (False, True)
    assert "from 10.0.0.0, 10.0.0.1, 10.0.0.2 and 2 more" in found.summary
    assert audit.refusals.principals_to_judge(Ledger(), NOON) == [UNAUTHENTICATED]


async def test_nothing_is_found_while_the_audit_is_not_heard() -> None:
    audit = Audit()
    await audit.tell(refused(), NOON, MOST)
    audit.refusals.hears = False

    assert audit.refusals.judge("account:bot", NOON) is None


@asynccontextmanager
async def hearing(world: Any, running: Any, log: MemoryLog) -> AsyncIterator[None]:
    """The monitor hears the audit while the block runs."""
    following = asyncio.create_task(running.monitor.follow_audit(LogTail(log)))
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def steps(world: Any, running: Any, count: int, seconds: float = 1) -> None:
    for _ in range(count):
        await world.beat()
        await running.step(seconds)


async def test_an_incident_is_told_to_the_receivers_of_the_platform_and_is_over_by_itself(world: Any) -> None:
    log = MemoryLog()
    for _ in range(MOST):
        await log.append(Draft("a", "/test", "s", world.now, refused()))
    async with world.monitor() as running, hearing(world, running, log):
        await steps(world, running, 6)
        await steps(world, running, 3, seconds=WITHIN.total_seconds())
    kinds = (alerts_pb2.AlertFired, alerts_pb2.AlertResolved)
    told = [record.message async for record in world.alerts.replay() if isinstance(record.message, kinds)]
    fired, resolved = [each for each in told if each.meta.condition == CONDITION]

    assert fired.meta.dagger == resolved.meta.dagger == "principal/account:bot"
    assert (fired.severity, fired.team) == (alerts_pb2.ALERT_SEVERITY_ERROR, "")
    assert fired.receivers == ["slack", "pagerduty"]
    assert fired.next.startswith("Read `daggers audit --principal account:bot`")
    assert world.kinds()[:2] == ["pagerduty triggered", "pagerduty resolved"]
