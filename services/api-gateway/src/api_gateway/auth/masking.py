"""Sensitive fields of streams, masked in whatever is answered of daggers and streams: rows, logs, samples,
quarantined records. Also while the gate only observes: nobody could say before that a field is sensitive.

What is masked goes by the requests by which the bytes were written (`provenance`), not by what the dagger is
now. Rows that a sensitive field has chosen are not shown at all: which there are tells its values.
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
"""How a line of a driver's log begins that we have written; a sink of that name prints rows."""
_WORDS: Final = re.compile(r' (why|problem)=(?:"(?:[^"\\]|\\.)*"|\S+)')
"""What libraries say, in such a line. What errors say (`detail`) never has a value of a record."""
_REMEMBERED: Final = 256
_MOST: Final = 64
"""Queries that are looked at for one reading."""


@dataclass(frozen=True, slots=True)
class Mask:
    """What of a dagger's rows is shown."""

    shown: frozenset[str]
    """Names of tags and fields; what else a row has was written by an earlier revision, or is sensitive."""
    time: bool
    """Whether their times are."""
    hidden: tuple[Column, ...] = ()
    """Those that are sensitive: also where a row has no value of one, which tells something, too."""

    def rows(self, rows: Iterable[gateway_pb2.Row]) -> None:
        """Mask rows."""
        tags = [column.key for column in self.hidden if column.role is Role.TAG]
        fields = [column.key for column in self.hidden if column.role is Role.FIELD]
        for row in rows:
            for name in [*tags, *(name for name in row.tags if name not in self.shown)]:
                row.tags[name] = MASKED
            others = [field for field in row.fields if field.name not in fields]
            for field in others:
                if field.name not in self.shown:
                    field.text = MASKED
            masked = [gateway_pb2.RowField(name=name, text=MASKED) for name in fields]
            row.ClearField("fields")
            row.fields.extend([*others, *masked])
            if not self.time:
                row.ClearField("time")

    def end(self, done: gateway_pb2.PreviewDone) -> None:
        """Mask what the end of a preview counts of values. A host from before it masks computes them."""
        if self.hidden:
            for field in ("invalid", "series"):
                done.ClearField(field)

    def check(self, request: gateway_pb2.ReadRowsRequest) -> None:
        """Raises: ApiError when rows are chosen by what is not shown."""
        names = [condition.column for condition in request.where]
        names += [request.order_by.partition(" ")[0]] if request.order_by else []
        for name in names:
            if name not in self.shown and not (self.time and name in TIMES):
                text = f"column {name} is made of sensitive fields: rows cannot be chosen or ordered by it"
                raise _denied(text, {"column": name, "principal": principal().name})


@dataclass(frozen=True, slots=True)
class Launches:
    """The launches, by generation, by which records were set aside."""

    all: frozenset[int]
    refused: frozenset[int]
    """Those of rows that sinks have refused."""


