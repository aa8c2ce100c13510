"""Each row is one point of InfluxDB (1.8 or 2.x)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import catalogue, fields
from daggerspec.capabilities import Capabilities, Guarantee
from daggerspec.columns import Output, Role, time_column
from daggerspec.destination import Destination, server_at
from daggerspec.keys import Key
from daggerspec.kind import ValidationContext, no_messages
from daggerspec.violation import Violation

CAPABILITIES: Final = Capabilities(
    guarantee=Guarantee.EFFECTIVELY_ONCE,
    because="a point is identified by measurement, tags and time",
    upserts=True,
    repeats_tellable=True,
    max_rows=5_000,
    max_bytes=16 * 1024 * 1024,  # a server takes 25 MB unless it is told otherwise
    limits=("rows_per_second", "requests_per_second", "max_in_flight"),
)
TIME_SERIES: Final = True
KEYS: Final = (
    Key("measurement", "The points' measurement; without it the dagger's name."),
    Key("url", "Base URL of the database; without it the cluster's.", "address.url", address=True),
    Key("org", "Organisation, - for InfluxDB 1.8; without it the cluster's.", "address.org", address=True),
    Key(
        "bucket",
        "Bucket, or database/retention_policy; without it the cluster's.",
        "address.bucket",
        address=True,
    ),
    Key(
        "token",
        "Where its API token is; without it the cluster's, for the cluster's url.",
        "address.token",
        address=True,
        sent_to=("address.url",),
    ),
)
messages = no_messages
DEFAULT_ORG: Final = "-"
_STANDARD_POLICY: Final = "/autogen"
"""The retention policy of 1.8 that a database has, and that a bucket without one means."""


def fill(sink: spec_pb2.InfluxSink, dagger: str, spec: spec_pb2.DaggerSpec) -> None:
    """Say its defaults."""
    del spec
    sink.measurement = sink.measurement or dagger


def resolve(path: str, resolved: spec_pb2.ResolvedSink, context: ValidationContext) -> Iterator[Violation]:
    """Take the empty parts of its address from the dagger's cluster."""
    cluster = context.catalogue.cluster(context.spec.cluster)
    if cluster is None:
        return
    own, default = resolved.sink.influx.address, cluster.influx
    own.url = own.url or default.url
    own.org = own.org or default.org or DEFAULT_ORG
    own.bucket = own.bucket or default.bucket
    # A token belongs to its server: the cluster's is not sent to an address of the user's own.
    if not own.HasField("token") and default.HasField("token") and own.url == default.url:
        own.token.CopyFrom(default.token)
    if own.url != default.url:  # nobody but who wrote the spec vouches for it
        resolved.egress.SetInParent()
    for part in ("url", "bucket"):
        if not getattr(own, part):
            yield Violation(
                f"{path}.address.{part}", f"is required: cluster {cluster.name} has none", "REQUIRED"
            )


def destination(resolved: spec_pb2.ResolvedSink) -> Destination:
    """Return its measurement, in a bucket: a server of release 1.8 takes any word for its organisation."""
    sink = resolved.sink.influx
    return Destination("influx", server_at(sink.address.url), _bucket(sink.address), sink.measurement)


def shared_container(cluster: spec_pb2.Cluster) -> Destination:
    """Return all measurements of a cluster's bucket."""
    return Destination("influx", server_at(cluster.influx.url), _bucket(cluster.influx), "", is_prefix=True)


def _bucket(address: spec_pb2.InfluxAddress) -> str:
    return address.bucket.removesuffix(_STANDARD_POLICY)


def violations(path: str, sink: spec_pb2.InfluxSink, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of address, measurement and points."""
    if sink.measurement != context.dagger:
        yield from measurement(f"{path}.measurement", sink.measurement)
    yield from catalogue.influx_address(f"{path}.address", sink.address)
    if context.output is not None:
        yield from points(path, context.output)


def measurement(path: str, value: str) -> Iterator[Violation]:
    """Name of a measurement."""
    yield from fields.text(path, value, limit=256)
    if wrong := unwritable(value):
        yield Violation(path, wrong, "INVALID_NAME")
    elif value.startswith("_"):
        yield Violation(path, "must not begin with # or _", "INVALID_NAME")


def unwritable(name: str) -> str | None:
    """Explain why a measurement cannot stand in a line; None if it can."""
    if not name:
        return "must not be empty"
    if name.startswith("#"):
        return "must not begin with # or _"
    # It would escape what separates it from the tags.
    return "must not end with a backslash" if name.endswith("\\") else None


def points(path: str, rows: Output) -> Iterator[Violation]:
    """Yield the violations of rows as points: two columns of one tag, or nothing beside tags and time."""
    tags = [column.key for column in rows.columns if column.role is Role.TAG]
    for tag in sorted({tag for tag in tags if tags.count(tag) > 1}):
        yield Violation(
            path, f"cannot have two columns as the tag {tag}: rename one of them", "DUPLICATE_TAG"
        )
    time = time_column(rows.columns, rows.hidden)
    if not any(column.role is not Role.TAG and column.name != time for column in rows.columns):
        text = "needs a column that is neither a tag nor the time: a point has at least one field"
        yield Violation(path, text, "NO_FIELDS")
