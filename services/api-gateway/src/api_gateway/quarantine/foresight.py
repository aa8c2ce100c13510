"""Forecast a replay's outcomes on the host of the dagger's driver, which reads Kafka and the checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from daggers.v1 import events_pb2, gateway_pb2, host_pb2, telemetry_pb2

from api_gateway.hosts.client import Hosts, in_time
from api_gateway.state.reader import set_degraded
from chassis.interceptors import Context
from fleet import Dagger

PATIENCE_S: Final = 25.0
"""Longest wait of a dry run for a host, in seconds."""
MOST: Final = 200_000
"""Above this number of records no forecast is asked for: it would take too long."""


async def forecast_replay(
    hosts: Hosts,
    dagger: Dagger,
    replay_request: events_pb2.QuarantineReplayRequested,
    edits: Sequence[telemetry_pb2.QuarantineEdited],
    context: Context,
) -> Sequence[gateway_pb2.QuarantineForecast] | None:
    """Return the forecast of the records' outcomes; None where no host could make one, and then degrade the
    response.
    """
    if replay_request.records > MOST:
        set_degraded(context, f"of more than {MOST:,} records their host is not asked: choose fewer")
        return None

    request = host_pb2.ForeseeHostReplayRequest(asked=replay_request, edits=edits)
    steps = hosts.ask(dagger, lambda host: host.ForeseeHostReplay, request, context)
    forecasts, why = await in_time(steps, context, PATIENCE_S)
    if forecasts:
        return forecasts[0].forecast
    why = why or "it was never launched"
    set_degraded(context, f"what records hold was not looked at: {why}")
    return None
