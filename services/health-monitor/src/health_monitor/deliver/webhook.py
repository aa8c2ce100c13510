"""Sends notifications: one request each, with a deadline, without redirects, and no secret in any outcome.

Calls over HTTP are made here, mail is submitted by `mail`.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

import httpx

from chassis.egress.addresses import AddressRefused, EgressRules
from chassis.egress.proxies import Proxies
from chassis.egress.transport import CheckedTransport, Resolve, resolve
from fleet.alerts.alert import Notify
from health_monitor.chart import Chart
from health_monitor.deliver import mail
from health_monitor.page import Page
from health_monitor.receivers import (
    Answer,
    HttpAnswer,
    HttpRequest,
    Outcome,
    Receiver,
    ReceiverSettings,
    Success,
    Temporary,
)
from health_monitor.silence_page import build_page

_ANSWER_LIMIT: Final = 64 * 1024
_HEADERS: Final = {"user-agent": "daggers-health-monitor", "accept-encoding": "identity"}
_LONGEST_WAIT: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Channel:
    """One configured receiver."""

    name: str
    """Name of the receiver in events: KIND, or TEAM/KIND."""
    receiver: Receiver
    settings: ReceiverSettings
    """Of the receiver's kind."""


class Webhooks:
    """Client of all receivers. `timeout`: of one notification in all. `portal`: base URL for links.
    `runbook`: URL of the runbook. `proxies`: through which requests leave.
    """

    def __init__(
        self,
        allowed: EgressRules,
        *,
        timeout: timedelta = timedelta(seconds=10),
        resolver: Resolve = resolve,
        portal: str = "",
        runbook: str = "",
        proxies: Proxies = Proxies(),  # noqa: B008 - it is frozen
    ) -> None:
        self._proxies = proxies
        self._allowed = allowed
        self._timeout = timeout
        self._portal, self._runbook = portal, runbook
        self._resolver = resolver
        self._context: ssl.SSLContext = httpx.create_ssl_context()  # of the environment's authorities

    async def send(
        self, channel: Channel, notify: Notify, *, now: datetime, chart: Chart | None = None
    ) -> Outcome:
        """Send one notification, with its chart where the receiver takes pictures, and redact the outcome.
        Never raises, whatever network or receiver do.
        """
        page = (
            Page(notify, self._portal, now, chart, self._runbook)
            if notify.ending is None
            else build_page(notify, self._portal, now, self._runbook)
        )
        request = channel.receiver.request(page, channel.settings)
        answer: Answer | Temporary
        if isinstance(request, HttpRequest):
            answer = await self.call(request, now)
        else:
            answer = await mail.submit(
                request,
                allowed=self._allowed,
                resolver=self._resolver,
                context=self._context,
                limit=self._timeout,
            )
        if isinstance(answer, Temporary):
            return answer
        outcome = channel.receiver.outcome(answer)
        if isinstance(outcome, Success):
            return outcome
        return replace(outcome, detail=channel.settings.redact(outcome.detail))

    async def call(self, request: HttpRequest, now: datetime) -> HttpAnswer | Temporary:
        """Send one request; Temporary: no answer came. Never raises, whatever the network does."""
        headers = {**_HEADERS, **request.headers}
        transport = CheckedTransport(self._allowed, self._context, self._resolver, self._proxies)
        try:
            async with (
                asyncio.timeout(self._timeout.total_seconds()),
                httpx.AsyncClient(transport=transport, trust_env=False, headers=headers) as client,
                client.stream(request.method, request.url, content=request.body) as response,
            ):
                text = await _text(response)
        except TimeoutError:
            seconds = self._timeout.total_seconds()
            return Temporary("TIMEOUT", f"it did not answer in {seconds:g} s; it may have it all the same")
        except AddressRefused as error:
            return Temporary("ADDRESS_REFUSED", str(error))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Temporary("NOT_REACHED", f"it could not be reached ({type(error).__name__})")
        after = retry_after(response.headers.get("retry-after", ""), now)
        return HttpAnswer(response.status_code, text, after)


def retry_after(header: str, now: datetime) -> timedelta | None:
    """Parse a Retry-After header, seconds or a date, and cap it at an hour; None when it is neither."""
    try:
        seconds = float(header)
    except ValueError:
        try:
            until = parsedate_to_datetime(header)
        except ValueError:
            return None
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        seconds = (until - now).total_seconds()
    if not math.isfinite(seconds) or seconds < 0:
        return None
    return min(timedelta(seconds=min(seconds, 1e6)), _LONGEST_WAIT)


async def _text(response: httpx.Response) -> str:
    """Read the first _ANSWER_LIMIT bytes of an answer's body."""
    read = b""
    async for chunk in response.aiter_raw():
        read += chunk
        if len(read) >= _ANSWER_LIMIT:
            break
    return read[:_ANSWER_LIMIT].decode(errors="replace")