class Masking:
    """Masks what the principal of the call that is going on does not see."""

    def __init__(
        self,
        fleet: Fleet,
        provenance: Provenance,
        made: Callable[[str, spec_pb2.DaggerSpec], Awaitable[RowOrigins | None]],
    ) -> None:
        """`made`: what the rows of a dagger of this name and specification are made of; None where its query
        can no longer be checked.
        """
        self._fleet, self._provenance, self._made = fleet, provenance, made
        self._known: dict[bytes, RowOrigins] = {}

    async def of(self, dagger: Dagger) -> Mask | None:
        """What is shown of a dagger's rows, of all that may be where they are; None: all of it.

        Raises: ApiError, PERMISSION_DENIED where sensitive fields decide which rows there are.
        """
        if self._sees_all():
            return None
        dagger = self._fleet.daggers.get(dagger.name, dagger)
        return await self._of(f"rows of dagger {dagger.name}", await self._provenance.of_rows(dagger))

    async def check_archive(self, dagger: Dagger) -> None:
        """Raises: ApiError for who does not see all columns of a dagger's rows: files are as large as what is
        in them.
        """
        mask = await self.of(dagger)
        if mask is not None and mask.hidden:
            raise _has_hidden(f"files of dagger {dagger.name}", mask)

    async def check_release(self, destination: str) -> None:
        """Raises: ApiError for who does not see what is in a destination: what its next owner reads there is
        judged by their own query.
        """
        if self._sees_all():
            return
        what = f"rows in {destination}"
        mask = await self._of(what, await self._provenance.of_destination(destination))
        if mask is not None and mask.hidden:
            raise _has_hidden(what, mask)

    async def check_readdressing(self, sink: str) -> None:
        """Raises: ApiError for who does not see what daggers write to a registered sink, and would say where
        they write it from their next launch on.
        """
        if self._sees_all():
            return
        for dagger in list(naming(self._fleet.daggers, "sink", sink)):
            what = f"rows that dagger {dagger.name} writes to sink {sink}"
            mask = await self._of(what, await self._provenance.of_log(dagger))
            if mask is not None and mask.hidden:
                raise _has_hidden(what, mask)

    async def _of(self, what: str, requests: Sequence[events_pb2.DaggerRequested] | None) -> Mask | None:
        if requests is None:
            text = f"{what} may be of more revisions than are remembered: any may have read what is hidden"
            raise _denied(text, {"principal": principal().name})
        queries = {_looked_at(request.spec): request for request in requests}
        unseen = [sensitive.unseen(principal(), request.spec, self._fleet) for request in queries.values()]
        if not any(unseen):
            return None
        if len(queries) > _MOST:
            text = f"{what} are of {len(queries)} queries, more than {_MOST}: not all are looked at"
            raise _denied(text, {"principal": principal().name})
        hidden: dict[str, Column] = {}
        columns: list[Column] = []
        for (key, request), streams in zip(queries.items(), unseen, strict=True):
            made = await self._remembered(key, request)
            if made is None and streams:
                text = f"{what} are of a query that cannot be checked any more, and reads sensitive fields"
                raise _denied(text, {"principal": principal().name})
            if made is not None:
                self._check_deciding(what, made, streams)
                hidden |= {column.name: column for column in sensitive.masked_columns(made, streams)}
                columns += made.columns
        return mask_of(columns, tuple(hidden.values()))

    def _check_deciding(self, what: str, made: RowOrigins, streams: Mapping[str, spec_pb2.Stream]) -> None:
        """Raises: ApiError where sensitive fields decide which rows there are."""
        for violation in sensitive.check_deciding(principal(), made, streams, self._fleet):
            raise _denied(f"{what} are not shown: {violation.message}; {DERIVE}", violation.metadata)

    def previewed(self, spec: spec_pb2.DaggerSpec, made: RowOrigins) -> Mask | None:
        """What is shown of the rows of a specification that was judged; None: all of it."""
        streams = sensitive.unseen(principal(), spec, self._fleet)
        return mask_of(made.columns, sensitive.masked_columns(made, streams)) if streams else None

    def _sees_all(self) -> bool:
        """Whether nothing is hidden from who calls: so it is for most, and nothing is looked up then."""
        who, fleet = principal(), self._fleet
        if is_administrator(who, fleet):
            return True
        return not fleet.catalogue.removed["stream"] and all(
            sensitive.sees(who, name, fleet) for name in fleet.streams
        )

    async def _remembered(self, key: bytes, request: events_pb2.DaggerRequested) -> RowOrigins | None:
        """What rows are made of: asked at each step. What a newer schema adds is an unknown column."""
        made = self._known.pop(key, None) or await self._made(request.name, request.spec)
        if made is not None:
            self._known[key] = made
            if len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]
        return made

    def sample(self, stream: spec_pb2.Stream, records: Iterable[gateway_pb2.SampledRecord]) -> None:
        """Mask records of a stream: also how long they are, which is as long as what is in them."""
        if sensitive.sees(principal(), stream.name, self._fleet):
            return
        for record in records:
            for field in ("key", "size", "unknown"):
                record.ClearField(field)
            if record.WhichOneof("content") == "json":
                record.json = json.dumps(_masked(json.loads(record.json), stream.sensitive))

    async def log(self, dagger: Dagger, lines: Sequence[str], *, replay: bool) -> Sequence[str]:
        """Lines of a driver's log, or of a replay's, without what stands in them of records: rows, and
        words of libraries.
        """
        if self._sees_all():
            return lines
        # A replay writes rows of whatever revision they were set aside of.
        written_by = self._provenance.of_all if replay else self._provenance.of_log
        requests = await written_by(dagger)
        if requests is not None and not any(map(self._is_unseen, requests)):
            return lines
        return [_logged(line) for line in lines if stamp_of(line)]  # below others stand traces

    async def quarantined(
        self,
        dagger: Dagger,
        records: Sequence[telemetry_pb2.Quarantined],
        statuses: Sequence[gateway_pb2.QuarantineStatus],
    ) -> int:
        """Mask what was set aside of a dagger, by what each launch read, and what replays said of it; how
        many records are.
        """
        if self._sees_all():
            return 0
        unseen = await self._unseen_of(dagger, {record.generation for record in records})
        masked = [pair for pair in zip(records, statuses, strict=True) if pair[0].generation in unseen]
        for record, status in masked:
            _set_aside(record)
            if status.detail and status.state != gateway_pb2.QUARANTINE_STATE_DISCARDED:
                status.detail = MASKED  # what a sink answered, or the time of its record
        return len(masked)

    def set_aside(self, spec: spec_pb2.DaggerSpec, records: Iterable[telemetry_pb2.Quarantined]) -> None:
        """Mask what would be set aside of a specification."""
        if sensitive.unseen(principal(), spec, self._fleet):
            for record in records:
                _set_aside(record)

    async def check_replay(
        self, dagger: Dagger, find: Callable[[], Awaitable[Launches]], *, edits: bool
    ) -> bool:
        """Whether records of a replay are masked; `find` looks up their launches. Raises: ApiError for who
        does not see what records hold, and would say what they are to hold, or have rows written to sinks
        that were not meant for them.
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
                raise _sensitive_record(dagger, text)
        for generation in sorted(launches.refused & unseen.keys()):
            request = unseen[generation]
            if request is None or list(request.spec.sinks) != list(newest.spec.sinks):
                text = (
                    f"rows of {dagger.name} that are masked would be written to other sinks than those that"
                    f" they were made for (launch {generation}): have somebody replay them who sees them"
                )
                raise _sensitive_record(dagger, text)
        return bool(unseen)

    async def _unseen_of(
        self, dagger: Dagger, generations: Collection[int]
    ) -> dict[int, events_pb2.DaggerRequested | None]:
        """Those of a dagger's launches whose records are masked, each with its request; None: nobody
        remembers that.
        """
        requests = await self._provenance.of_generations(dagger, generations)
        return {
            generation: request
            for generation, request in requests.items()
            if request is None or self._is_unseen(request)
        }

    def _is_unseen(self, request: events_pb2.DaggerRequested) -> bool:
        return bool(sensitive.unseen(principal(), request.spec, self._fleet))


def _set_aside(record: telemetry_pb2.Quarantined) -> None:
    """Mask one record: bytes that nobody could read are shown whole or not at all."""
    for field in ("value", "key", "decoded_prefix", "row", "sha256", "truncated"):
        record.ClearField(field)
    if record.detail:  # it may say what it was that could not be read, or written
        record.detail = MASKED


def _logged(line: str) -> str:
    """A line of a driver's log, masked."""
    if _OURS.match(line):
        return _WORDS.sub(rf" \1={MASKED}", line)
    return f"{line.partition(': ')[0]}: {MASKED}"


