"""Which rows are asked for: conditions on columns, an order, and what is wrong with either."""

from datetime import UTC, datetime
from typing import Any

import pytest
from daggers.v1 import gateway_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from daggerspec.columns import Column, Role
from daggerspec.row import Row
from daggerspec.selection import from_request, violations

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
COLUMNS = (
    Column("window_timestamp", Role.TIME, "window_timestamp", "timestamp"),
    Column("tag_city", Role.TAG, "tag_city", "bigint"),
    Column("label_cell", Role.TAG, "cell", "string"),
    Column("cell", Role.FIELD, "cell", "bigint"),
    Column("revenue", Role.FIELD, "revenue", "decimal(38,2)"),
    Column("open", Role.FIELD, "open", "boolean"),
    Column("last_seen", Role.FIELD, "last_seen", "timestamp"),
    Column("cells", Role.FIELD, "cells", "array<string>"),
)
ROW = Row(
    NOON,
    {"tag_city": "12", "cell": "89c25"},
    {"cell": 2**53 + 1, "revenue": 0.1, "open": True, "last_seen": "2026-01-01T12:30:00.500Z"},
)
SIGNS = {
    "==": gateway_pb2.RowCondition.COMPARISON_EQUAL,
    "!=": gateway_pb2.RowCondition.COMPARISON_NOT_EQUAL,
    "<": gateway_pb2.RowCondition.COMPARISON_LESS,
    "<=": gateway_pb2.RowCondition.COMPARISON_AT_MOST,
    ">": gateway_pb2.RowCondition.COMPARISON_GREATER,
    ">=": gateway_pb2.RowCondition.COMPARISON_AT_LEAST,
}


def request(*conditions: str, **fields: Any) -> gateway_pb2.ReadRowsRequest:
    """A request with conditions as people write them: column, comparison, value."""
    where = [condition.split(" ", 2) for condition in conditions]
    return gateway_pb2.ReadRowsRequest(
        name="orders",
        where=[
            gateway_pb2.RowCondition(column=column, comparison=SIGNS[sign], value=value)
            for column, sign, value in where
        ],
        **fields,
    )


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("tag_city == 12", True),
        ("tag_city == 12.0", True),
        ("tag_city < 9", False),  # a number, though the store has it as text
        ("tag_city != 12", False),
        ("cell == 9007199254740993", True),
        ("cell == 9007199254740992", False),  # the nearest double is the same
        ("label_cell == 89c25", True),
        ("label_cell < 89c3", True),
        ("revenue == 0.1", True),
        ("revenue >= 0.11", False),
        ("open == true", True),
        ("open != true", False),
        ("window_timestamp >= 2026-01-01T12:00:00Z", True),
        ("window_timestamp < 2026-01-01T13:00:00+01:00", False),
        ("window_timestamp == 2026-01-01 12:00", True),
        ("last_seen > 2026-01-01T12:30:00Z", True),
    ],
)
def test_a_condition_compares_by_the_type_of_its_column(condition: str, holds: bool) -> None:
    asks = request(condition)

    assert list(violations("", asks, COLUMNS)) == []
    assert from_request(asks, COLUMNS).wants(ROW) is holds


@pytest.mark.parametrize("sign", SIGNS)
def test_no_condition_holds_where_there_is_no_value(sign: str) -> None:
    without = Row(NOON, {}, {})

    assert not from_request(request(f"cell {sign} 1"), COLUMNS).wants(without)
    assert not from_request(request(f"tag_city {sign} 1"), COLUMNS).wants(without)


def test_all_conditions_must_hold() -> None:
    both = from_request(request("tag_city == 12", "open == true"), COLUMNS)
    one = from_request(request("tag_city == 12", "open == false"), COLUMNS)

    assert (both.wants(ROW), one.wants(ROW)) == (True, False)


def test_everything_that_is_wrong_is_told_at_once_with_what_may_be_meant() -> None:
    asks = request("revenu > 1", "cells == 1", "revenue > much", order_by="opened desc")
    asks.where.add(column="cell", value="1")
    asks.since.CopyFrom(Timestamp(seconds=2**60))
    found = [
        (violation.field, violation.reason, violation.message)
        for violation in violations("request.", asks, COLUMNS)
    ]

    assert found == [
        ("request.since", "OUT_OF_RANGE", "must be an instant of the years 1 to 9999"),
        ("request.where[0].column", "UNKNOWN_COLUMN", "there is no column revenu: did you mean revenue?"),
        (
            "request.where[1].column",
            "NOT_COMPARABLE",
            "cannot be compared: the type of cells is array<string>",
        ),
        ("request.where[2].value", "TYPE_MISMATCH", "must be a number: the type of revenue is decimal(38,2)"),
        ("request.where[3].comparison", "UNKNOWN_ENUM_VALUE", "must be one of the comparisons"),
        ("request.order_by", "UNKNOWN_COLUMN", "there is no column opened: did you mean open?"),
    ]
    assert [violation.reason for violation in violations("", request(order_by="cell down"), COLUMNS)] == [
        "INVALID_ORDER"
    ]


def test_the_greatest_come_first_of_equal_ones_the_newest_and_none_at_the_end() -> None:
    rows = [
        Row(None, {}, {"cell": cell} if cell else {}, key)
        for cell, key in ((1, "a"), (0, "b"), (3, "c"), (3, "d"))
    ]

    def keys(order_by: str, limit: int) -> list[str]:
        return [
            row.key for row in from_request(request(order_by=order_by, limit=limit), COLUMNS[3:]).first(rows)
        ]

    assert keys("cell desc", 10) == ["c", "d", "a", "b"]
    assert keys("cell", 2) == ["a", "c"]
    assert keys("", 2) == ["a", "b"]
