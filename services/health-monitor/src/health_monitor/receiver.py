"""`python -m health_monitor.receiver`: prints notifications, for the embedded stack and for tests.

It listens on loopback only and imitates Slack's incoming webhooks at /slack and PagerDuty's Events v2 at
/v2/enqueue, where events with the dedup key of an open incident belong to that incident.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from html import unescape
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import web

from chassis import logging, settings, shutdown

PROG: Final = "python -m health_monitor.receiver"
_HOST: Final = "127.0.0.1"
"""Loopback only, as this receiver checks no keys."""
_PORT: Final = 9199
_MAX_PORT: Final = 65_535
_DATE: Final = re.compile(r"<!date\^[^|>]*\|([^>]*)>")
_EVENT_LIMIT: Final = 512 * 1024
_SUMMARY_LIMIT: Final = 1024
_DEDUP_KEY_LIMIT: Final = 255
_SEVERITIES: Final = ("critical", "error", "warning", "info")
_ACTIONS: Final = ("trigger", "acknowledge", "resolve")


@dataclass(frozen=True, slots=True)
class ReceivedCall:
    """Call that arrived."""

    host: str
    """Host header."""
    body: Any
    """Decoded JSON; None when it was none."""


Misbehave = Callable[[ReceivedCall], Awaitable[web.StreamResponse | None]]
"""Returns an answer in place of the receiver's own; None: let the receiver answer."""


async def behave(_: ReceivedCall) -> None:
    """Let the receiver answer."""


class AlertReceiver:
    """HTTP server on loopback; an async context manager that listens while it is open.

    `show` gets a line for a person for each accepted notification; `misbehave` may answer a call itself.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        show: Callable[[str], None],
        misbehave: Misbehave = behave,
    ) -> None:
        self.host, self.port = host, port
        self.received: list[ReceivedCall] = []
        """All calls, in order."""
        self._show = show
        self._misbehave = misbehave
        self._open: set[str] = set()
        application = web.Application(client_max_size=2 * _EVENT_LIMIT)
        application.router.add_post("/slack", self._slack)
        application.router.add_post("/v2/enqueue", self._pagerduty)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, self.host, self.port).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    @property
    def slack_url(self) -> str:
        """URL of Slack's webhook."""
        return f"http://{self.host}:{self.port}/slack"

    @property
    def pagerduty_url(self) -> str:
        """URL of PagerDuty's endpoint."""
        return f"http://{self.host}:{self.port}/v2/enqueue"

    async def _slack(self, request: web.Request) -> web.StreamResponse:
        received, misbehaved = await self._receive(request)
        if misbehaved is not None:
            return misbehaved
        text = received.body.get("text") if isinstance(received.body, dict) else None
        if not isinstance(text, str):
            return web.Response(status=400, text="invalid_payload")
        if not text:
            return web.Response(status=400, text="no_text")
        self._show(f"slack      {plain(text)}".replace("\n", "\n           "))
        return web.Response(text="ok")

    async def _pagerduty(self, request: web.Request) -> web.StreamResponse:
        received, misbehaved = await self._receive(request)
        if misbehaved is not None:
            return misbehaved
        errors = event_errors(received.body, size=request.content_length or 0)
        if errors:
            answer = {"status": "invalid event", "message": "Event object is invalid", "errors": errors}
            return web.json_response(answer, status=400)
        event = received.body
        key = event.get("dedup_key") or f"{len(self.received):032x}"
        self._show(f"pagerduty  {self._effect(event, key)}")
        answer = {"status": "success", "message": "Event processed", "dedup_key": key}
        return web.json_response(answer, status=202)

    async def _receive(self, request: web.Request) -> tuple[ReceivedCall, web.StreamResponse | None]:
        try:
            body = json.loads(await request.read())
        except ValueError:
            body = None
        received = ReceivedCall(request.host, body)
        self.received.append(received)
        return received, await self._misbehave(received)

    def _effect(self, event: dict[str, Any], key: str) -> str:
        """Apply the event to the incident of its key, and describe the effect."""
        is_open = key in self._open
        if event["event_action"] == "trigger":
            self._open.add(key)
            text = f"{event['payload']['severity'].upper()} {event['payload']['summary']}"
            return f"{'repeated' if is_open else 'triggered'}  {text}  [{key}]"
        if event["event_action"] == "resolve":
            self._open.discard(key)
            return f"resolved   [{key}]" if is_open else f"resolved   [{key}] (no such incident)"
        return f"acknowledged [{key}]"


def plain(text: str) -> str:
    """Render Slack's markup as plain text."""
    return unescape(_DATE.sub(r"\1", text))


def event_errors(event: Any, *, size: int) -> list[str]:
    """List the errors that PagerDuty would answer to an event of `size` bytes."""
    if not isinstance(event, dict):
        return ["it is not a JSON object"]
    errors = []
    if size > _EVENT_LIMIT:
        errors.append(f"the event is larger than {_EVENT_LIMIT} bytes")
    if not isinstance(event.get("routing_key"), str) or len(event["routing_key"]) != 32:
        errors.append("Length of 'routing_key' is incorrect (should be 32 characters)")
    if event.get("event_action") not in _ACTIONS:
        errors.append("'event_action' is missing or invalid")
    key = event.get("dedup_key", "")
    if not isinstance(key, str) or len(key) > _DEDUP_KEY_LIMIT:
        errors.append(f"'dedup_key' is longer than {_DEDUP_KEY_LIMIT} characters")
    if event.get("event_action") != "trigger":
        return errors if key else [*errors, "'dedup_key' is missing or blank"]
    payload = event.get("payload")
    if not isinstance(payload, dict):
        return [*errors, "'payload' is missing or blank"]
    if not isinstance(payload.get("summary"), str) or not 0 < len(payload["summary"]) <= _SUMMARY_LIMIT:
        errors.append("'payload.summary' is missing, blank or too long")
    if not isinstance(payload.get("source"), str) or not payload["source"]:
        errors.append("'payload.source' is missing or blank")
    if payload.get("severity") not in _SEVERITIES:
        errors.append(f"'payload.severity' is invalid (must be one of {', '.join(_SEVERITIES)})")
    return errors


async def serve(port: int) -> None:
    """Listen until SIGTERM or SIGINT. Raises: OSError when the port is taken."""
    stop = shutdown.on_signal()
    async with AlertReceiver(host=_HOST, port=port, show=_say) as receiver:
        _say(f"listening on {receiver.host}:{receiver.port}")
        await stop.wait()


def main(argv: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT; return the exit code."""
    parser = argparse.ArgumentParser(prog=PROG, description="Prints what on-call would get.")
    parser.add_argument(
        "--port", type=_port, default=_PORT, help=f"to listen on ({_PORT}); 0: any free one, which is printed"
    )
    port: int = parser.parse_args(argv).port
    if problems := settings.list_removed("DAGGERS_RECEIVER_"):
        settings.refuse(problems, prog=PROG)
    logging.configure("alert-receiver")
    try:
        asyncio.run(serve(port))
    except OSError as error:
        sys.stderr.write(f"{PROG}: {_HOST}:{port}: {error.strerror}\n")
        return 1
    return 0


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _MAX_PORT:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to {_MAX_PORT}")
    return int(text)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
