"""Rows of a dagger, read through the gateway as the flags of a command say."""

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from daggers.v1 import gateway_pb2

from cli.errors import MisusedError
from cli.framework.gateway import Gateway
from cli.framework.watch_resumption import resumed
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
    """The rows of a dagger that are asked for, in their order."""
    _known(gateway, request.name, request.sink)
    steps = gateway.stream(gateway.daggers.ReadRows, request, deadline_s=READ_S)
    return [from_proto(row) for step in steps for row in step.rows]


def condition(text: str) -> gateway_pb2.RowCondition:
    """What --where says. Raises: MisusedError."""
    said = re.fullmatch(r"([^=!<>]+)(!=|<=|>=|=|<|>)(.*)", text, re.DOTALL)
    if said is None:
        raise MisusedError(
            f"--where {text}: it must be FIELD=VALUE, or have !=, <, <=, > or >= in its middle"
        )
    return gateway_pb2.RowCondition(
        column=said[1].strip(), comparison=COMPARISONS[said[2]], value=said[3].strip()
    )


def order(text: str) -> str:
    """What --sort says, as a request has it."""
    column, colon, direction = text.rpartition(":")
    return f"{column} {direction}" if colon else text


@dataclass(frozen=True)
class Look:
    """What a look at the rows of a dagger has found, oldest first.

    snapshot:  whether these are the rows there were when the watch began, or began anew.
    truncated: whether there were older ones that it leaves out.
    """

    rows: list[Row]
    snapshot: bool = False
    truncated: bool = False


def watched(gateway: Gateway, name: str, sink: str = "") -> Iterator[Look]:
    """What is new, again and again, or that nothing is, until the dagger is deleted.

    At first, and when the watch breaks and is taken up again, the newest rows there are.
    """
    request = gateway_pb2.WatchRowsRequest(name=name, sink=_known(gateway, name, sink))

    def steps(born: int | None) -> Iterator[gateway_pb2.WatchRowsResponse]:
        request.create_sequence = born or 0
        return gateway.stream(gateway.daggers.WatchRows, request, deadline_s=None)

    for step in resumed(steps, None, lambda step: step.create_sequence):
        yield Look([from_proto(row) for row in step.rows], step.snapshot, step.truncated)


def remember(seen: dict[K, Row], identity: K, row: Row) -> None:
    """Keep a row as the newest of a few."""
    seen.pop(identity, None)
    seen[identity] = row
    if len(seen) > WATCHED_ROWS:
        del seen[next(iter(seen))]


def _known(gateway: Gateway, name: str, sink: str) -> str:
    """The sink that is asked for. Raises MisusedError when the dagger has none of that name or kind."""
    if sink:
        written = [sink.sink for sink in gateway.get(name).sinks]
        has = sinks.called(written)
        if sink not in {*has, *(sink.WhichOneof("kind") for sink in written)}:
            listed = ", ".join(sorted(has)) or "none"
            raise MisusedError(f"--sink {sink}: {name} has no such sink; it has {listed}")
    return sink
