"""Takes a callback: verifies it, decides by the log's newest state, writes, and tells the person.

Any monitor takes it, whoever leads: what it writes is of no epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from pydantic import SecretStr

from chassis.logging import logger, note, unit_of_work
from eventlog import LogError
from fleet import Fleet
from health_monitor import callbacks
from health_monitor.alerts.leadership import Leadership
from health_monitor.callbacks import Callback, CallbackKind, CallbackRequest, UnreadableCallbackError
from health_monitor.deliver.team_receivers import resolve_channel
from health_monitor.deliver.webhook import Channel, Webhooks
from health_monitor.listen.decision import Decision, decide
from health_monitor.receivers import HttpAnswer, HttpRequest, Temporary

T = TypeVar("T")

ANSWER_S: Final = 2.5
"""Slack shows an error to the person after three seconds without an answer, PagerDuty repeats after five."""


@dataclass(frozen=True, slots=True)
class CallbackAnswer:
    """Answer to a request."""

    status: int
    result: str
    detail: str = field(repr=False)

    @property
    def is_refusal(self) -> bool:
        """True if nothing shows that the request is the receiver's."""
        return 400 <= self.status < 500


_UNSIGNED: Final = CallbackAnswer(401, "refused", "no receiver that takes callbacks has signed it")
_AWAY: Final = CallbackAnswer(503, "unavailable", "the acknowledgement cannot be recorded now: send it again")


class Acknowledgements:
    """Writes what people acknowledge at receivers."""

    def __init__(
        self, leadership: Leadership, fleet: Fleet, webhooks: Webhooks, clock: Callable[[], datetime]
    ) -> None:
        self._leadership, self._fleet, self._webhooks, self._clock = leadership, fleet, webhooks, clock
        self._tasks: set[asyncio.Task[Any]] = set()
        """Writes and replies under way, though the request is answered."""

    async def take(self, name: str, request: CallbackRequest) -> CallbackAnswer:
        """Answer a request of an existing kind within ANSWER_S. Never raises."""
        begun, kind = asyncio.get_running_loop().time(), callbacks.kind(name)
        try:
            async with asyncio.timeout(ANSWER_S):
                callback = await self._verify(kind, request)
        except UnreadableCallbackError as error:
            return CallbackAnswer(400, "refused", str(error))
        except TimeoutError:
            logger().warning("callback.failed", kind=name, why="the secret could not be read in time")
            return _AWAY
        if isinstance(callback, CallbackAnswer):
            return callback
        if callback is None:
            return CallbackAnswer(200, "ignored", "it is no acknowledgement by a person")
        # What is being written must not be cancelled: it may be in the log already.
        writing = self._start(self._acknowledge(kind, callback))
        left = begun + ANSWER_S - asyncio.get_running_loop().time()
        await asyncio.wait({writing}, timeout=max(0.0, left))
        decision = writing.result() if writing.done() else None
        return _AWAY if decision is None else CallbackAnswer(200, decision.result, decision.detail)

    async def drain(self, grace: timedelta) -> None:
        """Wait until what is under way is written, for `grace` at most; followers must still run."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace.total_seconds())
        for task in self._tasks:
            task.cancel()

    async def _verify(self, kind: CallbackKind, request: CallbackRequest) -> Callback | CallbackAnswer | None:
        """Read a request that is signed; an answer where it is not. Raises: UnreadableCallbackError."""
        receiver = kind.find_receiver(request)
        channel = await resolve_channel(self._fleet, receiver)
        if isinstance(channel, Temporary):
            logger().warning("callback.failed", receiver=receiver, why=channel.detail)
            return _AWAY
        secret = getattr(channel.settings, kind.SIGNED_BY) if isinstance(channel, Channel) else None
        now = self._clock()
        if not isinstance(secret, SecretStr) or not kind.is_signed(request, secret.get_secret_value(), now):
            return _UNSIGNED
        return kind.read(request, receiver, now)

    async def _acknowledge(self, kind: CallbackKind, callback: Callback) -> Decision | None:
        """Write what a callback changes; None: the log cannot be read, or takes nothing."""
        with unit_of_work("callback", receiver=callback.receiver, actor=callback.actor):
            note(key=callback.dedup_key)
            try:
                await self._leadership.follower.catch_up()
                decision = decide(callback, self._leadership.ledger, self._clock())
                if decision.event is not None:
                    await self._leadership.write_callback(decision.event, callback.draft_id)
            except LogError as error:
                note(result="unavailable", why=str(error))
                return None
            note(result=decision.result, detail=decision.detail)
        is_acknowledged = decision.result in ("acknowledged", "unchanged")
        request = kind.reply(callback, decision.detail, is_acknowledged=is_acknowledged)
        if request is not None:
            self._start(self._reply(callback.receiver, request))
        return decision

    async def _reply(self, receiver: str, request: HttpRequest) -> None:
        """Tell the person, once: the acknowledgement counts, whatever becomes of this."""
        answer = await self._webhooks.call(request, self._clock())
        if not isinstance(answer, HttpAnswer) or answer.status >= 300:
            why = f"it answered {answer.status}" if isinstance(answer, HttpAnswer) else answer.detail
            logger().warning("callback.reply_failed", receiver=receiver, why=why)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