def _sensitive_record(dagger: Dagger, text: str) -> ApiError:
    metadata = {"dagger": dagger.name, "principal": principal().name}
    return ApiError(grpc.StatusCode.PERMISSION_DENIED, "SENSITIVE_RECORD", text, metadata)


def mask_of(columns: Iterable[Column], hidden: tuple[Column, ...]) -> Mask:
    """What is shown of rows with these columns, of which some are hidden."""
    masked = _names(hidden)
    return Mask(frozenset(_names(columns) - masked), time=masked.isdisjoint(TIMES), hidden=hidden)


def _looked_at(spec: spec_pb2.DaggerSpec) -> bytes:
    """All of a specification that says what is sensitive of its rows: others are not looked at again."""
    text = query.of(spec).sql
    judged = spec_pb2.DaggerSpec(sql=text, streams=spec.streams, sinks=spec.sinks, forward=spec.forward)
    return judged.SerializeToString(deterministic=True)


def _has_hidden(what: str, mask: Mask) -> ApiError:
    names = ", ".join(sorted(column.name for column in mask.hidden))
    return _denied(f"{what} have columns that are made of sensitive fields: {names}", {"columns": names})


def _denied(text: str, metadata: Mapping[str, str]) -> ApiError:
    return ApiError(grpc.StatusCode.PERMISSION_DENIED, SENSITIVE, text, metadata)


def _names(columns: Iterable[Column]) -> set[str]:
    """What tags and fields of columns may be called."""
    return {name for one in columns for name in (one.name, one.key, one.name.partition(".")[0])}


def _masked(value: Any, paths: Iterable[str]) -> Any:
    """A JSON value with MASKED where these dotted paths lead, in each element of lists, and if nothing is."""
    by_field: dict[str, list[str]] = {}
    for path in paths:
        first, _, rest = path.partition(".")
        by_field.setdefault(first, []).append(rest)
    if isinstance(value, list):
        return [_masked(item, paths) for item in value]
    if not isinstance(value, Mapping):
        return value
    whole = {name: MASKED for name, rests in by_field.items() if "" in rests}
    others = {name: inner for name, inner in value.items() if name not in whole}
    # Behind all others, wherever they stood: a place tells as well whether there was one.
    return {name: _below(inner, by_field.get(name, [])) for name, inner in others.items()} | whole


def _below(value: Any, paths: Sequence[str]) -> Any:
    return _masked(value, paths) if paths else value
