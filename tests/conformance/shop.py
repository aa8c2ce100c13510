"""A shop's orders, as tests of queries read them: with a customer, items and labels."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pool import DescriptorPool
from tests.conformance.corpus import compiled

from daggersql import Plan, Table, check

SHOP = """
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";

message Item { string name = 1; double price = 2; }
message Customer { string email = 1; string city = 2; }
message Order {
  google.protobuf.Timestamp event_time = 1;
  string number = 2;
  Customer customer = 3;
  repeated Item items = 4;
  map<string, string> labels = 5;
  double amount = 6;
}
"""
WINDOW = "TUMBLE(rowtime, INTERVAL '1' MINUTE)"
END = "TUMBLE_END(rowtime, INTERVAL '1' MINUTE) AS window_timestamp"
TIMED = "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(rowtime), INTERVAL '1' MINUTE))"


@cache
def tables() -> tuple[Table, ...]:
    with TemporaryDirectory() as folder:
        (Path(folder) / "shop.proto").write_text(SHOP)
        files = compiled(Path(folder) / "shop.proto", include=Path(folder)).file
    pool = DescriptorPool()
    for file in files:
        pool.Add(file)  # type: ignore[no-untyped-call]  # protobuf's own stub lacks it
    order = pool.FindMessageTypeByName("shop.v1.Order")
    return Table("orders", order, "event_time"), Table("refunds", order, "event_time")


def plan(sql: str) -> Plan:
    checked = check(sql, tables())
    assert checked.plan is not None, checked.findings
    return checked.plan


JOINED = (
    "FROM orders o {} refunds r ON o.number = r.number AND r.rowtime BETWEEN o.rowtime - INTERVAL '1' MINUTE"
    " AND o.rowtime + INTERVAL '1' MINUTE"
)
