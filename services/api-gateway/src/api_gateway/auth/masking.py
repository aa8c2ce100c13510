"""Mask sensitive fields of streams in rows, logs, samples and quarantined records that calls return.

Masking applies while the gate only observes, too: a field could not be marked as sensitive before. What is
masked follows the requests by which the bytes were written (`provenance`), not the dagger as it is now. Rows
that a sensitive field has selected are not returned at all: their presence tells its values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2, telemetry_pb2

from access import sensitive
from access.decision import is_administrator
from access.sensitive import DERIVE, SENSITIVE, RowOrigins
from api_gateway.auth.authentication import principal
from api_gateway.auth.provenance import Provenance
from chassis.errors import ApiError
from chassis.lines import stamp_of
from daggerspec import query, rundir
from daggerspec.columns import TIMES, Column, Role
from fleet import Dagger, Fleet
from fleet.fold.removal import naming

MASKED: Final = "(masked)"
_OURS: Final = re.compile(rf"\S+ [A-Z]+ (?:{rundir.DRIVER_LOGGER}|{rundir.REPLAY_LOGGER}): (?!row )")
"""Begin of a driver log's line that the platform has written; a sink logs rows under the same logger name."""
_WORDS: Final = re.compile(r' (why|problem)=(?:"(?:[^"\\]|\\.)*"|\S+)')
"""Texts of libraries in such a line. Texts of our errors (`detail`) never contain a value of a record."""
_CACHED_QUERIES: Final = 256
_MOST_QUERIES: Final = 64
"""Most queries that are examined for one read."""


@dataclass(frozen=True, slots=True)
class Mask:
    """Decides which columns of a dagger's rows are returned unmasked."""

    visible: frozenset[str]
    """Names of visible tags and fields; any other column is sensitive, or was written by an earlier revision.
    """
    time: bool
    """True where the rows' times are visible."""
    hidden: tuple[Column, ...] = ()
    """Sensitive columns. They are masked also in rows that lack a value, since the lack tells something."""

    def rows(self, rows: Iterable[gateway_pb2.Row]) -> None:
        """Mask rows in place."""
        tags = [column.key for column in self.hidden if column.role is Role.TAG]
        fields = [column.key for column in self.hidden if column.role is Role.FIELD]
        for row in rows:
            for name in [*tags, *(name for name in row.tags if name not in self.visible)]:
                row.tags[name] = MASKED
            others = [field for field in row.fields if field.name not in fields]
            for field in others:
                if field.name not in self.visible:
                    field.text = MASKED
            masked = [gateway_pb2.RowField(name=name, text=MASKED) for name in fields]
            row.ClearField("fields")
            row.fields.extend([*others, *masked])
            if not self.time:
                row.ClearField("time")

    def end(self, done: gateway_pb2.PreviewDone) -> None:
        """Clear the counts of a preview's end that derive from masked values; older hosts send them."""
        if self.hidden:
            for field in ("invalid", "series"):
                done.ClearField(field)

    def check(self, request: gateway_pb2.ReadRowsRequest) -> None:
        """Check that rows are not filtered or ordered by a masked column. Raises: ApiError."""
        names = [condition.column for condition in request.where]
        names += [request.order_by.partition(" ")[0]] if request.order_by else []
        for name in names:
            if name not in self.visible and not (self.time and name in TIMES):
                text = f"column {name} is made of sensitive fields: rows cannot be chosen or ordered by it"
                raise _sensitive_error(text, {"column": name, "principal": principal().name})


@dataclass(frozen=True, slots=True)
class Launches:
    """Generations of the launches that quarantined a replay's records."""

    all: frozenset[int]
    refused: frozenset[int]
    """Launches whose rows a sink has refused."""


