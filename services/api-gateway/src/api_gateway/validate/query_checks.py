"""Checks of queries, the newest ones remembered: every apply of a dagger sends its query again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from daggers.v1 import spec_pb2

from api_gateway.validate.query_check_pool import Checker, in_thread
from api_gateway.validate.query_check_process import Question, Stream
from daggerspec import query, sinks
from daggersql import CheckResult
from fleet import Fleet
from fleet.fold.resolve import descriptors

_REMEMBERED: Final = 256
_DESCRIBED: Final = 64
_MAX_REMEMBERED_CHARACTERS: Final = 16_384


class Checks:
    """Checks the queries of specs, wherever its checker does that."""

    def __init__(self, checker: Checker = in_thread) -> None:
        self._checker = checker
        self._found: dict[Hashable, CheckResult] = {}
        """By all that a check depends on; what was used last stands last."""
        self._files: dict[Hashable, bytes] = {}
        """Of messages, by when they were registered; as above."""

    async def check(
        self, spec: spec_pb2.DaggerSpec, fleet: Fleet, *, accepted: bool, unknown: Sequence[str] = ()
    ) -> CheckResult:
        """What is found about the query. Raises: Unresolved, ApiError.

        `accepted`: the dagger has it already. `unknown`: its tables without a stream that is registered.
        """
        key = (_inputs(spec, fleet, unknown), accepted)
        checked = self._found.pop(key, None)
        if checked is None:
            checked = await self._checker(self._question(spec, fleet, unknown, accepted=accepted))
        if sum(map(len, (query.of(spec).sql, *sinks.conditions(spec)))) <= _MAX_REMEMBERED_CHARACTERS:
            self._found[key] = checked
            if len(self._found) > _REMEMBERED:
                del self._found[next(iter(self._found))]
        return checked

    def _question(
        self, spec: spec_pb2.DaggerSpec, fleet: Fleet, unknown: Sequence[str], *, accepted: bool
    ) -> Question:
        """Raises: Unresolved."""
        text = query.of(spec)
        known = (stream for stream in spec.streams if stream.table not in unknown)
        streams = ((stream.table, fleet.streams[stream.stream].value) for stream in known)
        return Question(
            text.sql,
            tuple(
                Stream(
                    name,
                    stream.message,
                    stream.time_field,
                    self._described(stream.message, fleet),
                    query.has_records(spec),
                )
                for name, stream in streams
            ),
            tuple(fleet.references),
            early=spec.emit == spec_pb2.EMIT_EARLY,
            points=sinks.is_time_series(spec),
            accepted=accepted,
            expressions=text.expressions,
            unknown=tuple(unknown),
            conditions=sinks.conditions(spec),
        )

    def _described(self, message: str, fleet: Fleet) -> bytes:
        """The files of a message; kept, for to put them together takes milliseconds. Raises: Unresolved."""
        schema = fleet.messages.get(message)
        key = (message, schema and schema.sequence)
        files = self._files.pop(key, None)
        if files is None:
            files = descriptors(fleet, [message]).SerializeToString(deterministic=True)
        self._files[key] = files
        if len(self._files) > _DESCRIBED:
            del self._files[next(iter(self._files))]
        return files


def _inputs(spec: spec_pb2.DaggerSpec, fleet: Fleet, unknown: Sequence[str]) -> Hashable:
    """All that a check depends on: query, emission and store, what its tables are made of, the references."""
    tables: list[Hashable] = [*unknown]
    for input_ in spec.streams:
        if input_.table in unknown:
            continue
        stream = fleet.streams[input_.stream].value
        message = fleet.messages.get(stream.message)
        tables.append((input_.table, stream.message, message and message.sequence, stream.time_field))
    points = sinks.is_time_series(spec)
    conditions, records = sinks.conditions(spec), query.has_records(spec)
    return query.of(spec), records, spec.emit, tuple(tables), tuple(fleet.references), points, conditions
