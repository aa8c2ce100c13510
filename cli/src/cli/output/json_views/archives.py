"""A table in cold storage: who writes it, and what it has."""

from typing import Any

from daggers.v1 import gateway_pb2, spec_pb2

from daggerclient.times import iso


def streams(dagger: gateway_pb2.Dagger) -> str:
    """Name the streams that a table is made of."""
    return ", ".join(sorted({stream.stream for stream in dagger.spec.streams}))


def path(dagger: gateway_pb2.Dagger, sink: spec_pb2.Sink) -> str:
    """Write where a table is; of a registered sink, which sink has it."""
    table = sink.parquet.table or dagger.name
    return f"{sink.parquet.location}/{table}" if sink.parquet.location else f"{sink.registered}: {table}"


def archive_document(dagger: gateway_pb2.Dagger, name: str, sink: spec_pb2.Sink) -> dict[str, Any]:
    """Make the JSON document of a table in cold storage."""
    vitals = dagger.vitals
    return {
        "dagger": dagger.name,
        "team": dagger.spec.team,
        "sink": name,
        "streams": sorted({stream.stream for stream in dagger.spec.streams}),
        "path": path(dagger, sink),
        "last_commit": iso(vitals.last_commit) if vitals.HasField("last_commit") else None,
    }
