"""Helpers of test_daggersql_schema.py and of its neighbours."""

from functools import cache
from pathlib import Path

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor
from tests.conformance.corpus import compiled

from daggersql import Table

PROTOS = Path(__file__).parent / "protos"


@cache
def message(name: str) -> Descriptor:
    pool = descriptor_pool.DescriptorPool()
    for file in compiled(PROTOS / "seed.proto", include=PROTOS).file:
        pool.Add(file)  # type: ignore[no-untyped-call]  # protobuf's own stub lacks it
    return pool.FindMessageTypeByName(f"seed.v1.{name}")


TABLES = (
    Table("data_stream", message("Booking"), "event_time"),
    Table("supply_data", message("Supply"), "event_time"),
    Table("every", message("Every"), "event_time"),
)