class Masking:
    """Masks what the principal of the current call may not see."""

    def __init__(
        self,
        fleet: Fleet,
        provenance: Provenance,
        trace_origins: Callable[[str, spec_pb2.DaggerSpec], Awaitable[RowOrigins | None]],
    ) -> None:
        """Remember where to find origins.

        trace_origins: finds the origins of the rows of a dagger with this name and specification; None where
        its query can no longer be checked.
        """
        self._fleet, self._provenance, self._trace_origins = fleet, provenance, trace_origins
        self._origins_cache: dict[bytes, RowOrigins] = {}

    async def of(self, dagger: Dagger) -> Mask | None:
        """Return the mask of a dagger's rows, of all that may lie at its destinations; None: nothing is
        masked.

        Raises: ApiError, PERMISSION_DENIED where sensitive fields decide which rows exist.
        """
        if self._sees_all():
            return None
        dagger = self._fleet.daggers.get(dagger.name, dagger)
        return await self._of(f"rows of dagger {dagger.name}", await self._provenance.of_rows(dagger))

    async def check_archive(self, dagger: Dagger) -> None:
        """Check that the caller sees all columns of a dagger's rows: file sizes tell about their contents.

        Raises: ApiError.
        """
        mask = await self.of(dagger)
        if mask is not None and mask.hidden:
            raise _hidden_columns_error(f"files of dagger {dagger.name}", mask)

    async def check_release(self, destination: str) -> None:
        """Check that the caller sees the rows in a destination that they release: its next owner reads them
        under a query of their own.

        Raises: ApiError.
        """
        if self._sees_all():
            return
        subject = f"rows in {destination}"
        mask = await self._of(subject, await self._provenance.of_destination(destination))
        if mask is not None and mask.hidden:
            raise _hidden_columns_error(subject, mask)

    async def check_readdressing(self, sink: str) -> None:
        """Check that the caller sees the rows that daggers write to a registered sink: its new address
        receives them from their next launch on.

        Raises: ApiError.
        """
        if self._sees_all():
            return
        for dagger in list(naming(self._fleet.daggers, "sink", sink)):
            subject = f"rows that dagger {dagger.name} writes to sink {sink}"
            mask = await self._of(subject, await self._provenance.of_log(dagger))
            if mask is not None and mask.hidden:
                raise _hidden_columns_error(subject, mask)

    async def _of(self, subject: str, requests: Sequence[events_pb2.DaggerRequested] | None) -> Mask | None:
        if requests is None:
            text = f"{subject} may be of more revisions than are remembered: any may have read what is hidden"
            raise _sensitive_error(text, {"principal": principal().name})
        queries = {_query_key(request.spec): request for request in requests}
        unseen = [sensitive.unseen(principal(), request.spec, self._fleet) for request in queries.values()]
        if not any(unseen):
            return None
        if len(queries) > _MOST_QUERIES:
            text = (
                f"{subject} are of {len(queries)} queries, more than {_MOST_QUERIES}: not all are looked at"
            )
            raise _sensitive_error(text, {"principal": principal().name})
        hidden: dict[str, Column] = {}
        columns: list[Column] = []
        for (key, request), streams in zip(queries.items(), unseen, strict=True):
            origins = await self._find_origins(key, request)
            if origins is None and streams:
                text = f"{subject} are of a query that cannot be checked any more, and reads sensitive fields"
                raise _sensitive_error(text, {"principal": principal().name})
            if origins is not None:
                self._check_deciding(subject, origins, streams)
                hidden |= {column.name: column for column in sensitive.masked_columns(origins, streams)}
                columns += origins.columns
        return mask_of(columns, tuple(hidden.values()))

    def _check_deciding(
        self, subject: str, origins: RowOrigins, streams: Mapping[str, spec_pb2.Stream]
    ) -> None:
        """Check that no sensitive field decides which rows exist. Raises: ApiError."""
        for violation in sensitive.check_deciding(principal(), origins, streams, self._fleet):
            raise _sensitive_error(
                f"{subject} are not shown: {violation.message}; {DERIVE}", violation.metadata
            )

    def mask_preview(self, spec: spec_pb2.DaggerSpec, origins: RowOrigins) -> Mask | None:
        """Return the mask of a validated specification's rows; None: nothing is masked."""
        streams = sensitive.unseen(principal(), spec, self._fleet)
        return mask_of(origins.columns, sensitive.masked_columns(origins, streams)) if streams else None

    def _sees_all(self) -> bool:
        """Return whether nothing is hidden from the caller. It is so for most callers, and saves all
        look-ups.
        """
        who, fleet = principal(), self._fleet
        if is_administrator(who, fleet):
            return True
        return not fleet.catalogue.removed["stream"] and all(
            sensitive.sees(who, name, fleet) for name in fleet.streams
        )

    async def _find_origins(self, key: bytes, request: events_pb2.DaggerRequested) -> RowOrigins | None:
        """Return the origins of a query's rows from the cache, since each step of a watch asks for them.
        Columns of a newer schema are unknown columns, and so masked.
        """
        origins = self._origins_cache.pop(key, None) or await self._trace_origins(request.name, request.spec)
        if origins is not None:
            self._origins_cache[key] = origins
            if len(self._origins_cache) > _CACHED_QUERIES:
                del self._origins_cache[next(iter(self._origins_cache))]
        return origins

    def sample(self, stream: spec_pb2.Stream, records: Iterable[gateway_pb2.SampledRecord]) -> None:
        """Mask sampled records of a stream, and their sizes, which tell about the masked values."""
        if sensitive.sees(principal(), stream.name, self._fleet):
            return
        for record in records:
            for field in ("key", "size", "unknown"):
                record.ClearField(field)
            if record.WhichOneof("content") == "json":
                record.json = json.dumps(_mask_value(json.loads(record.json), stream.sensitive))

    async def log(self, dagger: Dagger, lines: Sequence[str], *, replay: bool) -> Sequence[str]:
        """Return lines of a driver's, or a replay's, log with rows and texts of libraries masked."""
        if self._sees_all():
            return lines
        # a replay writes rows of the revision that quarantined them, which may be any
        written_by = self._provenance.of_all if replay else self._provenance.of_log
        requests = await written_by(dagger)
        if requests is not None and not any(map(self._is_unseen, requests)):
            return lines
        # lines without a time stamp are stack traces below another line
        return [_mask_line(line) for line in lines if stamp_of(line)]

    async def mask_quarantined(
        self,
        dagger: Dagger,
        records: Sequence[telemetry_pb2.Quarantined],
        statuses: Sequence[gateway_pb2.QuarantineStatus],
    ) -> int:
        """Mask quarantined records by the requests of their launches, and the details of replays. Return the
        number of masked records.
        """
        if self._sees_all():
            return 0
        unseen = await self._unseen_of(dagger, {record.generation for record in records})
        masked = [pair for pair in zip(records, statuses, strict=True) if pair[0].generation in unseen]
        for record, status in masked:
            _mask_record(record)
            if status.detail and status.state != gateway_pb2.QUARANTINE_STATE_DISCARDED:
                status.detail = MASKED  # a sink's response, or the time of its record
        return len(masked)

    def mask_preview_quarantine(
        self, spec: spec_pb2.DaggerSpec, records: Iterable[telemetry_pb2.Quarantined]
    ) -> None:
        """Mask the records that a preview of a specification would quarantine."""
        if sensitive.unseen(principal(), spec, self._fleet):
            for record in records:
                _mask_record(record)

    async def check_replay(
        self, dagger: Dagger, find: Callable[[], Awaitable[Launches]], *, edits: bool
    ) -> bool:
        """Return whether a replay has masked records; `find` looks up their launches.

        Raises: ApiError where the caller does not see the records and edits them, or has their rows written
        to other sinks than those that they were made for.
        """
        if self._sees_all():
            return False
        launches = await find()
        unseen = await self._unseen_of(dagger, launches.all)
        newest = await self._provenance.newest(dagger)
        if edits:
            streams = sensitive.unseen(principal(), newest.spec, self._fleet)
            for request in unseen.values():
                streams |= sensitive.unseen(principal(), request.spec, self._fleet) if request else {}
            if streams or unseen:
                names = ", ".join(sorted({stream.name for stream in streams.values()})) or "a stream"
                text = f"records of {dagger.name} have sensitive fields of {names}: they cannot be edited"
                raise _sensitive_record_error(dagger, text)
        for generation in sorted(launches.refused & unseen.keys()):
            request = unseen[generation]
            if request is None or list(request.spec.sinks) != list(newest.spec.sinks):
                text = (
                    f"rows of {dagger.name} that are masked would be written to other sinks than those that"
                    f" they were made for (launch {generation}): have somebody replay them who sees them"
                )
                raise _sensitive_record_error(dagger, text)
        return bool(unseen)

    async def _unseen_of(
        self, dagger: Dagger, generations: Collection[int]
    ) -> dict[int, events_pb2.DaggerRequested | None]:
        """Return the launches whose records are masked, each with its request; None where the request is
        forgotten.
        """
        requests = await self._provenance.of_generations(dagger, generations)
        return {
            generation: request
            for generation, request in requests.items()
            if request is None or self._is_unseen(request)
        }

    def _is_unseen(self, request: events_pb2.DaggerRequested) -> bool:
        return bool(sensitive.unseen(principal(), request.spec, self._fleet))


