"""Records that were added up say what the records say, whatever they hold and however they come."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import add
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from services.runtime.tests.source_preaggregate import MINUTE

from daggersql import Call, Constant, Field, Part, Partial, PartialAggregation, exact
from runtime.functions import s2id
from runtime.source.reader import control_rows, preaggregate
from runtime.source.reader.control_rows import ROWTIME, STATISTICS, RangeStatistics
from runtime.source.reader.preaggregate import PreAggregation

MOST = 2**63 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PLACE = pa.struct([("lat", pa.float64()), ("lng", pa.float32())])
RECORDS = pa.schema(
    [
        ("city", pa.string()),
        ("place", PLACE),
        ("fare", pa.float64()),
        ("seats", pa.int64()),
        (ROWTIME, control_rows.TIME),
    ]
)
CELL = Call(
    "s2id", (Field("place.lat"), Field("place.lng"), Constant(13)), ("double", "double", "int"), "string"
)
SUMS = PartialAggregation(
    spark_sql="",
    pane=MINUTE,
    keys=(Field("city"), CELL),
    partials=(
        Partial("count", Field("fare"), "bigint"),
        Partial("sum", Field("fare"), "double"),
        Partial("sum", Field("seats"), "bigint"),
        Partial("min", Field("seats"), "bigint"),
        Partial("max", Field("seats"), "bigint"),
        Partial("count", CELL, "bigint"),
    ),
    functions=(),
)
Record = tuple[str | None, dict[str, Any] | None, float | None, int | None, datetime]

numbers = st.none() | st.sampled_from([0.0, 1.5, -2.25, 91.0])
places = st.none() | st.fixed_dictionaries({"lat": numbers, "lng": numbers})
times = st.integers(-120_000_000, 120_000_000).map(lambda us: EPOCH + timedelta(microseconds=us))
records = st.lists(
    st.tuples(
        st.sampled_from([None, "", "Jakarta"]),
        places,
        numbers,
        st.none() | st.integers(-5, 5) | st.sampled_from([MOST, -MOST]),
        times,
    ),
    max_size=40,
)


def batch(rows: Sequence[Record]) -> pa.RecordBatch:
    columns = [
        pa.array(column, kind.type) for column, kind in zip(zip(*rows, strict=True), RECORDS, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns or [pa.nulls(0, f.type) for f in RECORDS], schema=RECORDS)


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for each in batches for row in each.to_pylist()]


def cell(place: dict[str, Any] | None) -> str | None:
    return s2id.reference(place["lat"], place["lng"], 13) if place else None


def recount(rows: Sequence[Record]) -> dict[Any, list[Any]]:
    """For each pane and keys: records, fares, their sum, sum, least and greatest of seats, cells."""
    groups = defaultdict(list)
    for row in rows:
        pane = EPOCH + (row[4] - EPOCH) // MINUTE * MINUTE
        groups[pane, row[0], cell(row[1])].append(row)
    return {key: _merged([[1, r[2] is not None, r[2], r[3], r[3], r[3], key[2] is not None] for r in group])
            for key, group in groups.items()}  # fmt: skip


def merged(rows: Sequence[dict[str, Any]]) -> dict[Any, list[Any]]:
    """What Spark makes of the view's rows."""
    groups = defaultdict(list)
    for row in rows:
        groups[row[ROWTIME], row["c0"], row["c1"]].append([row["n"], *(row[f"p{at}"] for at in range(6))])
    return {key: _merged(group) for key, group in groups.items()}


def _merged(rows: list[list[Any]]) -> list[Any]:
    how = [sum, sum, math.fsum, sum, min, max, sum]
    known = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
    return [merge(column) if column else None for merge, column in zip(how, known, strict=True)]


@given(records, st.sampled_from([1, 500, 2_000, 1_000_000]))
def test_rows_that_were_added_up_mean_the_same(rows: list[Record], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preaggregate, "_BYTES", size)
        aggregation, statistics = PreAggregation(RECORDS, SUMS), RangeStatistics()
        parts = [rows[at : at + 5] for at in range(0, len(rows), 5)]
        found = [each for part in parts for each in aggregation.add(batch(part), statistics)] + [
            *aggregation.rest()
        ]

    bad = [p for _, p, *_ in rows if p and None not in p.values() and cell(p) is None]
    assert merged(rows_of(found)) == recount(rows)
    assert all(
        each.schema == aggregation.schema and each.column(STATISTICS).null_count == len(each)
        for each in found
    )
    assert statistics.invalid_inputs["s2id"] == len(bad)


