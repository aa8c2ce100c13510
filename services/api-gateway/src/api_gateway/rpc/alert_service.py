"""AlertService: alerts, their notifications, silences, acknowledgements and routes, from the fold of
`daggers.alerts`.

A watch returns the alerts that changed after its sequence in the order of their newest changes. So every step
is a resume token, and neither a slow watcher nor one that resumes needs the log's history.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing
from typing import Final, Protocol

import grpc
from daggers.v1 import gateway_pb2, gateway_pb2_grpc

from api_gateway.rpc import acknowledgements, explain_condition, paging, receiver_tests, routes, silences
from api_gateway.rpc.alert_log import Alerts
from api_gateway.rpc.alert_messages import build_alert
from api_gateway.state.heartbeat_cache import HeartbeatCache
from api_gateway.state.minute_sums import MinuteCache
from api_gateway.state.reader import set_degraded
from api_gateway.validate import request_fields
from api_gateway.watch_limits import begin, damage_error, draining_error
from chassis.errors import ApiError, invalid
from chassis.interceptors import Context
from chassis.logging import note
from daggerspec import fields
from daggerspec.alertrules import key_digest
from daggerspec.violation import Violation
from eventlog import LogDamaged
from fleet import Fleet
from fleet.alerts.alert import Alert

_MARGIN_S: Final = 0.05

AlertMessage = gateway_pb2.Alert
Response = gateway_pb2.WatchAlertsResponse


class ListRequest(paging.PageRequest, Protocol):
    """A request for a page of what was written up to a sequence at least."""

    min_sequence: int


class AlertService(gateway_pb2_grpc.AlertServiceServicer):
    """Serves alerts and their notifications."""

    def __init__(
        self,
        alerts: Alerts,
        fleet: Fleet,
        away: Callable[[], str] = lambda: "",
        *,
        heartbeats: HeartbeatCache,
        minutes: MinuteCache,
    ) -> None:
        """Remember the alerts. `away`: why the log cannot be followed now; empty while it is."""
        self._alerts, self._fleet = alerts, fleet
        self._heartbeats, self._minutes = heartbeats, minutes
        self._away = away

    async def ListAlerts(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListAlertsRequest, context: Context
    ) -> gateway_pb2.ListAlertsResponse:
        """List alerts by dagger and condition, a page at a time. Raises: ApiError."""
        wrong = fields.name("dagger", request.dagger) if request.dagger else ()
        of = f"{request.dagger}/{request.include_resolved}"
        page = await self._begin_list(request, context, of, wrong)
        ledger = self._alerts.ledger
        selected = {
            key: alert
            for alert in ledger.alerts.values()
            if request.dagger in ("", alert.dagger)
            and (alert.firing or request.include_resolved)
            and (key := _key(alert)) > page.after
        }
        now = self._alerts.clock()
        listed = [build_alert(selected[key], ledger, now) for key in sorted(selected)[: page.limit]]
        alerts, more = page.cut(listed, _key)
        note(alerts=len(alerts))
        return gateway_pb2.ListAlertsResponse(alerts=alerts, next_page_token=more, sequence=ledger.sequence)

    async def WatchAlerts(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.WatchAlertsRequest, context: Context
    ) -> AsyncIterator[gateway_pb2.WatchAlertsResponse]:
        """Yield the open alerts, unless a sequence is given, and then each change."""
        async with aclosing(watch(request, self._alerts)) as steps:
            async for step in steps:
                yield step

    async def CreateSilence(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.CreateSilenceRequest, context: Context
    ) -> gateway_pb2.CreateSilenceResponse:
        """Hold back notifications of the alerts that matchers match. Raises: ApiError."""
        await self._wait_for(context, 0)
        return await silences.create(request, self._alerts)

    async def ListSilences(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListSilencesRequest, context: Context
    ) -> gateway_pb2.ListSilencesResponse:
        """List the silences that are not over, a page at a time. Raises: ApiError."""
        page = await self._begin_list(request, context, f"silences/{request.include_ended}")
        return silences.list_page(request, page, self._alerts)

    async def ExpireSilence(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ExpireSilenceRequest, context: Context
    ) -> gateway_pb2.ExpireSilenceResponse:
        """End a silence now. Raises: ApiError."""
        await self._wait_for(context, 0)
        return await silences.expire(request, self._alerts)

    async def AcknowledgeAlerts(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.AcknowledgeAlertsRequest, context: Context
    ) -> gateway_pb2.AcknowledgeAlertsResponse:
        """Say that the caller looks after open alerts. Raises: ApiError."""
        await self._wait_for(context, 0)
        return await acknowledgements.acknowledge(request, self._alerts)

    async def UnacknowledgeAlerts(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.UnacknowledgeAlertsRequest, context: Context
    ) -> gateway_pb2.UnacknowledgeAlertsResponse:
        """Take acknowledgements of open alerts back. Raises: ApiError."""
        await self._wait_for(context, 0)
        return await acknowledgements.unacknowledge(request, self._alerts)

    async def ApplyRoutes(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ApplyRoutesRequest, context: Context
    ) -> gateway_pb2.ApplyRoutesResponse:
        """Give a team a tree of routes. Raises: ApiError."""
        await self._wait_for(context, 0)
        return await routes.apply(request, self._alerts, self._fleet)

    async def DeleteRoutes(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.DeleteRoutesRequest, context: Context
    ) -> gateway_pb2.DeleteRoutesResponse:
        """Take a team's routes away. Raises: ApiError."""
        await self._wait_for(context, 0)
        return await routes.delete(request, self._alerts)

    async def ListRoutes(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListRoutesRequest, context: Context
    ) -> gateway_pb2.ListRoutesResponse:
        """List the newest routes of each team, or the revisions of one, by pages. Raises: ApiError."""
        page = await self._begin_list(request, context, f"routes/{request.team}")
        return routes.list_page(request, page, self._alerts)

    async def ExplainRoute(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ExplainRouteRequest, context: Context
    ) -> gateway_pb2.ExplainRouteResponse:
        """Say who would be told of an alert, why, and when. Raises: ApiError."""
        await self._wait_for(context, 0)
        return routes.explain(request, self._alerts, self._fleet)

    async def ExplainCondition(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ExplainConditionRequest, context: Context
    ) -> gateway_pb2.ExplainConditionResponse:
        """Say when a condition of a dagger is an alert, and what is so now. Raises: ApiError."""
        await self._wait_for(context, 0)
        return explain_condition.explain(request, self._alerts, self._fleet, self._heartbeats, self._minutes)

    async def TestReceivers(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.TestReceiversRequest, context: Context
    ) -> gateway_pb2.TestReceiversResponse:
        """Send a test to receivers of a team, and return their answers. Raises: ApiError."""
        await self._wait_for(context, 0)
        return await receiver_tests.run(request, self._alerts, self._fleet, context)

    async def _begin_list(
        self, request: ListRequest, context: Context, of: str, wrong: Iterable[Violation] = ()
    ) -> paging.Page:
        """Return the page that is asked for, once the alerts are read as far as the request wants. `wrong`:
        what else is wrong with it. Raises: ApiError.
        """
        page, wrong_page = paging.read_page(request, of)
        violations = [
            *wrong,
            *wrong_page,
            *request_fields.sequence("min_sequence", request.min_sequence),
        ]
        if violations:
            raise invalid(violations)
        set_degraded(context, self._alerts.follower.damage or self._away())
        await self._wait_for(context, request.min_sequence)
        return page

    async def _wait_for(self, context: Context, sequence: int) -> None:
        # 0 is also the value of an unset field: no sequence is required
        remaining = context.time_remaining()
        try:
            async with asyncio.timeout(max(remaining - _MARGIN_S, 0) if remaining is not None else None):
                await self._alerts.wait_for(sequence or -1)
        except TimeoutError as error:
            reached = self._alerts.follower.sequence
            text = f"the alerts are read up to sequence {reached}, and not as far as asked yet"
            metadata = {"asked": str(sequence), "reached": str(reached)}
            raise ApiError(grpc.StatusCode.DEADLINE_EXCEEDED, "NOT_REACHED", text, metadata) from error
        except LogDamaged as error:
            if sequence:
                raise damage_error(str(error), self._alerts.follower.sequence) from error