def _mask_record(record: telemetry_pb2.Quarantined) -> None:
    """Mask one record: bytes that could not be decoded are returned whole or not at all."""
    for field in ("value", "key", "decoded_prefix", "row", "sha256", "truncated"):
        record.ClearField(field)
    if record.detail:  # it may quote the value that could not be read, or written
        record.detail = MASKED


def _mask_line(line: str) -> str:
    """Mask a line of a driver's log."""
    if _OURS.match(line):
        return _WORDS.sub(rf" \1={MASKED}", line)
    return f"{line.partition(': ')[0]}: {MASKED}"


def _sensitive_record_error(dagger: Dagger, text: str) -> ApiError:
    metadata = {"dagger": dagger.name, "principal": principal().name}
    return ApiError(grpc.StatusCode.PERMISSION_DENIED, "SENSITIVE_RECORD", text, metadata)


def mask_of(columns: Iterable[Column], hidden: tuple[Column, ...]) -> Mask:
    """Build the mask of rows that have these columns, some of them hidden."""
    masked = _names(hidden)
    return Mask(frozenset(_names(columns) - masked), time=masked.isdisjoint(TIMES), hidden=hidden)


def _query_key(spec: spec_pb2.DaggerSpec) -> bytes:
    """Serialise the parts of a specification that decide what is sensitive of its rows, as a key of the
    cache.
    """
    text = query.of(spec).sql
    key_spec = spec_pb2.DaggerSpec(sql=text, streams=spec.streams, sinks=spec.sinks, forward=spec.forward)
    return key_spec.SerializeToString(deterministic=True)


