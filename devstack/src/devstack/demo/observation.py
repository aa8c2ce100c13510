"""Observe what the daggers of a demo say and have written: phases, rows, late and quarantined records."""

import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from daggers.v1 import gateway_pb2, telemetry_pb2

from cli.errors import CliError
from cli.framework.gateway import Gateway
from cli.framework.row_reads import read, watch_rows
from daggerspec.row import Row
from daggerspec.topics import HEARTBEATS
from devstack.state import Stack
from devstack.topictail import tail

SINK = "influx"
PAUSE_S = 0.1
ALL_ROWS = 1_000_000
BEATS = 500
MOST_QUARANTINED = 1000


@dataclass(frozen=True)
class HeartbeatSums:
    """Sums of a dagger's newest heartbeats, one for each launch."""

    rows_in: int
    late: int
    quarantined: Mapping[str, int]


class Watch:
    """The newest rows of a dagger as they come, collected by a thread until the block ends.

    To look again and again by `rows` would cost a process each time.
    """

    def __init__(self, gateway: Gateway, name: str) -> None:
        self._gateway, self._name = gateway, name
        self._rows: dict[tuple[object, ...], Row] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"rows of {name}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def rows(self) -> list[Row]:
        """Return what has come so far, newest first."""
        with self._lock:
            rows = list(self._rows.values())
        return sorted(rows, key=lambda row: row.time.timestamp() if row.time else 0.0, reverse=True)

    def _follow(self) -> None:
        while not self._over.wait(PAUSE_S):
            with suppress(CliError):  # begun anew: what is compared in the end is read, not watched
                for look in watch_rows(self._gateway, self._name, SINK):
                    with self._lock:
                        self._rows |= {row.identity: row for row in look.rows}
                    if self._over.is_set():
                        return


def rows(gateway: Gateway, name: str, sink: str = SINK) -> list[Row]:
    """Read every row in a sink of a dagger."""
    return read(gateway, gateway_pb2.ReadRowsRequest(name=name, sink=sink, limit=ALL_ROWS))


def sum_heartbeats(stack: Stack, name: str) -> HeartbeatSums:
    """Sum up what a dagger says of itself."""
    newest: dict[int, telemetry_pb2.Heartbeat] = {}
    for message in tail(stack.kafka, HEARTBEATS, BEATS):
        if message.key() == name.encode():
            beat = telemetry_pb2.Heartbeat.FromString(message.value() or b"")
            newest[beat.generation] = beat
    quarantined: Counter[str] = Counter()
    for beat in newest.values():
        quarantined.update(dict(beat.quarantined))
    return HeartbeatSums(
        sum(beat.rows_in for beat in newest.values()),
        sum(beat.late_rows for beat in newest.values()),
        quarantined,
    )


def set_aside(gateway: Gateway, name: str) -> Counter[str]:
    """Count how many records of a dagger stand in quarantine, by reason."""
    request = gateway_pb2.ListQuarantinedRequest(dagger=name, page_size=MOST_QUARANTINED)
    answer = gateway.call(gateway.quarantine.ListQuarantined, request)
    return Counter(record.reason for record in answer.records)
