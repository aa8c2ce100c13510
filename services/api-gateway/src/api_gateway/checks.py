"""Checks of queries, the newest ones remembered: every apply of a dagger sends its query again."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import sinks
from daggersql import Checked, Table, check
from fleet import Fleet
from fleet.resolve import Registered

_REMEMBERED: Final = 256
_MAX_REMEMBERED_CHARACTERS: Final = 16_384


class Checks:
    """Checks the queries of specs in a thread, so that a large one holds up no other call."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Checked] = {}
        """By all that a check depends on; what was used last stands last."""

    async def check(self, spec: spec_pb2.DaggerSpec, fleet: Fleet, *, accepted: bool) -> Checked:
        """What is found about the query, whose streams are all registered. Raises: Unresolved.

        `accepted`: the dagger has it already.
        """
        key = (_inputs(spec, fleet), accepted)
        checked = self._found.pop(key, None)
        if checked is None:
            tables = _tables(fleet, spec)
            checked = await asyncio.to_thread(
                check,
                spec.sql,
                tables,
                list(fleet.references),
                early=spec.emit == spec_pb2.EMIT_EARLY,
                points=sinks.is_time_series(spec),
                accepted=accepted,
            )
        if len(spec.sql) <= _MAX_REMEMBERED_CHARACTERS:
            self._found[key] = checked
            if len(self._found) > _REMEMBERED:
                del self._found[next(iter(self._found))]
        return checked


def _inputs(spec: spec_pb2.DaggerSpec, fleet: Fleet) -> Hashable:
    """All that a check depends on: query, emission and store, what its tables are made of, the references."""
    tables = []
    for each in spec.streams:
        stream = fleet.streams[each.stream].value
        message = fleet.messages.get(stream.message)
        tables.append((each.table, stream.message, message and message.sequence, stream.time_field))
    return spec.sql, spec.emit, tuple(tables), tuple(fleet.references), sinks.is_time_series(spec)


def _tables(fleet: Fleet, spec: spec_pb2.DaggerSpec) -> list[Table]:
    """What the query is checked against, one for each stream, in their order."""
    catalogue = Registered(fleet)
    streams = [(each.table, fleet.streams[each.stream].value) for each in spec.streams]
    return [Table(name, catalogue.message(each.message), each.time_field) for name, each in streams]
