"""Tests of receivers through a gateway: what is asked for, refused and answered, and to whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest
from daggers.v1 import access_pb2, alerts_pb2, gateway_pb2
from tests.alertcallers import AlertCaller, append_alerts
from tests.tenants import FILE

from api_gateway.rpc.receiver_tests import MOST
from chassis.errors import ApiError
from eventlog.memory import MemoryLog

pb = gateway_pb2
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]
REFUSED = alerts_pb2.ReceiverTestResult(
    receiver="pricing/slack", reason="REFUSED", detail="it answered 403: channel_is_archived"
)


@pytest.fixture
async def root(harness: Any) -> AsyncIterator[AlertCaller]:
    await append_alerts(harness.alerts, alerts_pb2.MonitorStarted(monitor_id="one"))
    async with harness.running(MemoryLog(), tokens=lambda: FILE, enforce=True) as client:
        caller = AlertCaller(client.channel)
        slack = access_pb2.TeamReceiver(kind="slack", secrets={"url": {"file": "/run/secrets/slack"}})
        await caller.call("RegisterTeam", team=access_pb2.Team(name="pricing", receivers=[slack]))
        await caller.call("RegisterTeam", team=access_pb2.Team(name="supply"))
        yield caller


async def answer_tests(log: MemoryLog) -> None:
    """Conclude each test that is asked for, as a monitor does."""
    seen = -1
    while True:
        async for record in log.replay(seen):
            seen = record.sequence
            if isinstance(record.message, alerts_pb2.ReceiverTestRequested):
                done = alerts_pb2.ReceiversTested(epoch=0, test_id=record.message.test_id, results=[REFUSED])
                await append_alerts(log, done)
        await asyncio.sleep(0.01)


async def test_a_test_is_answered_with_what_the_far_side_said(root: AlertCaller, harness: Any) -> None:
    monitor = asyncio.create_task(answer_tests(harness.alerts))
    editor = await root.create_account("editor", "pricing", access_pb2.ROLE_EDITOR)
    answer = await editor.call("TestReceivers", team="pricing", kind="slack")
    monitor.cancel()
    requests = [
        record.message
        async for record in harness.alerts.replay()
        if isinstance(record.message, alerts_pb2.ReceiverTestRequested)
    ]

    assert list(answer.results) == [REFUSED]
    assert [(each.team, each.kind, each.actor) for each in requests] == [
        ("pricing", "slack", "account:editor")
    ]


@pytest.mark.parametrize(
    ("fields", "code", "reason", "words"),
    [
        ({"team": "prizing"}, grpc.StatusCode.NOT_FOUND, "NOT_FOUND", "pricing"),
        ({"team": "supply"}, grpc.StatusCode.INVALID_ARGUMENT, "NO_RECEIVERS", "supply has no receivers"),
        (
            {"team": "pricing", "kind": "slak"},
            grpc.StatusCode.INVALID_ARGUMENT,
            "NOT_A_RECEIVER",
            "did you mean slack?",
        ),
        (
            {"team": "platform", "kind": "slak"},
            grpc.StatusCode.INVALID_ARGUMENT,
            "NOT_A_RECEIVER",
            "did you mean slack?",
        ),
    ],
)
async def test_a_test_of_what_is_not_there_is_refused(
    root: AlertCaller,
    refusal: Refused,
    fields: dict[str, str],
    code: grpc.StatusCode,
    reason: str,
    words: str,
) -> None:
    error = await refusal(root.call("TestReceivers", **fields))

    assert error.code == code
    assert reason in (error.reason, *(violation.reason for violation in error.violations))
    assert words in error.message + str(error.violations)


async def test_only_editors_of_the_team_test_its_receivers(root: AlertCaller, refusal: Refused) -> None:
    viewer = await root.create_account("viewer", "pricing", access_pb2.ROLE_VIEWER)
    other = await root.create_account("other", "supply", access_pb2.ROLE_OWNER)
    errors = [await refusal(caller.call("TestReceivers", team="pricing")) for caller in (viewer, other)]

    assert {error.reason for error in errors} == {"ROLE_MISSING"}


async def test_a_test_that_no_monitor_takes_says_so(root: AlertCaller, refusal: Refused) -> None:
    request = pb.TestReceiversRequest(team="pricing")
    error = await refusal(root.bearer.TestReceivers(request, timeout=1.5))

    assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "NO_MONITOR")


async def test_people_are_not_woken_by_many_tests(root: AlertCaller, harness: Any, refusal: Refused) -> None:
    monitor = asyncio.create_task(answer_tests(harness.alerts))
    for _ in range(MOST):
        await root.call("TestReceivers", team="pricing")
    error = await refusal(root.call("TestReceivers", team="pricing"))
    monitor.cancel()

    assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MUCH_ASKED")
    assert error.retry_after is not None
