"""Sensitive fields of streams, masked in whatever is answered of daggers and streams: rows, logs, samples,
quarantined records. Also while the gate only observes: nobody could say before that a field is sensitive.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
from daggers.v1 import gateway_pb2, spec_pb2, telemetry_pb2

from access import sensitive
from access.sensitive import Made
from api_gateway.authentication import principal
from chassis.errors import ApiError
from daggerspec.columns import TIMES, Column, Role
from fleet import Dagger, Fleet

MASKED: Final = "(masked)"
_ROW: Final = re.compile(r"(\brow )\{.*")
"""What the sink log prints into a driver's log."""
_SINK: Final = "sink"
_REMEMBERED: Final = 256


@dataclass(frozen=True, slots=True)
class Mask:
    """What of a dagger's rows is shown."""

    shown: frozenset[str]
    """Names of tags and fields; what else a row has was written by an earlier revision, or is sensitive."""
    time: bool
    """Whether their times are."""
    key: bool
    """Whether their keys are; of others only that they are different."""
    salt: bytes
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
            if not self.key and row.key:
                row.key = hashlib.blake2b(row.key.encode(), key=self.salt, digest_size=16).hexdigest()

    def check(self, request: gateway_pb2.ReadRowsRequest) -> None:
        """Raises: ApiError when rows are chosen by what is not shown."""
        names = [condition.column for condition in request.where]
        names += [request.order_by.partition(" ")[0]] if request.order_by else []
        for name in names:
            if name not in self.shown and not (self.time and name in TIMES):
                text = f"column {name} is made of sensitive fields: rows cannot be chosen or ordered by it"
                metadata = {"column": name, "principal": principal().name}
                raise ApiError(grpc.StatusCode.PERMISSION_DENIED, "SENSITIVE_COLUMN", text, metadata)


class Masking:
    """Masks what the principal of the call that is going on does not see."""

    def __init__(self, fleet: Fleet, made: Callable[[Dagger], Awaitable[Made | None]]) -> None:
        """`made`: what the rows of a dagger are made of; None where its query can no longer be checked."""
        self._fleet, self._made = fleet, made
        self._salt = secrets.token_bytes(16)
        self._known: dict[tuple[str, int, int], Made] = {}

    async def of(self, dagger: Dagger) -> Mask | None:
        """What is shown of a dagger's rows; None: all of it."""
        dagger = self._fleet.daggers.get(dagger.name, dagger)
        streams = sensitive.unseen(principal(), dagger.spec, self._fleet)
        return self._mask(await self._remembered(dagger), streams) if streams else None

    def previewed(self, spec: spec_pb2.DaggerSpec, made: Made) -> Mask | None:
        """What is shown of the rows of a specification; None: all of it."""
        streams = sensitive.unseen(principal(), spec, self._fleet)
        return self._mask(made, streams) if streams else None

    def _mask(self, made: Made | None, streams: dict[str, spec_pb2.Stream]) -> Mask:
        if made is None:
            return Mask(frozenset(), time=False, key=False, salt=self._salt)
        of_columns = zip(made.columns, made.origins, strict=True)
        hidden = tuple(column for column, origins in of_columns if any(sensitive.touched(origins, streams)))
        masked = _names(hidden)
        return Mask(
            frozenset(_names(made.columns) - masked),
            time=masked.isdisjoint(TIMES),
            key=not any(sensitive.touched(made.keys, streams)),
            salt=self._salt,
            hidden=hidden,
        )

    async def _remembered(self, dagger: Dagger) -> Made | None:
        """What its rows are made of: asked at each step. What a newer schema adds is an unknown column."""
        key = dagger.name, dagger.create_sequence, dagger.version
        made = self._known.pop(key, None) or await self._made(dagger)
        if made is not None:
            self._known[key] = made
            if len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]
        return made

    def sample(self, stream: spec_pb2.Stream, records: Iterable[gateway_pb2.SampledRecord]) -> None:
        """Mask records of a stream."""
        if sensitive.sees(principal(), stream.name, self._fleet):
            return
        for record in records:
            record.key = b""
            if record.WhichOneof("content") == "json":
                record.json = json.dumps(_masked(json.loads(record.json), stream.sensitive))

    def quarantined(self, dagger: Dagger, records: Iterable[telemetry_pb2.Quarantined]) -> None:
        """Mask what was set aside of a dagger."""
        self.set_aside(dagger.spec, records)

    def check_edits(self, dagger: Dagger) -> None:
        """Raises: ApiError for who does not see what records hold, and cannot say what they are to hold."""
        if streams := sensitive.unseen(principal(), dagger.spec, self._fleet):
            names = ", ".join(sorted({stream.name for stream in streams.values()}))
            text = f"records of dagger {dagger.name} have sensitive fields of {names}: they cannot be edited"
            metadata = {"dagger": dagger.name, "principal": principal().name}
            raise ApiError(grpc.StatusCode.PERMISSION_DENIED, "SENSITIVE_RECORD", text, metadata)

    def set_aside(self, spec: spec_pb2.DaggerSpec, records: Iterable[telemetry_pb2.Quarantined]) -> None:
        """Mask what was set aside: bytes that nobody could read are shown whole or not at all."""
        if not sensitive.unseen(principal(), spec, self._fleet):
            return
        for record in records:
            for field in ("value", "key", "decoded_prefix", "row", "sha256"):
                record.ClearField(field)
            if record.stage == _SINK:  # a sink says of a row what it likes
                record.detail = MASKED


def _names(columns: Iterable[Column]) -> set[str]:
    """What tags and fields of columns may be called."""
    return {name for one in columns for name in (one.name, one.key, one.name.partition(".")[0])}


def log(lines: Sequence[str]) -> list[str]:
    """Lines of a driver's log without the rows that stand in it."""
    return [_ROW.sub(rf"\1{MASKED}", line) for line in lines]


def _masked(value: Any, paths: Iterable[str]) -> Any:
    """A JSON value with MASKED where these dotted paths lead, in each element of lists."""
    by_field: dict[str, list[str]] = {}
    for path in paths:
        first, _, rest = path.partition(".")
        by_field.setdefault(first, []).append(rest)
    if isinstance(value, list):
        return [_masked(item, paths) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {name: _below(inner, by_field.get(name, [])) for name, inner in value.items()}


def _below(value: Any, paths: Sequence[str]) -> Any:
    if "" in paths:
        return MASKED
    return _masked(value, paths) if paths else value
