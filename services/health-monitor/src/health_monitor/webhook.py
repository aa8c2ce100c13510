"""Carries a notification to a receiver: one POST, a deadline, no redirects, and no secret in what it says."""

from __future__ import annotations

import asyncio
import math
import ssl
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final, Protocol

import httpx
from pydantic import SecretStr

from health_monitor.addresses import Allowed
from health_monitor.alert import Notify
from health_monitor.egress import AddressRefused, CheckedTransport, Resolve, resolve
from health_monitor.receivers import Outcome, Sent, Temporary

_ANSWER_LIMIT: Final = 64 * 1024
_HEADERS: Final = {"user-agent": "daggers-health-monitor", "accept-encoding": "identity"}
_LONGEST_WAIT: Final = timedelta(hours=1)


class Receiver(Protocol):
    """A module of `health_monitor.receivers`."""

    PACE: timedelta

    def request(self, notify: Notify, key: str) -> dict[str, Any]:
        """The JSON body that tells the receiver; `key` as in `Channel.key`, empty when there is none."""

    def outcome(self, status: int, body: str, after: timedelta | None) -> Outcome:
        """What the receiver's answer means; `after` is its Retry-After."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One configured receiver."""

    name: str
    """As events name it."""
    receiver: Receiver
    url: SecretStr
    key: SecretStr | None = None


class Webhooks:
    """Sends notifications. `timeout`: what one may take in all."""

    def __init__(
        self, allowed: Allowed, *, timeout: timedelta = timedelta(seconds=10), resolver: Resolve = resolve
    ) -> None:
        self._allowed = allowed
        self._timeout = timeout
        self._resolver = resolver
        self._context: ssl.SSLContext = httpx.create_ssl_context(trust_env=False)

    async def send(self, channel: Channel, notify: Notify, *, now: datetime) -> Outcome:
        """Send one notification; never raises for anything the network or the receiver does."""
        key = channel.key.get_secret_value() if channel.key else ""
        body = channel.receiver.request(notify, key)
        transport = CheckedTransport(self._allowed, self._context, self._resolver)
        try:
            async with (
                asyncio.timeout(self._timeout.total_seconds()),
                httpx.AsyncClient(transport=transport, trust_env=False, headers=_HEADERS) as client,
                client.stream("POST", channel.url.get_secret_value(), json=body) as response,
            ):
                answer = await _text(response)
        except TimeoutError:
            seconds = self._timeout.total_seconds()
            return Temporary("TIMEOUT", f"it did not answer in {seconds:g} s; it may have it all the same")
        except AddressRefused as error:
            return Temporary("ADDRESS_REFUSED", str(error))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Temporary("NOT_REACHED", f"it could not be reached ({type(error).__name__})")
        after = retry_after(response.headers.get("retry-after", ""), now)
        outcome = channel.receiver.outcome(response.status_code, answer, after)
        if isinstance(outcome, Sent) or not key:
            return outcome
        return replace(outcome, detail=outcome.detail.replace(key, "***"))


def retry_after(header: str, now: datetime) -> timedelta | None:
    """How long a Retry-After header (seconds or a date) asks to wait, at most an hour; None for neither."""
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
    """The beginning of an answer's body."""
    read = b""
    async for chunk in response.aiter_raw():
        read += chunk
        if len(read) >= _ANSWER_LIMIT:
            break
    return read[:_ANSWER_LIMIT].decode(errors="replace")
