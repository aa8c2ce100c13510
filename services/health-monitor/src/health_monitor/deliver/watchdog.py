"""The dead man's beat: somebody outside is called while all is well, and raises the alarm when he is not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from pydantic import SecretStr

from chassis.logging import logger
from health_monitor.deliver.webhook import Webhooks
from health_monitor.receivers import Answer, Request, Temporary

INTERVAL: Final = timedelta(minutes=1)
"""How often he is called; the monitor has judged in that time."""


class Watchdog:
    """Whoever watches the monitor from outside."""

    def __init__(self, url: SecretStr | None, webhooks: Webhooks, clock: Callable[[], datetime]) -> None:
        self.url = url
        """Where he is called; None when there is none."""
        self._webhooks, self._clock = webhooks, clock
        self._unnoticed = False

    async def call(self) -> None:
        """Say once that all is well. That he does not take it is told to the log, once until he does."""
        if self.url is None:
            return
        answer = await self._webhooks.call(Request(self.url.get_secret_value(), b""), self._clock())
        taken = isinstance(answer, Answer) and 200 <= answer.status < 300
        if not taken and not self._unnoticed:
            why = answer.detail if isinstance(answer, Temporary) else f"it answered {answer.status}"
            logger().warning("watchdog.call_failed", detail=why)
        self._unnoticed = not taken
