"""Acknowledgements: whoever leads tells that an incident is over, and the next one is nobody's yet."""

from __future__ import annotations

from typing import Any

from daggers.v1 import alerts_pb2

from eventlog import Draft

FAILED = alerts_pb2.ALERT_CONDITION_FAILED


async def acknowledge(world: Any, running: Any) -> None:
    """Write an acknowledgement as a gateway does."""
    meta = running.monitor.ledger.alert("bookings", FAILED).meta()
    event = alerts_pb2.AlertAcknowledged(incidents=[meta], actor="user:ada", comment="on it")
    await world.alerts.append(Draft("ack", "/api-gateway/test", "bookings", world.now, event))


async def test_the_end_of_what_is_acknowledged_is_told_over_a_restart_and_the_next_is_not_acknowledged(
    world: Any,
) -> None:
    async with world.monitor() as first:
        await first.steps(3)
        await world.fail_dagger()
        await first.steps(5)
        await acknowledge(world, first)
    async with world.monitor("two") as second:
        await second.steps(15)
        given = second.monitor.ledger.alert("bookings", FAILED).find_acknowledgement(world.now)
        await world.mend_dagger()
        await second.steps(6)
        assert (given and given.author, world.kinds()) == (
            "user:ada", ["pagerduty triggered", "pagerduty resolved"],
        )  # fmt: skip
        await world.fail_dagger()
        await second.steps(6)
        again = second.monitor.ledger.alert("bookings", FAILED)

    assert (again.incident, again.find_acknowledgement(world.now)) == (2, None)
    assert world.kinds()[2:] == ["pagerduty triggered"]
