"""Rows of a preview in its workers: they come while a task goes on, as many as are taken; all are counted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from daggers.v1 import gateway_pb2

from daggerspec.columns import Column, Role
from daggerspec.row import from_proto
from runtime.encode.rows import Layout
from runtime.preview.rowfiles import RowFiles
from runtime.preview.take import PARTIAL, STEP_ROWS, Take, series_of

MUCH = 16 * 1024**2
LAYOUT = Layout(
    (
        Column("tag_city_id", Role.TAG, "city_id", "int"),
        Column("num_of_bookings", Role.FIELD, "num_of_bookings", "bigint"),
        Column("window_timestamp", Role.TIME, "", "timestamp"),
    ),
    (),
)


def batch(numbers: range, *, cities: int = 3, partial: bool = False) -> pa.RecordBatch:
    """A row for each number, whose field is that number."""
    count, time = len(numbers), datetime(2026, 1, 1, tzinfo=UTC)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([number % cities for number in numbers], pa.int32()),
            pa.array(numbers, pa.int64()),
            pa.array([time] * count, pa.timestamp("us", "UTC")),
            pa.array([partial] * count),
        ],
        ["tag_city_id", "num_of_bookings", "window_timestamp", PARTIAL],
    )


def numbers(steps: list[gateway_pb2.PreviewRows]) -> list[object]:
    return [from_proto(row).fields["num_of_bookings"] for step in steps for row in step.rows]


def counted(lines: list[pa.RecordBatch]) -> tuple[int, set[bytes]]:
    """(rows, hashes of series)."""
    [line] = [line for batch in lines for line in batch.to_pylist()]
    return line["rows"], series_of(line["series"])


def test_rows_of_whole_windows_are_counted_also_where_none_is_taken(tmp_path: Path) -> None:
    take = Take(LAYOUT, RowFiles.create(tmp_path, rows=0, size=MUCH))

    [line] = take(iter([batch(range(7)), batch(range(5), partial=True)]))

    assert [(one["rows"], one["whole"]) for one in line.to_pylist()] == [(12, 7)]


def test_rows_come_before_their_task_has_ended(tmp_path: Path) -> None:
    files = RowFiles.create(tmp_path, rows=1000, size=MUCH)
    seen: list[list[object]] = []

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(range(10))
        seen.append(numbers(list(files.take_new())))
        yield batch(range(10, 20))

    rows, _ = counted(list(Take(LAYOUT, files)(batches())))

    assert seen == [list(range(10))]
    assert numbers(list(files.take_new())) == list(range(10, 20))
    assert list(files.take_new()) == []
    assert rows == 20


def test_all_tasks_together_hand_over_as_many_rows_as_are_taken_and_count_the_rest(tmp_path: Path) -> None:
    files = RowFiles.create(tmp_path, rows=STEP_ROWS + 7, size=MUCH)
    first, second = range(STEP_ROWS), range(STEP_ROWS, 2 * STEP_ROWS + 100)

    counts = [counted(list(Take(LAYOUT, files)(iter([batch(each)])))) for each in (first, second)]

    assert sorted(map(str, numbers(list(files.take_new())))) == sorted(map(str, range(STEP_ROWS + 7)))
    assert [rows for rows, _ in counts] == [STEP_ROWS, STEP_ROWS + 100]
    assert counts[0][1] == counts[1][1]
    assert len(counts[0][1]) == 3


def test_what_does_not_fit_into_the_bytes_is_the_end(tmp_path: Path) -> None:
    files = RowFiles.create(tmp_path, rows=10_000, size=50_000)

    rows, _ = counted(list(Take(LAYOUT, files)(iter([batch(range(2_000))]))))

    came = list(files.take_new())
    assert sum(step.ByteSize() for step in came) <= 50_000
    assert numbers(came) == list(range(STEP_ROWS * len(came)))
    assert 0 < len(came) < 4
    assert rows == 2_000


def test_parts_of_windows_are_in_messages_of_their_own(tmp_path: Path) -> None:
    files = RowFiles.create(tmp_path, rows=1000, size=MUCH)
    both = pa.Table.from_batches([batch(range(3)), batch(range(3, 6), partial=True)]).combine_chunks()

    list(Take(LAYOUT, files)(iter(both.to_batches())))

    steps = list(files.take_new())
    assert [(step.partial, numbers([step])) for step in steps] == [(False, [0, 1, 2]), (True, [3, 4, 5])]


def test_a_row_without_tags_is_of_no_series(tmp_path: Path) -> None:
    files = RowFiles.create(tmp_path, rows=1000, size=MUCH)
    bare = Layout(LAYOUT.columns[1:], ())
    rows = batch(range(5)).drop_columns(["tag_city_id"])

    assert counted(list(Take(bare, files)(iter([rows])))) == (5, set())
