"""Each row is one document of an index of Elasticsearch (7 or later) or OpenSearch.

A document's `_id` is made of the row's key, so a row that is written again takes its own place; with
`operation: update` its fields alone, and with `operation: create`, for data streams, the first one stays.
Documents that the server refuses, for a field of another type say, are quarantined, and the others are
written. A row that is written again while its window is open (`emit: early`) counts by its batch: an older
one never takes the place of a newer.

`index` may have a time in it, `trips-${window_timestamp:%Y.%m.%d}`: such indices are made by the server,
by its templates. One without is to be there when the dagger starts, unless `create_index` is said.

An alias, or a data stream, may move or be rolled over while the dagger runs. A document takes its own place
in the index that is written to: a row that is written again after that, after a crash or as an update, stays
in the older index as well. Where each is to be there once, put the row's time into `index`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import fields, httpserver, state, template
from daggerspec.capabilities import Capabilities, Guarantee
from daggerspec.columns import Output
from daggerspec.destination import Destination, from_template, server_at
from daggerspec.keys import Key
from daggerspec.kind import ValidationContext, no_messages, own_address
from daggerspec.violation import Violation

CAPABILITIES: Final = Capabilities(
    guarantee=Guarantee.EFFECTIVELY_ONCE,
    because="a document is identified by its _id, and one that is repeated takes its place",
    upserts=True,
    repeats_tellable=True,
    compares_versions=True,
    max_rows=1_000,
    max_bytes=5 * 1024 * 1024,
    limits=("rows_per_second", "requests_per_second", "max_in_flight"),
)
TIME_SERIES: Final = False
DEFAULT_TIMEOUT: Final = timedelta(seconds=30)
KEYS: Final = (
    Key("url", "Base URL of the server.", required=True, address=True),
    Key("index", "The index, an alias or a data stream; its name may have ${column}.", required=True),
    Key("id", "What a document's _id is, with ${column} in it; without it a digest of the row's key."),
    Key("routing", "What decides its shard, with ${column} in it; without it its _id."),
    Key("operation", "What becomes of a document: index, update or create; without it index."),
    Key(
        "create_index",
        "Whether an index that is not there is made, with the types of the columns, and extended by an edit.",
    ),
    httpserver.AUTH,
    httpserver.CA_FILE,
    httpserver.TLS,
    Key("timeout", f"How long a request may take; without it {DEFAULT_TIMEOUT.seconds}s."),
)
resolve = own_address
messages = no_messages
_Sink = spec_pb2.ElasticsearchSink
_OPERATIONS: Final = (_Sink.OPERATION_INDEX, _Sink.OPERATION_UPDATE, _Sink.OPERATION_CREATE)
_INDEX: Final = re.compile(r"[^A-Z\s\\/*?\"<>|,#:]*")
_MAX_ID: Final = 512
_OBJECTS: Final = ("object", "nested")
_NUMBERS: Final = (
    "byte", "short", "integer", "long", "unsigned_long", "half_float", "float", "double", "scaled_float"
)  # fmt: skip
_NEVER: Final = {
    "boolean": (*_NUMBERS, "date", "date_nanos", "ip", "binary"),
    "date": (*_NUMBERS, "boolean", "ip", "binary"),
    **dict.fromkeys(_NUMBERS, ("boolean", "ip", "binary")),
}
"""Types of fields that take no value of one of ours."""
_TYPES: Final = {
    "string": "keyword",
    "boolean": "boolean",
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "timestamp": "date",
    "date": "date",
    "binary": "binary",
}


def fill(sink: spec_pb2.ElasticsearchSink, dagger: str, spec: spec_pb2.DaggerSpec) -> None:
    """Say its defaults."""
    del dagger, spec
    sink.operation = sink.operation or _Sink.OPERATION_INDEX
    if not sink.HasField("timeout"):
        sink.timeout.FromTimedelta(DEFAULT_TIMEOUT)


def destination(resolved: spec_pb2.ResolvedSink) -> Destination:
    """Return its index."""
    sink = resolved.sink.elasticsearch
    return from_template("elasticsearch", server_at(sink.url), "", sink.index)


def has_own_key(sink: spec_pb2.ElasticsearchSink, rows: Output) -> bool:
    """Return whether ids of documents are not made of the rows' keys: several rows may be one document."""
    del rows
    return bool(sink.id)


def overwrites(sink: spec_pb2.ElasticsearchSink) -> bool:
    """Return whether a recomputed row takes the place of the one before."""
    return sink.operation != _Sink.OPERATION_CREATE


def violations(
    path: str, sink: spec_pb2.ElasticsearchSink, context: ValidationContext
) -> Iterator[Violation]:
    """Yield the violations of server, index, mode and id."""
    yield from httpserver.violations(path, sink)
    if sink.operation not in _OPERATIONS:
        yield Violation(f"{path}.operation", f"{sink.operation} is not an operation", "UNKNOWN_ENUM_VALUE")
    elif sink.operation != _Sink.OPERATION_INDEX and state.updates(context.spec):
        setting = state.updating_setting(context.spec)
        problem = f"must be index for {setting}: its rows come again, and the last is the one that counts"
        yield Violation(f"{path}.operation", problem, "SINK_CANNOT_UPDATE")
    for field in ("index", "id", "routing"):
        yield from template.violations(f"{path}.{field}", getattr(sink, field), context.output)
    name = template.literal(sink.index)
    if not sink.index:
        yield Violation(f"{path}.index", "is required", "REQUIRED")
    elif not _INDEX.fullmatch(name) or sink.index[0] in "-_+." or len(name.encode()) > 255:
        problem = 'must be lower case, without blanks and \\/*?"<>|,#: and not begin with one of -_+.'
        yield Violation(f"{path}.index", problem, "INVALID_NAME")
    if sink.create_index and template.references(sink.index):
        problem = "makes one index: those with values in their names are made by the server, by its templates"
        yield Violation(f"{path}.create_index", problem, "UNEXPECTED")
    if len(template.literal(sink.id).encode()) > _MAX_ID:
        yield Violation(f"{path}.id", f"must not be longer than {_MAX_ID} bytes", "TOO_LONG")
    yield from fields.text(f"{path}.routing", sink.routing, limit=_MAX_ID)


def mapping(rows: Output) -> dict[str, dict[str, object]]:
    """Build the fields of an index that takes these rows and nothing else."""
    return {column.name: _field(column.type) for column in rows.columns}


def holds(field: Mapping[str, object], existing: Mapping[str, object]) -> bool:
    """Return whether a field that an index has can store values of one of ours, as far as types show."""
    if existing.get("enabled") is False:
        return True
    ours, theirs = str(field["type"]), str(existing.get("type", "object"))
    if ours == "object":
        return theirs in (*_OBJECTS, "flattened", "flat_object")
    return theirs not in (*_OBJECTS, *_NEVER.get(ours, ()))


def _field(spark: str) -> dict[str, object]:
    if spark.startswith("array<"):  # any field may have several values
        return _field(spark.removeprefix("array<").removesuffix(">"))
    if spark.startswith(("map<", "struct<")):
        return {"type": "object", "dynamic": True}
    return {"type": "double" if spark.startswith("decimal") else _TYPES.get(spark, "keyword")}


def new_column(sink: spec_pb2.ElasticsearchSink, column: str) -> str:
    """Describe what happens to the index when rows get a column."""
    if sink.create_index:
        return f"the mapping of {sink.index} gets {column} where it is strict"
    return f"where the mapping of {sink.index} is strict it must have {column} before, or the driver fails"