def _hidden_columns_error(subject: str, mask: Mask) -> ApiError:
    names = ", ".join(sorted(column.name for column in mask.hidden))
    return _sensitive_error(
        f"{subject} have columns that are made of sensitive fields: {names}", {"columns": names}
    )


def _sensitive_error(text: str, metadata: Mapping[str, str]) -> ApiError:
    return ApiError(grpc.StatusCode.PERMISSION_DENIED, SENSITIVE, text, metadata)


def _names(columns: Iterable[Column]) -> set[str]:
    """Return all names under which tags and fields of columns may appear."""
    return {name for one in columns for name in (one.name, one.key, one.name.partition(".")[0])}


def _mask_value(value: Any, paths: Iterable[str]) -> Any:
    """Return a JSON value with MASKED at these dotted paths, in each element of lists, also where nothing
    stood.
    """
    by_field: dict[str, list[str]] = {}
    for path in paths:
        first, _, rest = path.partition(".")
        by_field.setdefault(first, []).append(rest)
    if isinstance(value, list):
        return [_mask_value(item, paths) for item in value]
    if not isinstance(value, Mapping):
        return value
    whole = {name: MASKED for name, rests in by_field.items() if "" in rests}
    others = {name: inner for name, inner in value.items() if name not in whole}
    # behind all others: a field's place would tell whether it had a value
    return {name: _mask_below(inner, by_field.get(name, [])) for name, inner in others.items()} | whole


def _mask_below(value: Any, paths: Sequence[str]) -> Any:
    return _mask_value(value, paths) if paths else value
