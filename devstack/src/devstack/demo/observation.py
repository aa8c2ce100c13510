"""What the daggers of a demo say and have written: phases, rows, late and quarantined records."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from daggers.v1 import gateway_pb2, telemetry_pb2

from cli.gateway import Gateway
from cli.rows import Row, newest
from daggerspec.topics import HEARTBEATS
from devstack.state import Stack
from devstack.topictail import tail

ALL_ROWS = 1_000_000
BEATS = 500
MOST_QUARANTINED = 1000


@dataclass(frozen=True)
class Reported:
    """What a dagger's newest heartbeat of each launch adds up to."""

    rows_in: int
    late: int
    quarantined: Mapping[str, int]


def rows(gateway: Gateway, name: str) -> list[Row]:
    """Every row in a dagger's InfluxDB."""
    return newest(gateway, name, ALL_ROWS, "influx")


def reported(stack: Stack, name: str) -> Reported:
    """What a dagger says of itself."""
    newest: dict[int, telemetry_pb2.Heartbeat] = {}
    for message in tail(stack.kafka, HEARTBEATS, BEATS):
        if message.key() == name.encode():
            beat = telemetry_pb2.Heartbeat.FromString(message.value() or b"")
            newest[beat.generation] = beat
    quarantined: Counter[str] = Counter()
    for beat in newest.values():
        quarantined.update(dict(beat.quarantined))
    return Reported(
        sum(beat.rows_in for beat in newest.values()),
        sum(beat.late_rows for beat in newest.values()),
        quarantined,
    )


def set_aside(gateway: Gateway, name: str) -> Counter[str]:
    """How many records of a dagger stand in quarantine, by reason."""
    request = gateway_pb2.ListQuarantinedRequest(dagger=name, page_size=MOST_QUARANTINED)
    answer = gateway.call(gateway.quarantine.ListQuarantined, request)
    return Counter(record.reason for record in answer.records)
