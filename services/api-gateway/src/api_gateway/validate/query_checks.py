"""Check queries, and cache the newest results: every apply of a dagger sends its query again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from daggers.v1 import spec_pb2

from api_gateway.validate.query_check_pool import Checker, in_thread
from api_gateway.validate.query_check_process import Question, Stream
from daggerspec import late, query, sinks, state
from daggersql import CheckResult
from daggersql.rules.compiled import rule_texts
from fleet import Fleet
from fleet.fold.resolve import descriptors

_CACHED_RESULTS: Final = 256
_CACHED_FILES: Final = 64
_MAX_CACHED_CHARACTERS: Final = 16_384


class Checks:
    """Checks the queries of specifications by a checker."""

    def __init__(self, checker: Checker = in_thread) -> None:
        self._checker = checker
        self._results: dict[Hashable, CheckResult] = {}
        """Results by all inputs of the check, least recently used first."""
        self._files: dict[Hashable, bytes] = {}
        """Files of messages by their registration, least recently used first."""

    async def check(
        self, spec: spec_pb2.DaggerSpec, fleet: Fleet, *, accepted: bool, unknown: Sequence[str] = ()
    ) -> CheckResult:
        """Check a specification's query. Raises: UnresolvedName, ApiError.

        `accepted`: the dagger has it already. `unknown`: its tables without a registered stream.
        """
        key = (_inputs(spec, fleet, unknown), accepted)
        checked = self._results.pop(key, None)
        if checked is None:
            checked = await self._checker(self._question(spec, fleet, unknown, accepted=accepted))
        texts = (query.of(spec).sql, *sinks.conditions(spec))
        if sum(map(len, texts)) + sum(rule.ByteSize() for rule in spec.alerts) <= _MAX_CACHED_CHARACTERS:
            self._results[key] = checked
            if len(self._results) > _CACHED_RESULTS:
                del self._results[next(iter(self._results))]
        return checked

    def _question(
        self, spec: spec_pb2.DaggerSpec, fleet: Fleet, unknown: Sequence[str], *, accepted: bool
    ) -> Question:
        """Build the question for a specification. Raises: UnresolvedName."""
        text = query.of(spec)
        inputs = (stream for stream in spec.streams if stream.table not in unknown)
        streams = ((stream.table, fleet.streams[stream.stream].value) for stream in inputs)
        return Question(
            text.sql,
            tuple(
                Stream(
                    name,
                    stream.message,
                    stream.time_field,
                    self._files_of(stream.message, fleet),
                    query.has_records(spec),
                )
                for name, stream in streams
            ),
            tuple(fleet.references),
            early=state.is_early(spec),
            allowed_lateness=late.allowed_lateness(spec),
            points=sinks.is_time_series(spec),
            accepted=accepted,
            expressions=text.expressions,
            unknown=tuple(unknown),
            conditions=sinks.conditions(spec),
            rules=rule_texts(spec.alerts),
        )

    def _files_of(self, message: str, fleet: Fleet) -> bytes:
        """Return the serialised files of a message, from the cache since collecting them takes milliseconds.

        Raises: UnresolvedName.
        """
        schema = fleet.messages.get(message)
        key = (message, schema and schema.sequence)
        files = self._files.pop(key, None)
        if files is None:
            files = descriptors(fleet, [message]).SerializeToString(deterministic=True)
        self._files[key] = files
        if len(self._files) > _CACHED_FILES:
            del self._files[next(iter(self._files))]
        return files


def _inputs(spec: spec_pb2.DaggerSpec, fleet: Fleet, unknown: Sequence[str]) -> Hashable:
    """Return all inputs of a check: query, emission and store, what its tables are made of,
    the references.
    """
    tables: list[Hashable] = [*unknown]
    for input_ in spec.streams:
        if input_.table in unknown:
            continue
        stream = fleet.streams[input_.stream].value
        message = fleet.messages.get(stream.message)
        tables.append((input_.table, stream.message, message and message.sequence, stream.time_field))
    points = sinks.is_time_series(spec)
    conditions, records = sinks.conditions(spec), query.has_records(spec)
    read = query.of(spec), records, state.rewriting(spec), tuple(tables), tuple(fleet.references)
    return (*read, points, conditions, rule_texts(spec.alerts))
