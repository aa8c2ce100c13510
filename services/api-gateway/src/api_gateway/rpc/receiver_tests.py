"""Tests of receivers: asked for in `daggers.alerts`, carried out by the leading monitor."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta
from typing import Final

import grpc
from daggers.v1 import alerts_pb2, gateway_pb2

from api_gateway.not_found import no_entry
from api_gateway.rpc.alert_log import Alerts
from chassis.errors import ApiError, invalid
from chassis.interceptors import Context, actor
from chassis.logging import note
from daggerspec import receivers
from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation
from fleet import Fleet
from fleet.alerts.alert import PLATFORM
from fleet.alerts.receiver_tests import IN_TIME, ReceiverTest

pb = gateway_pb2
MOST: Final = 6
"""Tests of a team within a minute: they reach people."""
_WITHIN: Final = timedelta(minutes=1)
_MARGIN_S: Final = 0.5


async def run(
    request: pb.TestReceiversRequest, alerts: Alerts, fleet: Fleet, context: Context
) -> pb.TestReceiversResponse:
    """Ask for a test, and wait for what became of it. Raises: ApiError, with who has to be asked for what is
    missing, or where no monitor answers in time.
    """
    _check(request, fleet)
    recent = [*alerts.ledger.receiver_tests.list_since(request.team, alerts.clock() - _WITHIN)]
    if len(recent) >= MOST:
        raise _too_many_error(request.team, recent, alerts)
    id_ = uuid.uuid4().hex
    event = alerts_pb2.ReceiverTestRequested(test_id=id_, team=request.team, kind=request.kind, actor=actor())
    await alerts.append(f"receiver-test/{id_}", id_, event, "")
    tests, follower = alerts.ledger.receiver_tests.by_id, alerts.follower
    remaining = context.time_remaining()
    wait_s = IN_TIME.total_seconds() if remaining is None else max(remaining - _MARGIN_S, 0)
    try:
        async with asyncio.timeout(min(wait_s, IN_TIME.total_seconds())):
            await follower.until(
                lambda: tests[id_].results is not None or bool(follower.draining or follower.damage)
            )
    except TimeoutError as error:
        raise _unanswered_error(request.team) from error
    results = tests[id_].results
    if results is None:
        raise _unanswered_error(request.team)
    note(team=request.team, receivers=len(results), delivered=sum(result.delivered for result in results))
    return pb.TestReceiversResponse(results=results, sequence=alerts.ledger.sequence)


def _check(request: pb.TestReceiversRequest, fleet: Fleet) -> None:
    """Refuse a test of what is not there. Raises: ApiError."""
    entry = fleet.catalogue.teams.get(request.team)
    if request.team == PLATFORM:  # the settings of monitors name receivers, too
        if request.kind and request.kind not in receivers.names():
            raise invalid([_unknown_kind(request.kind, receivers.names(), "no kind of receiver")])
        return
    if entry is None:
        raise no_entry("team", request.team, fleet.catalogue.teams)
    kinds = [receiver.kind for receiver in entry.value.receivers]
    if not kinds:
        text = f"team {request.team} has no receivers: its file names them"
        raise invalid([Violation("team", text, "NO_RECEIVERS")])
    if request.kind and request.kind not in kinds:
        raise invalid([_unknown_kind(request.kind, kinds, f"no receiver of team {request.team}")])


def _unknown_kind(kind: str, kinds: list[str] | tuple[str, ...], mistake: str) -> Violation:
    names = f": {', '.join(kinds)}"
    text = f"{kind} is {mistake}{hint(nearest(kind, kinds), names)}"
    return Violation("kind", text, "NOT_A_RECEIVER")


def _too_many_error(team: str, recent: list[ReceiverTest], alerts: Alerts) -> ApiError:
    wait = min(test.time for test in recent) + _WITHIN - alerts.clock()
    text = f"receivers of team {team} were tested {len(recent)} times within a minute: try again later"
    metadata = {"limit": "receiver_tests", "most": str(MOST), "principal": actor()}
    return ApiError(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "TOO_MUCH_ASKED",
        text,
        metadata,
        retry_after=max(wait, timedelta()),
    )


def _unanswered_error(team: str) -> ApiError:
    text = (
        "no health monitor has taken the test in time: does one run that leads? Receivers of team"
        f" {team} may have been sent it all the same"
    )
    return ApiError(grpc.StatusCode.FAILED_PRECONDITION, "NO_MONITOR", text, {"team": team})
