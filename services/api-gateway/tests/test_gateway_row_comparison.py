"""Rows that came, compared with rows that a test expects."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from daggers.v1 import gateway_pb2
from hypothesis import given
from hypothesis import strategies as st

from api_gateway.hosts.row_comparison import cells_of, compare_counts, compare_rows
from daggerspec.columns import Column, Role
from daggerspec.row import Row

D = gateway_pb2.TestDifference
COLUMNS = (
    Column("window_timestamp", Role.TIME, "window_timestamp", "timestamp"),
    Column("tag_city", Role.TAG, "tag_city", "string"),
    Column("label_kind", Role.TAG, "kind", "string"),
    Column("n", Role.FIELD, "n", "bigint"),
    Column("mean", Role.FIELD, "mean", "double"),
    Column("price", Role.FIELD, "price", "decimal(10,2)"),
    Column("at", Role.FIELD, "at", "timestamp"),
    Column("parts", Role.FIELD, "parts", "struct<a:array<double>>"),
)
ROW = {"tag_city": "x", "n": 3, "mean": 0.3, "price": Decimal("1.50"), "at": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("expected", "same"),
    [
        ({"n": 3}, True),
        ({"n": "3"}, True),
        ({"n": 4}, False),
        ({"n": True}, False),
        ({"n": None}, False),
        ({"mean": 0.1 + 0.2}, True),
        ({"mean": 0.3001}, False),
        ({"mean": "none"}, False),
        ({"price": 1.5}, True),
        ({"price": 1.500000000001}, False),
        ({"tag_city": "x"}, True),
        ({"tag_city": "y"}, False),
        ({"at": "2026-01-01T01:00:00+01:00"}, True),
        ({"at": "2026-01-01T00:00:00.000Z"}, True),
        ({"at": "2026-01-01T00:00:01Z"}, False),
        ({"parts": None, "n": 3}, True),
        ({"parts": {"a": []}}, False),
    ],
)
def test_values_are_compared_by_their_kind(expected: dict[str, Any], same: bool) -> None:
    differences = compare_rows([expected], [ROW], COLUMNS)

    assert [one.kind for one in differences] == ([] if same else [D.KIND_ROW_DIFFERS])
    assert all(list(one.columns) == [next(iter(expected))] for one in differences)


def test_a_row_that_says_little_leaves_the_others_to_those_that_say_more() -> None:
    expected = [{"tag_city": "x"}, {"tag_city": "x", "n": 1}, {"n": 2}]
    actual = [{"tag_city": "x", "n": 1}, {"tag_city": "x", "n": 2}, {"tag_city": "y", "n": 2}]

    assert compare_rows(expected, actual, COLUMNS) == []


def test_each_row_that_differs_is_told_with_the_one_that_is_most_like_it() -> None:
    expected = [{"tag_city": "x", "n": 1, "mean": 1}, {"tag_city": "z", "n": 9}]
    actual = [{"tag_city": "y", "n": 5, "mean": 2.0}, {"tag_city": "x", "n": 2, "mean": 1.0}, {"n": 7}]

    differences = compare_rows(expected, actual, COLUMNS)

    assert [(one.kind, one.sentence) for one in differences] == [
        (D.KIND_ROW_DIFFERS, "expected row 1: n is 2, not 1"),
        (D.KIND_ROW_DIFFERS, 'expected row 2: tag_city is "y", not "z"; n is 5, not 9'),
        (D.KIND_ROW_UNEXPECTED, "a row came that was not expected"),
    ]
    assert (differences[0].expected, differences[0].actual) == (
        '{"tag_city": "x", "n": 1, "mean": 1}',
        '{"tag_city": "x", "n": 2, "mean": 1.0}',
    )
    [missing] = compare_rows(expected[:1], [], COLUMNS)
    assert (missing.kind, missing.sentence) == (D.KIND_ROW_MISSING, "expected row 1 did not come")


@given(
    st.lists(st.fixed_dictionaries({"tag_city": st.sampled_from("xy"), "n": st.integers(0, 3)}), max_size=8),
    st.randoms(use_true_random=False),
    st.data(),
)
def test_any_part_of_the_same_rows_in_any_order_is_the_same(
    rows: list[dict[str, Any]], random: Any, data: st.DataObject
) -> None:
    expected = [
        {name: row[name] for name in data.draw(st.sampled_from([("n",), ("tag_city",), ("n", "tag_city")]))}
        for row in rows
    ]
    random.shuffle(expected)

    assert compare_rows(expected, rows, COLUMNS) == []
    assert len(compare_rows(expected, [*rows, {"n": 7}], COLUMNS)) == 1
    assert len(compare_rows([*expected, {"n": 7}], rows, COLUMNS)) == 1


def test_a_row_has_the_names_of_the_query_and_its_counts_are_compared() -> None:
    row = Row(None, {"tag_city": "x", "kind": "k"}, {"n": 2**60}).to_proto()
    row.time.FromJsonString("2026-01-01T00:01:00Z")
    done = gateway_pb2.PreviewDone(late=1, quarantined={"NO_EVENT_TIME": 2})

    assert {name: value for name, value in cells_of(row, COLUMNS).items() if value is not None} == {
        "window_timestamp": "2026-01-01T00:01:00Z",
        "tag_city": "x",
        "label_kind": "k",
        "n": 2**60,
    }
    assert list(compare_counts({"NO_EVENT_TIME": 2}, 1, done)) == []
    assert [one.sentence for one in compare_counts({"FROM_THE_FUTURE": 1}, 0, done)] == [
        "0 quarantined for FROM_THE_FUTURE, 1 expected",
        "2 quarantined for NO_EVENT_TIME, 0 expected",
        "1 late, 0 expected",
    ]
