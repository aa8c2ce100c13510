"""AlertService: alerts, their notifications and silences, from the fold of `daggers.alerts`.

A watch returns the alerts that changed after its sequence in the order of their newest changes. So every step
is a resume token, and neither a slow watcher nor one that resumes needs the log's history.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from datetime import datetime
from typing import Final

import grpc
from daggers.v1 import alerts_pb2, gateway_pb2, gateway_pb2_grpc

from api_gateway.rpc import paging, silences
from api_gateway.rpc.alert_log import Alerts
from api_gateway.state.reader import set_degraded
from api_gateway.validate import request_fields
from api_gateway.watch_limits import begin, damage_error, draining_error
from chassis.errors import ApiError, invalid
from chassis.interceptors import Context
from chassis.logging import note
from daggerspec import fields
from daggerspec.alertrules import key_digest
from eventlog import LogDamaged
from fleet.alerts.alert import Alert, Delivery
from fleet.alerts.ledger import Ledger
from fleet.alerts.routing.silences import build_message

_MARGIN_S: Final = 0.05

AlertMessage = gateway_pb2.Alert
Response = gateway_pb2.WatchAlertsResponse


class AlertService(gateway_pb2_grpc.AlertServiceServicer):
    """Serves alerts and their notifications."""

    def __init__(self, alerts: Alerts, away: Callable[[], str] = lambda: "") -> None:
        """Remember the alerts. `away`: why the log cannot be followed now; empty while it is."""
        self._alerts = alerts
        self._away = away

    async def ListAlerts(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ListAlertsRequest, context: Context
    ) -> gateway_pb2.ListAlertsResponse:
        """List alerts by dagger and condition, a page at a time. Raises: ApiError."""
        of = f"{request.dagger}/{request.include_resolved}"
        page, wrong_page = paging.read_page(request, of)
        wrong = [
            *(fields.name("dagger", request.dagger) if request.dagger else ()),
            *wrong_page,
            *request_fields.sequence("min_sequence", request.min_sequence),
        ]
        if wrong:
            raise invalid(wrong)
        set_degraded(context, self._alerts.follower.damage or self._away())
        await self._wait_for(context, request.min_sequence)
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
        page, wrong = paging.read_page(request, f"silences/{request.include_ended}")
        wrong += request_fields.sequence("min_sequence", request.min_sequence)
        if wrong:
            raise invalid(wrong)
        set_degraded(context, self._alerts.follower.damage or self._away())
        await self._wait_for(context, request.min_sequence)
        return silences.list_page(request, page, self._alerts)

    async def ExpireSilence(  # noqa: N802 - gRPC's name
        self, request: gateway_pb2.ExpireSilenceRequest, context: Context
    ) -> gateway_pb2.ExpireSilenceResponse:
        """End a silence now. Raises: ApiError."""
        await self._wait_for(context, 0)
        return await silences.expire(request, self._alerts)

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


def build_alert(alert: Alert, ledger: Ledger, now: datetime) -> AlertMessage:
    """Convert an alert that has fired to its message of the API, with the silence that holds it back now."""
    fired = alert.fired or alerts_pb2.AlertFired()
    silence = ledger.find_silence(alert, now)
    answer = AlertMessage(
        dagger=alert.dagger,
        condition=alert.condition,
        incident=alert.incident,
        severity=fired.severity,
        domain=fired.domain,
        summary=fired.summary,
        since=fired.since,
        resolution=alert.resolved.summary if alert.resolved else "",
        unit=fired.unit,
        generation=fired.generation,
        team=fired.team,
        deliveries=[_delivery(name, alert.deliveries[name]) for name in sorted(alert.deliveries)],
        sequence=alert.sequence,
        next=fired.next,
        rule=alert.rule,
        key=alert.key,
        values=fired.meta.values,
        silence=None if silence is None else build_message(silence),
    )
    if fired.HasField("value"):
        answer.value = fired.value
    if fired.HasField("limit"):
        answer.limit = fired.limit
    if alert.fired_at is not None:
        answer.fire_time.FromDatetime(alert.fired_at)
    if alert.until is not None:
        answer.until.FromDatetime(alert.until)
    return answer


def _delivery(receiver: str, delivery: Delivery) -> gateway_pb2.AlertDelivery:
    kind = gateway_pb2.AlertDelivery
    failure = delivery.failure or alerts_pb2.NotificationFailed()
    state = kind.STATE_PENDING
    if delivery.done:
        without_failure = kind.STATE_SENT if delivery.attempts else kind.STATE_WITHHELD
        state = kind.STATE_FAILED if delivery.failure else without_failure
    return kind(
        receiver=receiver,
        state=state,
        attempts=delivery.attempts,
        reason=failure.reason,
        detail=failure.detail,
        not_before=failure.not_before if failure.HasField("not_before") else None,
    )


def _key(alert: Alert | AlertMessage) -> str:
    """Return the key by which alerts are sorted, and which ends a page. Names contain no spaces."""
    rule = f" {alert.rule} {key_digest(alert.key)}" if alert.rule else ""
    return f"{alert.dagger} {alert.condition:03}{rule}"
