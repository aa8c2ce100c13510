"""What whoever carries notifications promises the monitor."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import pytest
from daggers.v1 import alerts_pb2

from fleet.alerts.alert import Alert, Notify, evolve
from health_monitor.receivers import Success, Temporary

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def notification() -> Notify:
    """An alert that fired, to be told."""
    meta = alerts_pb2.AlertMeta(dagger="bookings", condition=alerts_pb2.ALERT_CONDITION_FAILED, incident=1)
    severity = alerts_pb2.ALERT_SEVERITY_CRITICAL
    fired = alerts_pb2.AlertFired(meta=meta, dedup_key="k", severity=severity, receivers=["slack"])
    fired.since.FromDatetime(NOON)
    return Notify(evolve(Alert(dagger="bookings", condition=meta.condition), fired, NOON), "slack", 1)


class Outside(Protocol):
    """A receiver and the way to it."""

    async def send(self, notify: Notify, trouble: str) -> Any:
        """Send it, while the receiver is well (""), or is "failing", "throttling" or "late"."""

    @property
    def told(self) -> int:
        """How many notifications the receiver took."""


class WebhooksContract:
    """A subclass brings a fixture `outside`."""

    async def test_a_receiver_that_is_well_takes_each_notification_once(self, outside: Outside) -> None:
        outcomes = [await outside.send(notification(), "") for _ in range(2)]

        assert (outcomes, outside.told) == ([Success(), Success()], 2)

    @pytest.mark.parametrize(
        ("trouble", "reason", "throttled"),
        [
            ("failing", "RECEIVER_ERROR", False),
            ("throttling", "THROTTLED", True),
            ("late", "TIMEOUT", False),
        ],
    )
    async def test_what_may_pass_is_temporary_and_says_why(
        self, outside: Outside, trouble: str, reason: str, *, throttled: bool
    ) -> None:
        outcome = await outside.send(notification(), trouble)

        assert isinstance(outcome, Temporary)
        assert (outcome.reason, outcome.throttled) == (reason, throttled)
        assert outcome.after == (timedelta(seconds=20) if throttled else None)
        assert outside.told == (trouble == "late")
