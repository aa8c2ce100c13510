"""Read rows of a dagger through the gateway, by the flags of a command."""

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from daggers.v1 import gateway_pb2

from cli.errors import MisusedError
from cli.framework.gateway import Gateway
from cli.framework.watch_resumption import resume
from daggerspec import sinks
from daggerspec.limits import WATCHED_ROWS
from daggerspec.row import Row, from_proto

READ_S = 150.0
COMPARISONS = {
    "=": gateway_pb2.RowCondition.COMPARISON_EQUAL,
    "!=": gateway_pb2.RowCondition.COMPARISON_NOT_EQUAL,
    "<": gateway_pb2.RowCondition.COMPARISON_LESS,
    "<=": gateway_pb2.RowCondition.COMPARISON_AT_MOST,
    ">": gateway_pb2.RowCondition.COMPARISON_GREATER,
    ">=": gateway_pb2.RowCondition.COMPARISON_AT_LEAST,
}
K = TypeVar("K", bound=Hashable)


def read(gateway: Gateway, request: gateway_pb2.ReadRowsRequest) -> list[Row]:
    """Read the selected rows of a dagger, in their order."""
    _check_sink(gateway, request.name, request.sink)
    steps = gateway.stream(gateway.daggers.ReadRows, request, deadline_s=READ_S)
    return [from_proto(row) for step in steps for row in step.rows]


def condition(text: str) -> gateway_pb2.RowCondition:
    """Parse --where. Raises: MisusedError."""
    match = re.fullmatch(r"([^=!<>]+)(!=|<=|>=|=|<|>)(.*)", text, re.DOTALL)
    if match is None:
        raise MisusedError(
            f"--where {text}: it must be FIELD=VALUE, or have !=, <, <=, > or >= in its middle"
        )
    return gateway_pb2.RowCondition(
        column=match[1].strip(), comparison=COMPARISONS[match[2]], value=match[3].strip()
    )


def order(text: str) -> str:
    """Convert --sort to the form of a request."""
    column, colon, direction = text.rpartition(":")
    return f"{column} {direction}" if colon else text


@dataclass(frozen=True)
class Look:
    """Rows of one read of a dagger, oldest first.

    snapshot: True where these are all rows at the begin of the watch, or at its resumption.
    truncated: True where older rows are left out.
    """

    rows: list[Row]
    snapshot: bool = False
    truncated: bool = False


def watch_rows(gateway: Gateway, name: str, sink: str = "") -> Iterator[Look]:
    """Yield new rows, or an empty read, until the dagger is deleted.

    First, and after each resumption, yields the newest rows.
    """
    request = gateway_pb2.WatchRowsRequest(name=name, sink=_check_sink(gateway, name, sink))

    def steps(create_sequence: int | None) -> Iterator[gateway_pb2.WatchRowsResponse]:
        request.create_sequence = create_sequence or 0
        return gateway.stream(gateway.daggers.WatchRows, request, deadline_s=None)

    for step in resume(steps, None, lambda step: step.create_sequence):
        yield Look([from_proto(row) for row in step.rows], step.snapshot, step.truncated)


def remember(seen: dict[K, Row], identity: K, row: Row) -> None:
    """Store a row as the newest of a few."""
    seen.pop(identity, None)
    seen[identity] = row
    if len(seen) > WATCHED_ROWS:
        del seen[next(iter(seen))]


def _check_sink(gateway: Gateway, name: str, sink: str) -> str:
    """Check that the dagger has a sink of this name or kind, and return it. Raises: MisusedError."""
    if sink:
        written = [sink.sink for sink in gateway.get(name).sinks]
        has = sinks.display_names(written)
        if sink not in {*has, *(sink.WhichOneof("kind") for sink in written)}:
            listed = ", ".join(sorted(has)) or "none"
            raise MisusedError(f"--sink {sink}: {name} has no such sink; it has {listed}")
    return sink
