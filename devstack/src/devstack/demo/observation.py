"""What the daggers of a demo say and have written: phases, rows, late and quarantined records."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from daggers.v1 import gateway_pb2, spec_pb2, telemetry_pb2

from cli.gateway import Gateway
from cli.sinks import influx
from cli.sinks.kafka import tail
from cli.sinks.row import Row
from daggerspec.topics import HEARTBEATS
from devstack.state import Stack

ALL_ROWS = 1_000_000
BEATS = 500
MOST_QUARANTINED = 1000


@dataclass(frozen=True)
class Reported:
    """What a dagger's newest heartbeat of each launch adds up to."""

    rows_in: int
    late: int
    quarantined: Mapping[str, int]


def rows(dagger: gateway_pb2.Dagger) -> list[Row]:
    """Every row of a dagger's first InfluxDB sink."""
    sink = next(each.sink.influx for each in dagger.sinks if each.sink.HasField("influx"))
    return influx.read(sink.address, sink.measurement or dagger.name, ALL_ROWS)


def reported(stack: Stack, name: str) -> Reported:
    """What a dagger says of itself."""
    newest: dict[int, telemetry_pb2.Heartbeat] = {}
    for message in tail(spec_pb2.KafkaAddress(bootstrap_servers=stack.kafka), HEARTBEATS, BEATS):
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
