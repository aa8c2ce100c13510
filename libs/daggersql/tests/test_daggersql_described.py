"""What a query can read of a stream, written down for people: it is what the check accepts."""

import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from tests.conformance.corpus import compiled, tables

from daggersql import Table, check
from daggersql.described import ColumnDescription, columns

CORPUS = tables()
SHOP = """
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";

enum Status { UNKNOWN = 0; COMPLETED = 7; }
message Item { string name = 1; Status status = 2; map<string, int64> tags = 3; }
message Node { string name = 1; repeated Node next = 2; }
message Order {
  google.protobuf.Timestamp event_time = 1;
  repeated Item items = 2;
  map<int32, Item> by_number = 3;
  map<bool, Status> by_flag = 4;
  google.protobuf.UInt64Value paid = 5;
  Item order = 6;
  string end = 7;
  repeated Status history = 8;
  Node node = 9;
  string rowtime = 10;
}
"""


@pytest.fixture
def orders(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A stream with every kind of path."""
    folder = tmp_path_factory.mktemp("protos")
    (folder / "shop.proto").write_text(SHOP)
    pool = DescriptorPool()
    for file in compiled(folder / "shop.proto", include=folder).file:
        pool.Add(file)  # type: ignore[no-untyped-call]  # protobuf's own stub lacks it
    return Table("orders", pool.FindMessageTypeByName("shop.v1.Order"), "event_time")


def wrong(table: Table, expression: str) -> list[str]:
    """What the check has against a query that selects the expression."""
    checked = check(f"SELECT {expression} AS x, rowtime AS window_timestamp FROM {table.name}", [table])
    return [finding.message for finding in checked.findings if finding.severity.value == "error"]


def test_columns_are_those_of_the_check_with_fields_below(orders: Table) -> None:
    told = {column.path: (column.type, column.protobuf_type, column.example) for column in columns(orders)[0]}

    assert {path: told[path] for path in told if not path.startswith(("node", "by_", "`order`."))} == {
        "event_time": ("TIMESTAMP", "google.protobuf.Timestamp", "event_time"),
        "items": ("ARRAY<STRUCT>", "shop.v1.Item", "items[1].name"),
        "items[1].name": ("STRING", "string", "items[1].name"),
        "items[1].status": ("STRING", "shop.v1.Status", "items[1].status = 'COMPLETED'"),
        "items[1].tags": ("MAP<STRING, BIGINT>", "map<string, int64>", "items[1].tags['key']"),
        "paid": ("DECIMAL(20,0)", "google.protobuf.UInt64Value", "paid"),
        "`order`": ("STRUCT", "shop.v1.Item", "`order`.name"),
        "`end`": ("STRING", "string", "`end`"),
        "history": ("ARRAY<STRING>", "shop.v1.Status", "history[1] = 'COMPLETED'"),
        "rowtime": ("TIMESTAMP", "", "rowtime"),
        "__topic": ("STRING", "", "__topic"),
        "__partition": ("INT", "", "__partition"),
        "__offset": ("BIGINT", "", "__offset"),
        "__timestamp": ("TIMESTAMP", "", "__timestamp"),
    }
    assert told["by_number"] == ("MAP<INT, STRUCT>", "map<int32, shop.v1.Item>", "by_number[1].name")
    assert told["by_flag"] == (
        "MAP<BOOLEAN, STRING>", "map<bool, shop.v1.Status>", "by_flag[TRUE] = 'COMPLETED'",
    )  # fmt: skip


def test_an_enum_has_names_and_numbers_in_lists_and_maps_too(orders: Table) -> None:
    told = {column.path: column for column in columns(orders)[0]}

    values = (("UNKNOWN", 0), ("COMPLETED", 7))
    assert [
        (told[path].enum_values, told[path].repeated) for path in ("items[1].status", "history", "by_flag")
    ] == [(values, False), (values, True), (values, False)]
    assert told["items"].enum_values == ()


def test_a_query_may_select_every_path_and_every_example(orders: Table) -> None:
    refused = {
        (table.name, text): found
        for table in (orders, *CORPUS)
        for column in columns(table)[0]
        if not column.unread
        for text in {column.path, column.example}
        if (found := wrong(table, text))
    }

    assert refused == {}


def test_a_field_that_no_query_can_read_is_told_with_the_reason_that_the_check_gives(orders: Table) -> None:
    unread = {column.path: column.unread for column in columns(orders)[0] if column.unread}
    reason = "shop.v1.Node contains itself: columns end 2 below the first of them"

    assert unread == {"node.next[1].next[1].next": reason}
    assert wrong(orders, "node.next[1].next[1].next") == [
        f"node.next.next has no field next that can be read: {reason}."
    ]


def test_each_column_stands_before_the_fields_in_it_however_many_are_told(orders: Table) -> None:
    every, more = columns(orders)
    few, left_out = columns(orders, most=16)

    assert (more, left_out, len(few)) == (False, True, 16)
    assert every.index(by_path(every, "items")) + 1 == every.index(by_path(every, "items[1].name"))
    assert [each for each in every if each in few] == few
    assert by_path(few, "__timestamp")


def by_path(told: list[ColumnDescription], path: str) -> ColumnDescription:
    return next(each for each in told if each.path == path)