def test_records_that_agree_are_one_row() -> None:
    aggregation = PreAggregation(RECORDS, SUMS)
    same: Record = ("Jakarta", None, 1.5, 2, datetime(2026, 1, 1, tzinfo=UTC))

    (row,) = rows_of([*aggregation.add(batch([same] * 1000), RangeStatistics()), *aggregation.rest()])

    assert (row["n"], row["p0"], row["p1"], row["p2"]) == (1000, 1000, 1500.0, 2000)


TWICE: Record = (None, None, None, None, EPOCH - timedelta(microseconds=1))
NOBODY: Record = (None, None, None, None, EPOCH)


@example([TWICE, TWICE, ("", None, None, None, EPOCH), NOBODY], [], [1], 500)
@given(records, st.lists(st.integers(1, 40)), st.lists(st.integers(1, 40)), st.sampled_from([1, 500, 2_000]))
def test_rows_are_the_same_however_records_come(
    rows: list[Record], one: list[int], other: list[int], size: int
) -> None:
    """Kafka hands over what is there: a batch that is repeated gets the same records in other portions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preaggregate, "_BYTES", size)
        patch.setattr(preaggregate, "_FIRST", 7)

        assert given_in(rows, one) == given_in(rows, other)


@given(
    st.lists(st.floats(-(2**40), 2**40).filter(lambda x: x == 0 or abs(x) > 2**-20), min_size=1), st.randoms()
)
def test_parts_of_numbers_add_up_to_the_same_in_any_order(fares: list[float], chance: random.Random) -> None:
    """1e16, 1 and -1e16 are 1 in one order and 0 in another."""
    fares = [*fares, 1e16, 1.0, -1e16]

    assert total_of(fares) == total_of(chance.sample(fares, len(fares))) == pytest.approx(math.fsum(fares))


@pytest.mark.parametrize(
    ("fares", "total"),
    [
        ([1e16, 1.0, -1e16], 1.0),
        ([0.1] * 10, 1.0),
        ([math.inf, 1.0], math.inf),
        ([-math.inf, 1e300], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
        ([1.7e308, -1.7e308, 5e-324], 5e-324),
        ([-0.0], 0.0),
        ([None, 2.5], 2.5),
        ([None], None),
    ],
)
def test_a_sum_of_parts_is_the_sum_of_the_numbers(fares: list[float | None], total: float | None) -> None:
    assert repr(total_of(fares)) == repr(total)


def total_of(fares: Sequence[float | None]) -> float | None:
    """What readers and Spark make of records with these fares."""
    parts = [Partial("sum", Part(Field("fare"), number), "double") for number in exact.PARTS]
    aggregation = PreAggregation(RECORDS, replace(SUMS, partials=tuple(parts)))
    rows = rows_of(
        [
            *aggregation.add(batch([("x", None, fare, 1, EPOCH) for fare in fares]), RangeStatistics()),
            *aggregation.rest(),
        ]
    )
    known = [[row[f"p{n}"] for row in rows if row[f"p{n}"] is not None] for n in exact.PARTS]
    return reduce(add, reversed([sum(column) for column in known])) if known[0] else None


def given_in(rows: list[Record], sizes: list[int]) -> list[dict[str, Any]]:
    """What records give that come in portions of these sizes, the rest at once."""
    aggregation, found = PreAggregation(RECORDS, SUMS), []
    for size in [*sizes, len(rows)]:
        portion, rows = rows[:size], rows[size:]
        found += aggregation.add(batch(portion), RangeStatistics()) if portion else []
    return rows_of([*found, *aggregation.rest()])


def test_where_hardly_any_agree_nothing_is_kept_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preaggregate, "_FIRST", 10)
    aggregation = PreAggregation(RECORDS, SUMS)
    unlike: list[Record] = [(str(n), None, 1.5, n, EPOCH) for n in range(20)]

    first = rows_of(aggregation.add(batch(unlike[:10]), RangeStatistics()))
    later = rows_of(aggregation.add(batch(unlike[10:11]), RangeStatistics()))

    assert (len(first), len(later), rows_of(aggregation.rest())) == (10, 1, [])


def test_records_that_agree_are_one_row_of_a_task_whatever_they_weigh(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preaggregate, "_BYTES", 4_000)
    aggregation = PreAggregation(RECORDS, SUMS)
    alike: list[Record] = [("x" * 100, {"lat": 1.0, "lng": 1.0}, 1.5, 2, EPOCH)] * 10

    given = [rows_of(aggregation.add(batch(alike), RangeStatistics())) for _ in range(9)]
    (row,) = rows_of(aggregation.rest())

    assert given == [[]] * 9
    assert [row["n"], *(row[f"p{at}"] for at in range(6))] == [90, 90, 135.0, 180, 2, 2, 90]


def test_no_more_groups_wait_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preaggregate, "_BYTES", 4_000)
    aggregation = PreAggregation(RECORDS, SUMS)
    pairs: list[Record] = [(f"{at // 2:0100}", None, 1.5, 2, EPOCH) for at in range(900)]

    given = [
        len(rows_of(aggregation.add(batch(pairs[at : at + 10]), RangeStatistics())))
        for at in range(0, 900, 10)
    ]
    last = len(rows_of(aggregation.rest()))

    assert 450 <= sum(given) + last <= 600  # a piece may begin between two of a pair
    assert max(given) <= last + 60
    assert sum(given) > 350


def test_sums_that_would_leave_64_bits_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preaggregate, "_BYTES", 300)
    aggregation = PreAggregation(RECORDS, SUMS)
    heavy: list[Record] = [("x" * 100, None, 1.5, MOST // 2, EPOCH)] * 2
    light: list[Record] = [("x" * 100, None, 1.5, 1, EPOCH)] * 8

    rows = rows_of([*aggregation.add(batch(heavy * 2 + light), RangeStatistics()), *aggregation.rest()])

    assert sum(row["p2"] for row in rows) == 4 * (MOST // 2) + 8
    assert max(row["p2"] for row in rows) <= MOST


def test_large_texts_that_cannot_be_added_up_are_never_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow takes no more than 2 GiB of text in one array."""
    aggregation = PreAggregation(RECORDS, SUMS)
    monkeypatch.setattr(preaggregate, "_BYTES", 5_000)
    monkeypatch.setattr(PreAggregation, "_fits", lambda *_: False)
    large: list[Record] = [("x" * 1_000, None, 1.5, 2, EPOCH)] * 5

    given = [len(each) for _ in range(3) for each in aggregation.add(batch(large), RangeStatistics())]

    assert given == [5, 5, 5]


def test_a_note_tells_what_functions_could_not_use() -> None:
    aggregation, statistics = PreAggregation(RECORDS, SUMS), RangeStatistics()
    nowhere: Record = ("Jakarta", {"lat": 91.0, "lng": 0.0}, 1.5, 2, datetime(2026, 1, 1, tzinfo=UTC))

    rows = rows_of([*aggregation.add(batch([nowhere] * 3), statistics), *aggregation.rest()])
    row = control_rows.statistics_row(aggregation.schema, statistics).to_pylist()[0]

    assert [(row["n"], row["c1"]) for row in rows] == [(3, None)]
    assert row[STATISTICS][control_rows.invalid_inputs("s2id")] == 3


def test_the_least_time_that_there_is_does_not_become_the_greatest() -> None:
    first = batch([("Jakarta", None, 1.5, 2, EPOCH)]).set_column(
        4, RECORDS.field(4), pa.array([-MOST - 1]).cast(control_rows.TIME)
    )
    aggregation = PreAggregation(RECORDS, SUMS)

    (rows,) = [*aggregation.add(first, RangeStatistics()), *aggregation.rest()]

    assert rows.column(ROWTIME).cast(pa.int64()).to_pylist() == [-MOST - 1]