async def watch(
    request: gateway_pb2.WatchAlertsRequest, alerts: Alerts
) -> AsyncGenerator[gateway_pb2.WatchAlertsResponse, None]:
    """Yield the steps of one watch. Raises: ApiError, as `watch_limits.begin`; DRAINING when the gateway
    ends.
    """
    since = request.since_sequence if request.HasField("since_sequence") else None
    follower, ledger = alerts.follower, alerts.ledger
    await begin("dagger", request.dagger, since, alerts.log.end, follower)
    position, only_open = (-1, True) if since is None else (since, False)
    while True:
        end = ledger.sequence
        for alert in ledger.changed_since(position):
            if request.dagger in ("", alert.dagger) and (alert.firing or not only_open):
                message = build_alert(alert, ledger, alerts.clock())
                yield Response(alert=message, sequence=alert.sequence)
        position = end
        if only_open:
            only_open = False
            yield Response(sequence=position)
        await follower.until(lambda: bool(ledger.sequence > end or follower.draining or follower.damage))  # noqa: B023 - awaited here
        if follower.draining or follower.damage:
            break
    if follower.damage:
        raise damage_error(follower.damage, follower.sequence)
    note(sequence=position)
    yield Response(sequence=position)
    raise draining_error(position)


def _key(alert: Alert | AlertMessage) -> str:
    """Return the key by which alerts are sorted, and which ends a page. Names contain no spaces."""
    rule = f" {alert.rule} {key_digest(alert.key)}" if alert.rule else ""
    return f"{alert.dagger} {alert.condition:03}{rule}"
