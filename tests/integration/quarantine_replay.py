"""Helpers of test_quarantine_replay.py and of its neighbours."""

from __future__ import annotations

from daggers.v1 import spec_pb2


def table_sink(resolved: spec_pb2.ResolvedSink, **more: object) -> dict[str, object]:
    """The sink `db` of a dagger file: a table that is there already."""
    address = resolved.sink.postgres.address
    db = {"address": {"host": address.host, "port": address.port, "database": address.database,
                      "user": address.user, "password": {"file": address.password.file}},
          "schema": resolved.sink.postgres.schema, "table": "counts", "create_table": False}  # fmt: skip
    return {"name": "db", "postgres": db, **more}
