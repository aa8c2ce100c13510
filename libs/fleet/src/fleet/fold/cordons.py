"""Cordons and drains of hosts by the control topic, and what each drain has moved. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeAlias

from daggers.v1 import events_pb2, gateway_pb2
from google.protobuf.message import Message

from daggerspec.protobuf import timestamp
from fleet.fold.hosts import UNREGISTERED, Standings

Change: TypeAlias = events_pb2.HostCordoned | events_pb2.HostDrainRequested | events_pb2.HostUncordoned
CHANGES: Final[tuple[type[Message], ...]] = (
    events_pb2.HostCordoned,
    events_pb2.HostDrainRequested,
    events_pb2.HostUncordoned,
)
"""Requests that change where launches are placed; the newest of a host counts."""


def record_change(standings: Standings, event: Change, *, sequence: int, time: datetime) -> None:
    """Replace the cordon of a host, or end it. A drain that is asked for again begins anew."""
    cordon: gateway_pb2.HostCordon | None = None
    if not isinstance(event, events_pb2.HostUncordoned):
        cordon = gateway_pb2.HostCordon(
            time=timestamp(time),
            actor=event.meta.actor,
            message=event.meta.message,
            sequence=sequence,
            drains=isinstance(event, events_pb2.HostDrainRequested),
        )
    before = standings.get(event.host, UNREGISTERED)
    standings[event.host] = replace(before, cordon=cordon)


def begin_move(standings: Standings, host: str, fact: events_pb2.StopIssued, time: datetime) -> None:
    """Note that a drain of the host has told a driver to stop, once for each launch."""
    cordon = standings.get(host, UNREGISTERED).cordon
    if cordon is None or not cordon.drains or _is_known(cordon, fact.meta):
        return
    move = gateway_pb2.HostMove(
        dagger=fact.meta.name, generation=fact.meta.generation, stop_time=timestamp(time)
    )
    _replace(standings, host, cordon, [*cordon.moves, move])


def advance_moves(standings: Standings, fact: Any, *, time: datetime) -> None:
    """Note in the moves of its dagger what a fact says of them, where it says anything."""
    change = _STEPS.get(type(fact))
    if change is None:
        return
    for host, standing in list(standings.items()):
        cordon = standing.cordon
        if cordon is None or not any(_is_open(move, fact) for move in cordon.moves):
            continue
        moves = [change(move, fact, time) if _is_open(move, fact) else move for move in cordon.moves]
        _replace(standings, host, cordon, moves)


def _is_open(move: gateway_pb2.HostMove, fact: Any) -> bool:
    return bool(move.dagger == fact.meta.name) and not move.HasField("first_commit")


def _is_known(cordon: gateway_pb2.HostCordon, meta: events_pb2.FactMeta) -> bool:
    return any((move.dagger, move.generation) == (meta.name, meta.generation) for move in cordon.moves)


def _replace(
    standings: Standings,
    host: str,
    cordon: gateway_pb2.HostCordon,
    moves: list[gateway_pb2.HostMove],
) -> None:
    changed = gateway_pb2.HostCordon()
    changed.CopyFrom(cordon)
    del changed.moves[:]
    changed.moves.extend(moves)
    standings[host] = replace(standings[host], cordon=changed)


def _leave(move: gateway_pb2.HostMove, fact: events_pb2.Exited, time: datetime) -> gateway_pb2.HostMove:
    """Note the last batch of the driver that was stopped."""
    if fact.meta.generation != move.generation:
        return move
    return _change(move, last_commit=fact.last_commit if fact.HasField("last_commit") else timestamp(time))


def _head(move: gateway_pb2.HostMove, fact: events_pb2.LaunchIntended, _: datetime) -> gateway_pb2.HostMove:
    """Note the host that it is launched on."""
    return _change(move, to_host=fact.host)


def _arrive(move: gateway_pb2.HostMove, fact: events_pb2.Running, time: datetime) -> gateway_pb2.HostMove:
    """Note the first batch of a later driver."""
    if fact.meta.generation == move.generation:
        return move
    return _change(move, first_commit=fact.last_commit if fact.HasField("last_commit") else timestamp(time))


_STEPS: Final[Mapping[type[Message], Any]] = {
    events_pb2.Exited: _leave,
    events_pb2.LaunchIntended: _head,
    events_pb2.Running: _arrive,
}


MOVES: Final = frozenset({events_pb2.StopIssued, *_STEPS})
"""Facts of daggers that may change what a drain has moved."""


def _change(move: gateway_pb2.HostMove, **fields: Any) -> gateway_pb2.HostMove:
    changed = gateway_pb2.HostMove()
    changed.CopyFrom(move)
    changed.MergeFrom(gateway_pb2.HostMove(**fields))
    return changed
