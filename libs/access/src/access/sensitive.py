"""Who sees sensitive fields of streams, and may have what is made of them written to a sink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from daggers.v1 import spec_pb2

from access.decision import Decision, is_administrator
from access.principal import Principal
from daggerspec.columns import Column
from fleet import Fleet
from fleet.tenancy import administrators

Origins = Iterable[tuple[str, str]]
"""Tables of a query, each with the dotted path of a field (`daggersql.Plan.origins`)."""


@dataclass(frozen=True, slots=True)
class Made:
    """What the rows of a dagger are made of."""

    columns: Sequence[Column]
    origins: Sequence[Origins]
    """Of each column."""
    keys: Origins
    """Of what tells rows apart."""


def sees(principal: Principal, stream: str, fleet: Fleet) -> bool:
    """Whether a principal sees the sensitive fields of a stream."""
    entry, grant = fleet.streams.get(stream), fleet.catalogue.grants.get(stream)
    if entry is None or not entry.value.sensitive:
        return True
    granted = grant is not None and not principal.names.isdisjoint(grant.value.read_sensitive)
    return granted or is_administrator(principal, fleet)


def unseen(principal: Principal, spec: spec_pb2.DaggerSpec, fleet: Fleet) -> dict[str, spec_pb2.Stream]:
    """By table: the streams of a specification whose sensitive fields a principal does not see."""
    return {
        stream.table: fleet.streams[stream.stream].value
        for stream in spec.streams
        if not sees(principal, stream.stream, fleet)
    }


def touched(origins: Origins, streams: dict[str, spec_pb2.Stream]) -> Iterator[tuple[spec_pb2.Stream, str]]:
    """The sensitive paths that values of these origins are made of, whole or in part."""
    for table, path in origins:
        stream = streams.get(table)
        if stream is not None:
            read = stream.time_field if path == "rowtime" else path
            yield from ((stream, path) for path in stream.sensitive if _within(path, read))


def may_write(principal: Principal, spec: spec_pb2.DaggerSpec, made: Made, fleet: Fleet) -> Decision:
    """Whether a principal may have these rows written to sinks."""
    granted = Decision(True, "GRANTED", f"nothing of it is sensitive to {principal.name}", {})
    streams = unseen(principal, spec, fleet)
    if not streams:
        return granted
    columns = [
        *(
            (f"column {column.name}", origins)
            for column, origins in zip(made.columns, made.origins, strict=True)
        ),
        ("the key of its rows", made.keys),
    ]
    for what, origins in columns:
        for stream, path in touched(origins, streams):
            text = (
                f"{principal.name} may not have {what} written to a sink: it is made of {path} of stream"
                f" {stream.name}, which is sensitive: {administrators(fleet.catalogue)} can grant that"
            )
            metadata = {"principal": principal.name, "stream": stream.name, "path": path}
            return Decision(False, "SENSITIVE_COLUMN", text, metadata)
    return granted


def _within(sensitive: str, read: str) -> bool:
    return f"{read}.".startswith(f"{sensitive}.") or f"{sensitive}.".startswith(f"{read}.")
