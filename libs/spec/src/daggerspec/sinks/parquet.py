"""Rows become Parquet files, in folders of an hour, which a manifest for each batch lists.

A table is the folder LOCATION/TABLE. Its files are in dt=YYYY-MM-DD/hr=HH, by the time of the row in UTC:
`window_timestamp`, else `rowtime`. `by` names another column that is a time (for that of Kafka, select
`__timestamp AS kafka_time`), `zone` another time zone, and with `per: day` there is no hr=HH. Rows stay where
they were written: an edit of these holds for what comes, and changes no file. A table has folders of hours or
of days; for the others take another `table`.

Whatever reads Parquet by such folders reads the table: Spark, DuckDB, pandas. What belongs to it besides is
in `_daggers`: a manifest for each batch, versions of the schema.

In S3 a file is an upload that is completed once the manifest is there. The server must know conditional
writes (`If-None-Match`), as Amazon's does; else the launch ends with SINK_CANNOT_COMMIT.

A file is seen once the manifest of its batch is there, so readers of folders see each row once as well.
After an edit, windows up to the last one that was written are left out, and so are records that were. Where
rows are pairs of a join, those that are read again after an edit come again.

Columns have the numbers of the Protobuf fields that they are, others numbers from 1,000,000,000 on. Columns
may come, go, and become wider (INT to BIGINT, FLOAT to DOUBLE); any other type needs another table.

Its batches are due every 60 seconds where no other sink needs them sooner.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import fields, folders, zones
from daggerspec.capabilities import Capabilities, Guarantee
from daggerspec.destination import Destination, server_at
from daggerspec.keys import Key
from daggerspec.kind import ValidationContext, no_messages, own_address
from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation

CAPABILITIES: Final = Capabilities(
    guarantee=Guarantee.EXACTLY_ONCE,
    because="the files of a batch count once its manifest is there, and each batch has one",
    upserts=False,
    repeats_tellable=True,
    records=True,
    trigger=timedelta(seconds=60),
)
TIME_SERIES: Final = False
DEFAULT_REGION: Final = "us-east-1"
S3: Final = "s3://"
_AMAZON: Final = re.compile(r"https://s3\.[a-z0-9-]+\.amazonaws\.com")
_REGION: Final = re.compile(r"[a-z0-9-]{1,40}")
_BUCKET: Final = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_=.-]+)*")
_MEANT: Final = {
    "kafka_time": ": select __timestamp AS kafka_time",
    "rowtime": ": leave it out, for the time of the row",
}
"""Advice in messages about times that have no column."""
KEYS: Final = (
    Key(
        "location",
        "s3://BUCKET/PREFIX, or a folder of the drivers' hosts in a place that an administrator allows"
        " (DAGGERS_ALLOWED_FOLDERS): tables are below.",
        required=True,
        address=True,
        folder=True,
    ),
    Key("table", "Name of the table; without it the dagger's name."),
    Key("by", "The query's column, a time, that says a row's folder; without it the time of the row."),
    Key("per", "How long the time of a folder is: hour or day; without it hour."),
    Key("zone", f"Time zone of folders, for example Europe/Berlin; without it {zones.UTC}."),
    Key("codec", "How files are compressed: zstd, snappy, gzip or none; without it zstd."),
    Key(
        "credentials",
        "Of S3: where its keys are, as ACCESS_KEY_ID:SECRET_ACCESS_KEY.",
        address=True,
        sent_to=("endpoint",),
    ),
    Key("endpoint", "Of S3: base URL of the server; without it Amazon's of the region.", address=True),
    Key("region", f"Of S3: the region; without it {DEFAULT_REGION}.", address=True),
)
resolve = own_address
messages = no_messages
PARTITIONS: Final = ("dt", "hr")
"""The columns that the names of its folders are."""


def fill(sink: spec_pb2.ParquetSink, dagger: str, spec: spec_pb2.DaggerSpec) -> None:
    """Say its defaults."""
    del spec
    sink.table = sink.table or dagger
    sink.zone = sink.zone or zones.UTC
    sink.per = sink.per or spec_pb2.ParquetSink.PER_HOUR
    sink.codec = sink.codec or spec_pb2.ParquetSink.CODEC_ZSTD
    if is_s3(sink):
        sink.region = sink.region or DEFAULT_REGION
        sink.endpoint = sink.endpoint or f"https://s3.{sink.region}.amazonaws.com"


def is_s3(sink: spec_pb2.ParquetSink) -> bool:
    """Return whether its files are objects of S3."""
    return sink.location.startswith(S3)


def destination(resolved: spec_pb2.ResolvedSink) -> Destination:
    """Return all below the folder of its table, in a bucket or on the drivers' hosts."""
    sink = resolved.sink.parquet
    if not is_s3(sink):
        return Destination("parquet", "", "", f"{sink.location}/{sink.table}/", is_prefix=True)
    bucket, _, below = sink.location.removeprefix(S3).partition("/")
    # A bucket of Amazon is one in all its regions.
    amazon = _AMAZON.fullmatch(sink.endpoint)
    server = "amazonaws.com:443" if amazon else server_at(sink.endpoint)
    folder = f"{below}/{sink.table}/".removeprefix("/")
    return Destination("parquet", server, bucket, folder, is_prefix=True)


