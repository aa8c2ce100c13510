"""Dead man's switch: calls an outside service while all is well; it raises the alarm when calls stop."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from pydantic import SecretStr

from chassis.logging import logger
from health_monitor.deliver.webhook import Webhooks
from health_monitor.receivers import HttpAnswer, HttpRequest, Temporary

INTERVAL: Final = timedelta(minutes=1)
"""Time between two calls; a call needs a judgement within it."""


class Watchdog:
    """Calls the service that watches the monitor from outside."""

    def __init__(self, url: SecretStr | None, webhooks: Webhooks, clock: Callable[[], datetime]) -> None:
        self.url = url
        """Address to call; None without a watchdog."""
        self._webhooks, self._clock = webhooks, clock
        self._has_failed = False

    async def call(self) -> None:
        """Call once, and log a failure, but only the first of several in a row."""
        if self.url is None:
            return
        answer = await self._webhooks.call(HttpRequest(self.url.get_secret_value(), b""), self._clock())
        is_accepted = isinstance(answer, HttpAnswer) and 200 <= answer.status < 300
        if not is_accepted and not self._has_failed:
            detail = answer.detail if isinstance(answer, Temporary) else f"it answered {answer.status}"
            logger().warning("watchdog.call_failed", detail=detail)
        self._has_failed = not is_accepted
