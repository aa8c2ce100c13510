"""A forwarding as one SELECT: what it says, and where what is wrong with it was written."""

from __future__ import annotations

import pytest
from daggers.v1 import spec_pb2
from google.protobuf.json_format import ParseDict

from daggerspec import query
from daggerspec.violation import Edit, Violation

STREAMS = [{"table": "data_stream", "stream": "bookings"}]


def spec(**fields: object) -> spec_pb2.DaggerSpec:
    return ParseDict({"streams": STREAMS, **fields}, spec_pb2.DaggerSpec())


def forward(filter: str = "", **fields: str) -> spec_pb2.DaggerSpec:  # noqa: A002 - as the field is called
    columns = [{"name": name, "expression": expression} for name, expression in fields.items()]
    return spec(forward={"filter": filter, "fields": columns})


def test_without_fields_and_filter_every_record_goes_on_whole() -> None:
    assert query.of(forward()).sql == "SELECT\n*\nFROM `data_stream`"


def test_fields_are_columns_in_their_order_and_the_filter_is_where() -> None:
    text = query.of(forward("fare > 0 -- paid\n  AND tip > 0", zone="UPPER(city)", customer="customer.id"))

    assert text.sql == (
        "SELECT\nUPPER(city)\n  AS `zone`,\ncustomer.id\n  AS `customer`\n"
        "FROM `data_stream`\nWHERE\nfare > 0 -- paid\n  AND tip > 0"
    )
    assert [text.sql[start:end] for start, end in text.expressions] == [
        "UPPER(city)", "customer.id", "fare > 0 -- paid\n  AND tip > 0",
    ]  # fmt: skip


def test_records_as_they_are_have_three_columns_and_the_filter_is_where() -> None:
    text = query.of(spec(forward={"filter": "fare > 0", "payload": "PAYLOAD_RECORD"}))

    assert text.sql == (
        "SELECT\n`__value` AS `value`, `__key` AS `key`, `__headers` AS `headers`\n"
        "FROM `data_stream`\nWHERE\nfare > 0"
    )
    assert [text.sql[start:end] for start, end in text.expressions] == ["fare > 0"]


def test_a_name_cannot_end_its_quotes() -> None:
    assert "AS `a`` FROM x`" in query.of(forward(**{"a` FROM x": "fare"})).sql


def test_of_an_own_query_nothing_is_another() -> None:
    text = query.of(spec(sql="SELECT 1\nFROM x"))
    found = Violation("", "no", "SYNTAX_ERROR", 2, 6, 2, 7, "y", Edit(2, 6, 2, 7, "y"))

    assert (text.sql, text.expressions) == ("SELECT 1\nFROM x", ())
    assert text.locate("spec", found) == Violation(
        "spec.sql", "no", "SYNTAX_ERROR", 2, 6, 2, 7, "y", Edit(2, 6, 2, 7, "y")
    )


@pytest.mark.parametrize(
    ("place", "field", "told"),
    [
        ((2, 7, 2, 11), "fields[0].expression", (1, 7, 1, 11)),
        ((4, 1, 4, 12), "fields[1].expression", (1, 1, 1, 12)),
        ((9, 7, 9, 10), "filter", (2, 7, 2, 10)),
        ((8, 1, 9, 14), "filter", (1, 1, 2, 14)),
        ((4, 1, 7, 1), "fields[1].expression", (1, 1, 1, 12)),
    ],
)
def test_a_place_is_told_of_the_field_that_was_written(
    place: tuple[int, int, int, int], field: str, told: tuple[int, int, int, int]
) -> None:
    text = query.of(forward("fare > 0\n  AND tip > 0", zone="UPPER(city)", customer="customer.id"))
    found = text.locate("spec", Violation("", "no", "CODE", *place))

    assert found.field == f"spec.forward.{field}"
    assert (found.line, found.column, found.end_line, found.end_column) == told


def test_an_edit_moves_with_its_place() -> None:
    text = query.of(forward("fair > 0", zone="city"))
    found = text.locate("spec", Violation("", "no", "CODE", 6, 1, 6, 5, "fare", Edit(6, 1, 6, 5, "fare")))

    assert found.edit is not None
    assert found.edit.apply("fair > 0") == "fare > 0"


def test_what_is_wrong_with_the_whole_has_no_place() -> None:
    found = query.of(forward("fare > 0")).locate("spec", Violation("", "no", "CODE", 1, 1, 1, 7))

    assert (found.field, found.line, found.edit) == ("spec.forward", None, None)