def violations(path: str, sink: spec_pb2.ParquetSink, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of place, folders, codec and columns."""
    if is_s3(sink):
        yield from _bucket(path, sink)
    elif not sink.location:
        yield Violation(f"{path}.location", "is required: the folder that tables are below", "REQUIRED")
    elif not folders.is_plain(sink.location) or sink.location == "/":
        text = "must be an absolute folder without .., // or a / at its end"
        yield Violation(f"{path}.location", text, "INVALID_LOCATION")
    if not is_s3(sink):
        for field in ("credentials", "endpoint", "region"):
            if sink.HasField("credentials") if field == "credentials" else getattr(sink, field):
                yield Violation(f"{path}.{field}", "goes with s3:// alone", "UNEXPECTED")
    yield from fields.reference(f"{path}.table", sink.table)
    yield from _folders(path, sink, context)
    if context.output is not None:
        yield from _columns(path, [column.name for column in context.output.columns])
    tables = Counter(
        (sink.registered, sink.parquet.location, sink.parquet.table or context.dagger)
        for sink in context.spec.sinks
        if sink.WhichOneof("kind") == "parquet"
    )
    if any(times > 1 and table == sink.table for (_, _, table), times in tables.items()):
        yield Violation(f"{path}.table", f"{sink.table} is written by two sinks", "SINK_TABLE_TWICE")


def _bucket(path: str, sink: spec_pb2.ParquetSink) -> Iterator[Violation]:
    """Yield the violations of the objects' bucket, endpoint and credentials."""
    if not _BUCKET.fullmatch(sink.location) or {".", ".."} & set(sink.location.split("/")):
        text = "must be s3://BUCKET or s3://BUCKET/PREFIX, of letters, digits, =, _, . and -"
        yield Violation(f"{path}.location", text, "INVALID_LOCATION")
    yield from fields.url(f"{path}.endpoint", sink.endpoint)
    if not _REGION.fullmatch(sink.region):
        yield Violation(f"{path}.region", "must be the name of a region", "INVALID_NAME")
    yield from fields.secret(f"{path}.credentials", sink.credentials)


def _folders(path: str, sink: spec_pb2.ParquetSink, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of the folders that rows are divided into."""
    for field, enum in (("per", spec_pb2.ParquetSink.Per), ("codec", spec_pb2.ParquetSink.Codec)):
        if getattr(sink, field) not in enum.values():
            yield Violation(f"{path}.{field}", f"{getattr(sink, field)} is none", "UNKNOWN_ENUM_VALUE")
    if sink.zone not in zones.names():
        others = hint(nearest(sink.zone, zones.names()), "")
        yield Violation(f"{path}.zone", f"{sink.zone} is no time zone{others}", "UNKNOWN_ZONE")
    if not sink.by or context.output is None:
        return
    types = {column.name: column.type for column in context.output.columns}
    if sink.by not in types:
        others = _MEANT.get(sink.by) or hint(nearest(sink.by, types), f": it has {', '.join(types)}")
        yield Violation(f"{path}.by", f"the query has no column {sink.by}{others}", "UNKNOWN_COLUMN")
    elif types[sink.by] != "timestamp":
        yield Violation(f"{path}.by", f"{sink.by} is {types[sink.by]}, and no time", "TYPE_MISMATCH")


def _columns(path: str, names: list[str]) -> Iterator[Violation]:
    """Columns that readers of folders would not see."""
    for name in names:
        if name.lower() in PARTITIONS:
            text = f"the column {name} has the name of a part of the folders: call it otherwise (AS)"
            yield Violation(path, text, "SINK_SCHEMA")
