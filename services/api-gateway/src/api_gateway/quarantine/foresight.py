"""What a replay would say of records, as the host of a dagger's driver finds by Kafka and its checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from daggers.v1 import events_pb2, gateway_pb2, host_pb2, telemetry_pb2

from api_gateway.hosts.client import Hosts, in_time
from api_gateway.state.reader import say_degraded
from chassis.interceptors import Context
from fleet import Dagger

PATIENCE_S: Final = 25.0
"""How long a dry run waits for a host."""
MOST: Final = 200_000
"""Of more records nobody waits for what is said of each."""


async def foreseen(
    hosts: Hosts,
    dagger: Dagger,
    asked: events_pb2.QuarantineReplayRequested,
    edits: Sequence[telemetry_pb2.QuarantineEdited],
    context: Context,
) -> Sequence[gateway_pb2.QuarantineForecast] | None:
    """What is expected of the records that are meant; None where nobody could look, as the answer tells."""
    if asked.records > MOST:
        say_degraded(context, f"of more than {MOST:,} records their host is not asked: choose fewer")
        return None

    request = host_pb2.ForeseeHostReplayRequest(asked=asked, edits=edits)
    steps = hosts.ask(dagger, lambda host: host.ForeseeHostReplay, request, context)
    said, why = await in_time(steps, context, PATIENCE_S)
    if said:
        return said[0].forecast
    why = why or "it was never launched"
    say_degraded(context, f"what records hold was not looked at: {why}")
    return None
