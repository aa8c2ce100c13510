"""The sink `parquet` in a directory: what is seen, whenever somebody dies; columns; folders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.json_format import ParseDict
from services.runtime.tests.fresh import exit_code
from services.runtime.tests.sink_cases.parquet import seen, sink
from services.runtime.tests.sink_parquet import (
    COUNT,
    EVERY,
    FIRST,
    NOON,
    TIME,
    WINDOWS,
    Dead,
    Table,
    batch,
    check_the_first_manifest_counts,
    check_the_launch_that_stood_still_is_fenced,
    window,
)

from daggerspec.columns import Column, role_of
from daggerspec.row import Row
from daggerspec.rundir import SPEC
from daggerspec.selection import Selection
from runtime import sinks
from runtime.encode.rows import Layout
from runtime.errors import FencedError, JobError, TemporaryError
from runtime.sinks import Part, Source, parquet

Types = dict[str, tuple[str, pa.DataType]]
RECORDS = pa.schema(
    [("n", pa.int64()), ("__rowtime", TIME), ("__key_0", pa.string()), ("__key_1", pa.int32()),
     ("__key_2", pa.int64())]
)  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(sink(tmp_path))


@pytest.fixture
def forwarded(tmp_path: Path) -> Table:
    hidden = ("__rowtime", "__key_0", "__key_1", "__key_2")
    return Table(sink(tmp_path), Layout((COUNT,), hidden), RECORDS)


def record(offset: int, topic: str = "trips", partition: int = 0) -> dict[str, Any]:
    return {"n": offset, "__rowtime": NOON, "__key_0": topic, "__key_1": partition, "__key_2": offset}


class Life:
    """Ends what happens below a folder at its n-th step: each one after it fails, too, as nobody does it."""

    def __init__(self) -> None:
        self.folder, self.left, self.over = "", 0, False
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if (
            self.folder
            and event in _STEPS
            and any(str(argument).startswith(self.folder) for argument in arguments)
        ):
            self.left -= 1
            self.over = self.over or self.left < 0
            if self.over:
                raise Dead

    def until(self, steps: int, folder: Path, do: Callable[[], object]) -> bool:
        """Do something for so many steps; whether it came to its end."""
        self.folder, self.left, self.over = str(folder), steps, False
        try:
            do()
        except Dead:
            pass
        finally:
            self.folder = ""
        return not self.over


_STEPS = {"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.listdir", "os.scandir"}
LIFE = Life()


def deaths(folder: Path, tables: Callable[[], Table], do: Callable[[Table], object]) -> Iterator[Table]:
    """A new table for each step at which who does something may die; it died there."""
    for steps in range(1_000):
        made = tables()
        ended = LIFE.until(steps, folder, lambda made=made: do(made))  # type: ignore[misc]
        yield made
        if ended:
            assert steps > 20, "it has hardly any steps"
            return
    raise AssertionError("it never ends")


def fresh(folder: Path) -> Callable[[], Table]:
    """Tables, each in a folder of its own."""
    made = iter(range(10_000))

    def make() -> Table:
        own = folder / str(next(made))
        own.mkdir()
        return Table(sink(own))

    return make


def test_who_dies_at_any_step_of_a_batch_leaves_what_the_next_attempt_makes_whole(tmp_path: Path) -> None:
    for table in deaths(tmp_path, fresh(tmp_path), lambda table: table.write(*FIRST, batch=batch())):
        assert table.seen() - Counter([1, 2, 3]) == Counter(), "somebody sees a row twice"
        sinks.check(table.target)
        table.write(*FIRST, batch=batch(generation=2))
        table.write([window(4, 91)], batch=batch(1, generation=2))

        assert table.seen() == table.told() == Counter([1, 2, 3, 4])
        assert table.waiting() == []


def test_who_dies_at_any_step_and_is_edited_then_has_each_row_once(tmp_path: Path) -> None:
    for table in deaths(tmp_path, fresh(tmp_path), lambda table: table.write(*FIRST, batch=batch())):
        sinks.check(table.target)
        # The edited query reads back, and cuts its batches in another way.
        table.write([*FIRST[0], *FIRST[1]], batch=batch(0, "edited", 2))
        table.write([window(4, 91)], batch=batch(1, "edited", 2))

        assert table.seen() == table.told() == Counter([1, 2, 3, 4])
        assert table.waiting() == []


def test_a_start_that_dies_at_any_step_harms_no_later_one(tmp_path: Path) -> None:
    for table in deaths(tmp_path, fresh(tmp_path), _left_and_started):
        sinks.check(table.target)
        table.write(*FIRST, batch=batch(generation=2))

        assert table.seen() == table.told() == Counter([1, 2, 3])


def _left_and_started(table: Table) -> None:
    table.stage(FIRST[0], batch())
    sinks.check(table.target)


def _dies(text: bytes, table: Table, when: str) -> None:
    """In a process of its own: a driver and its workers that are killed."""
    table.resolved = spec_pb2.ResolvedSink.FromString(text)
    sinks.check(table.target)
    ends = [table.stage(rows, batch(), number) for number, rows in enumerate(FIRST)]
    if when == "finish":
        os.kill(os.getpid(), signal.SIGKILL)
    sinks.commit(table.target, batch(), [end.receipt for end in ends])
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.long
@pytest.mark.parametrize("when", ["finish", "commit"])
def test_what_a_process_that_was_killed_has_written_is_there_once(table: Table, when: str) -> None:
    own = Table(spec_pb2.ResolvedSink())
    text = table.resolved.SerializeToString()
    assert exit_code(_dies, text, own, when) == -signal.SIGKILL
    table.write(*FIRST, batch=batch(generation=2))

    assert table.seen() == table.told() == Counter([1, 2, 3])


def test_the_manifest_of_a_launch_that_stood_still_counts_where_it_came_first(table: Table) -> None:
    check_the_first_manifest_counts(table)


def test_a_launch_that_stood_still_while_another_wrote_its_batch_is_told_so(table: Table) -> None:
    check_the_launch_that_stood_still_is_fenced(table)


def test_a_batch_of_a_checkpoint_that_an_edit_ended_is_not_committed_later(table: Table) -> None:
    slow = [table.stage(rows, batch(), number) for number, rows in enumerate(FIRST)]
    table.write(*FIRST, batch=batch(0, "edited", 2))
    with pytest.raises(FencedError):
        sinks.commit(table.target, batch(), [each.receipt for each in slow])

    assert table.seen() == table.told() == Counter([1, 2, 3])


def test_files_that_a_worker_left_which_died_are_gone_with_the_next_batch(table: Table) -> None:
    table.stage(FIRST[0], batch())
    assert table.waiting()
    table.write(*FIRST, batch=batch())

    assert table.waiting() == []


def test_parts_of_small_files_whose_writer_died_are_removed_when_they_are_old(table: Table) -> None:
    table.write(*FIRST, batch=batch())
    folder = table.root / "_daggers" / "staged"
    for name, age in (("old", 7_200), ("new", 60)):
        (folder / f".part-{name}").touch()
        os.utime(folder / f".part-{name}", (time.time() - age,) * 2)
    table.write([window(4, 91)], batch=batch(1))

    assert [path.name for path in folder.iterdir()] == [".part-new"]


def test_after_an_edit_windows_up_to_the_last_one_written_are_left_out(table: Table) -> None:
    table.write([window(1, 1), window(2, 2)], batch=batch())
    table.write([window(2, 2), window(3, 3)], batch=batch(0, "edited"))

    assert table.seen() == Counter([1, 2, 3])


def test_after_an_edit_records_that_were_written_are_left_out_and_no_others(forwarded: Table) -> None:
    forwarded.write([record(10), record(11)], batch=batch())
    others = [record(12), record(10, "rides"), record(11, partition=1), record(9)]
    forwarded.write([record(11), *others], batch=batch(0, "edited"))

    assert forwarded.seen() == Counter([9, 10, 10, 11, 11, 12])


def test_pairs_of_records_are_never_left_out(forwarded: Table) -> None:
    parts = [pa.field(f"__key_{number}", pa.string()) for number in (3, 4, 5)]
    forwarded.schema = pa.schema([*RECORDS, *parts])
    hidden = (*forwarded.layout.hidden, *(part.name for part in parts))
    forwarded.layout = replace(forwarded.layout, hidden=hidden)
    pair = {**record(10), "__key_3": "o", "__key_4": "0", "__key_5": "1"}
    forwarded.write([pair], batch=batch())
    forwarded.write([{**pair, "__key_5": "2"}], batch=batch(0, "edited"))

    assert forwarded.seen() == Counter([10, 10])


def test_a_row_is_in_the_folder_of_its_hour_and_the_manifest_says_where(table: Table) -> None:
    table.write(*FIRST, batch=batch(7))

    assert sorted(str(path.relative_to(table.root)) for path in table.root.glob("dt=*/*")) == [
        "dt=2026-01-01/hr=12",
        "dt=2026-01-01/hr=13",
    ]
    [manifest] = table.root.glob("_daggers/commits/d/*/0000000007.json")
    told = json.loads(manifest.read_text())
    assert (told["rows"], told["windows_to"], told["from"], told["to"]) == (
        3, "2026-01-01T13:30:00+00:00", "2026-01-01T12:01:00+00:00", "2026-01-01T13:30:00+00:00",
    )  # fmt: skip
    assert sum(file["bytes"] for file in told["files"]) == told["bytes"]


AUTUMN = datetime(2026, 10, 24, 21, 30, tzinfo=UTC)
"""Half past eleven in Berlin, whose clocks go back in the night to come."""


@pytest.mark.parametrize(
    ("said", "folders"),
    [
        ({"zone": "Asia/Kolkata"}, {f"dt=2026-10-25/hr={hour}" for hour in ("03", "06", "07")}),
        ({"zone": "Europe/Berlin"}, {"dt=2026-10-24/hr=23", "dt=2026-10-25/hr=02"}),
        ({"zone": "Europe/Berlin", "per": "PER_DAY"}, {"dt=2026-10-24", "dt=2026-10-25"}),
        ({"per": "PER_DAY"}, {"dt=2026-10-24", "dt=2026-10-25"}),
        ({"by": "seen", "zone": "Asia/Kolkata", "per": "PER_DAY"}, {"dt=1969-12-31", "dt=1970-01-01"}),
    ],
)
def test_folders_go_by_another_column_zone_and_span(
    forwarded: Table, said: dict[str, str], folders: set[str]
) -> None:
    columns = (COUNT, Column("seen", role_of("seen"), "seen", "timestamp"))
    forwarded.layout = replace(forwarded.layout, columns=columns)
    forwarded.schema = RECORDS.insert(1, pa.field("seen", TIME))
    ParseDict(said, forwarded.resolved.sink.parquet)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    rows = [
        {**record(n), "__rowtime": AUTUMN + timedelta(hours=hours), "seen": epoch + timedelta(hours=n - 20)}
        for n, hours in ((1, 0), (2, 3), (20, 4))  # between the last two clocks go back
    ]
    sinks.check(forwarded.target)
    forwarded.write(rows[:1], rows[1:], batch=batch())

    files = list(forwarded.root.glob("dt=*/**/*.parquet"))
    assert {str(file.parent.relative_to(forwarded.root)) for file in files} == folders
    assert forwarded.seen() == forwarded.told() == Counter([1, 2, 20])
    read = parquet.read(Source("d", forwarded.resolved, FileDescriptorSet(), Path()), Selection(9))
    assert {row.fields["n"] for row in read} == {1, 2, 20}
    told = parquet.archive(Source("d", forwarded.resolved, FileDescriptorSet(), Path()))
    assert told.first_hour.ToDatetime(UTC) <= min(
        row.get("seen" if "by" in said else "__rowtime") for row in rows
    )
    assert told.files == len(files)


def test_an_edit_of_folders_repeats_no_row_and_loses_none(table: Table) -> None:
    asked = table.resolved.sink.parquet
    first, second = [window(1), window(2, 600)], [window(3, 700)]
    ends = [table.stage(first, batch(0))]
    asked.zone = "Asia/Kolkata"  # the driver ended before it could say that the batch counts
    table.write(first, batch=batch(0))
    table.write(second, batch=batch(1))
    asked.zone, asked.by = "UTC", "window_timestamp"
    sinks.check(table.target)
    table.write(second, batch=batch(1))
    table.write([window(4, 800)], batch=batch(2))

    assert ends[0].receipt
    assert table.seen() == table.told() == Counter([1, 2, 3, 4])
    assert table.waiting() == []


@pytest.mark.parametrize(("before", "after"), [("PER_HOUR", "PER_DAY"), ("PER_DAY", "PER_HOUR")])
def test_a_table_has_folders_of_hours_or_of_days(table: Table, before: str, after: str) -> None:
    ParseDict({"per": before}, table.resolved.sink.parquet)
    table.write([window(1)], batch=batch())
    sinks.check(table.target)
    ParseDict({"per": after}, table.resolved.sink.parquet)

    with pytest.raises(JobError, match="name another table") as refused:
        sinks.check(table.target)
    assert (refused.value.error.reason, refused.value.error.retryable) == ("SINK_SCHEMA", False)


@pytest.mark.parametrize(
    ("codec", "compression"),
    [
        ("CODEC_ZSTD", "ZSTD"),
        ("CODEC_SNAPPY", "SNAPPY"),
        ("CODEC_GZIP", "GZIP"),
        ("CODEC_NONE", "UNCOMPRESSED"),
    ],
)
def test_files_are_compressed_as_is_asked_for(table: Table, codec: str, compression: str) -> None:
    ParseDict({"codec": codec}, table.resolved.sink.parquet)
    table.write([window(1)], batch=batch())

    [file] = table.root.glob("dt=*/hr=*/*.parquet")
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == compression


def test_whoever_reads_folders_has_the_hour_as_columns(table: Table) -> None:
    table.write(*FIRST, batch=batch())

    rows = ds.dataset(table.root, format="parquet", partitioning="hive").to_table().to_pylist()
    assert sorted((row["n"], row["dt"], row["hr"]) for row in rows) == [
        (1, "2026-01-01", 12), (2, "2026-01-01", 13), (3, "2026-01-01", 12),
    ]  # fmt: skip


def test_a_record_says_where_it_is_from(forwarded: Table) -> None:
    forwarded.write([record(10)], batch=batch())

    assert seen(forwarded.resolved) == [{"n": 10, "__topic": "trips", "__partition": 0, "__offset": 10}]


def test_rows_without_a_time_are_refused_and_the_others_are_written(table: Table) -> None:
    part = Part(batch(), 0)
    writer = sinks.open_writer(replace(table.target, part=part))
    rows = [window(1), {**window(2), "window_timestamp": None}, window(3)]
    refused = writer.write(pa.RecordBatch.from_pylist(rows, schema=WINDOWS), 0).refused
    sinks.commit(table.target, part.batch, [writer.finish().receipt])

    assert [(refusal.row, refusal.reason) for refusal in refused] == [(1, "NO_TIME")]
    assert table.seen() == Counter([1, 3])


def test_many_rows_are_written_before_the_end_of_their_partition(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.sinks.parquet._HELD_BYTES", 200)
    table.write([window(n) for n in range(20)], batch=batch())

    assert table.seen() == Counter(range(20))
    assert len(list(table.root.glob("dt=*/hr=*/*.parquet"))) > 3


@pytest.mark.parametrize("name", EVERY)
def test_values_of_every_type_come_back_as_they_were(table: Table, name: str) -> None:
    spark, arrow, values = EVERY[name]
    column = Column("value", role_of("value"), "value", spark)
    table.layout = replace(table.layout, columns=(*table.layout.columns, column))
    table.schema = pa.schema([*list(WINDOWS)[:2], ("value", arrow), *list(WINDOWS)[2:]])
    sinks.check(table.target)
    table.write([{**window(n), "value": each} for n, each in enumerate([None, *values])], batch=batch())

    rows = sorted(seen(table.resolved), key=lambda row: int(str(row["n"])))
    assert [row["value"] for row in rows] == [None, *values]


def test_a_type_that_parquet_has_no_form_for_is_told_at_the_start(table: Table) -> None:
    column = Column("value", role_of("value"), "value", "interval")
    table.layout = replace(table.layout, columns=(column,))
    table.schema = pa.schema([("value", pa.month_day_nano_interval()), *list(WINDOWS)[1:]])

    assert _refused(table).reason == "SINK_SCHEMA"


def _refused(table: Table) -> Any:
    with pytest.raises(JobError) as caught:
        sinks.check(table.target)
    return caught.value.error


def columns(**said: tuple[str, pa.DataType, int]) -> tuple[Layout, pa.Schema]:
    """A query with these columns: Spark type, Arrow type, number of the field of demo.Trip, 0 for none."""
    seen = tuple(Column(name, role_of(name), name, spark) for name, (spark, _, _) in said.items())
    fields = tuple(("demo.Trip", number) if number else ("", 0) for _, _, number in said.values())
    kinds = [(name, arrow) for name, (_, arrow, _) in said.items()]
    schema = pa.schema([*kinds, *list(WINDOWS)[2:]])
    return Layout(seen, ("__window_start", "__window_end"), (), fields), schema


INT, BIGINT, TEXT = ("int", pa.int32()), ("bigint", pa.int64()), ("string", pa.string())


def held(table: Table) -> dict[str, tuple[str, int]]:
    """The newest version of the table's columns: type and number."""
    newest = max((table.root / "_daggers" / "schema").iterdir())
    return {each["name"]: (each["type"], each["id"]) for each in json.loads(newest.read_text())["columns"]}


def began(table: Table, **said: tuple[str, pa.DataType, int]) -> dict[str, tuple[str, int]]:
    """What the table has once a launch with these columns has begun."""
    table.layout, table.schema = columns(**said)
    sinks.check(table.target)
    return held(table)


def test_a_column_has_the_number_of_its_field_in_table_and_file(table: Table) -> None:
    assert began(table, n=(*BIGINT, 7), sum=(*BIGINT, 0)) == {
        "n": ("bigint", 7), "sum": ("bigint", 1_000_000_000),
    }  # fmt: skip
    row = {"n": 1, "sum": 2, "__window_start": NOON, "__window_end": NOON}
    table.write([row], batch=batch())

    [file] = table.root.glob("dt=*/hr=*/*.parquet")
    numbers = {each.name: each.metadata[b"PARQUET:field_id"] for each in pq.read_schema(file)}
    assert numbers == {"n": b"7", "sum": b"1000000000"}


def test_columns_come_and_go_and_keep_their_numbers(table: Table) -> None:
    began(table, n=(*BIGINT, 7), sum=(*BIGINT, 0))
    began(table, other=(*TEXT, 0), text=(*TEXT, 3))

    assert began(table, sum=(*BIGINT, 0)) == {
        "text": ("string", 3), "n": ("bigint", 7), "sum": ("bigint", 1_000_000_000),
        "other": ("string", 1_000_000_001),
    }  # fmt: skip


def test_a_field_under_another_name_is_the_same_column(table: Table) -> None:
    began(table, fare=(*BIGINT, 7))

    assert began(table, price=(*BIGINT, 7)) == {"price": ("bigint", 7)}


def test_a_column_becomes_wider_and_takes_what_is_narrower(table: Table) -> None:
    began(table, n=(*INT, 7))

    assert began(table, n=(*BIGINT, 7)) == {"n": ("bigint", 7)}
    assert began(table, n=(*INT, 7)) == {"n": ("bigint", 7)}
    table.write([{"n": 1, "__window_start": NOON, "__window_end": NOON}], batch=batch())
    [file] = table.root.glob("dt=*/hr=*/*.parquet")
    assert pq.read_schema(file).field("n").type == pa.int64()


def test_a_column_of_another_type_is_refused_at_the_start(table: Table) -> None:
    began(table, n=(*BIGINT, 7))
    table.layout, table.schema = columns(n=(*TEXT, 7))

    error = _refused(table)
    assert (error.reason, error.retryable) == ("COLD_SCHEMA_INCOMPATIBLE", False)


def test_two_daggers_that_begin_at_once_agree_on_the_columns(table: Table) -> None:
    other = Table(table.resolved)
    began(table, n=(*BIGINT, 0))
    began(other, m=(*BIGINT, 0))

    assert held(table) == {"n": ("bigint", 1_000_000_000), "m": ("bigint", 1_000_000_001)}


def test_a_folder_that_is_not_allowed_is_refused(table: Table) -> None:
    table.resolved.sink.parquet.location = "/etc/files"

    assert _refused(table).reason == "FOLDER_REFUSED"


def test_what_an_administrator_registered_may_be_anywhere(table: Table) -> None:
    table.resolved.ClearField("egress")
    table.write(*FIRST, batch=batch())

    assert table.seen() == Counter([1, 2, 3])


@pytest.mark.parametrize(
    "link", ["files", "files/counts", "files/counts/_daggers", "files/counts/dt=2026-01-01"]
)
def test_no_file_is_written_through_a_link(table: Table, tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    path = Path(table.resolved.egress.folders[0]) / link
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(elsewhere)
    with pytest.raises(JobError) as caught:
        table.write(*FIRST, batch=batch())

    assert caught.value.error.reason == "FOLDER_REFUSED"
    assert list(elsewhere.rglob("*.parquet")) == []


def test_a_place_that_is_a_link_of_the_administrator_is_one(table: Table, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    place = tmp_path / "place"
    place.symlink_to(tmp_path / "disk")
    table.resolved.egress.folders[:] = [str(place)]
    table.resolved.sink.parquet.location = str(place / "files")
    table.write(*FIRST, batch=batch())

    assert table.seen() == Counter([1, 2, 3])


def test_a_place_that_is_away_is_waited_for_and_nothing_is_lost(table: Table) -> None:
    sinks.check(table.target)
    ends = [table.stage(rows, batch(), number) for number, rows in enumerate(FIRST)]
    away = table.root.with_name("away")
    table.root.rename(away)
    table.root.write_text("no folder")
    with pytest.raises(TemporaryError):
        sinks.commit(table.target, batch(), [end.receipt for end in ends])
    with pytest.raises(TemporaryError):
        sinks.probe(table.target)
    table.root.unlink()
    away.rename(table.root)
    sinks.commit(table.target, batch(), [end.receipt for end in ends])

    assert table.seen() == Counter([1, 2, 3])


def read(table: Table, limit: int) -> list[Row]:
    return parquet.read(Source("d", table.resolved, FileDescriptorSet(), table.root), Selection(limit))


def test_the_newest_rows_are_read_back_first(table: Table) -> None:
    table.write(*FIRST, batch=batch())
    table.write([window(4, 60 * 24)], batch=batch(1))

    rows = read(table, 3)
    assert [(row.time, row.fields["n"]) for row in rows[:2]] == [
        (NOON + timedelta(days=1), 4), (NOON + timedelta(minutes=90), 2),
    ]  # fmt: skip
    assert len(rows) == 3


def test_records_are_read_back_without_where_they_are_from(forwarded: Table) -> None:
    forwarded.write([record(10)], batch=batch())

    assert [row.fields for row in read(forwarded, 5)] == [{"n": 10}]


def test_of_a_table_that_is_not_there_no_rows_are_read(table: Table) -> None:
    assert read(table, 5) == []


def archived(table: Table, most: int = 100) -> gateway_pb2.DescribeArchiveResponse:
    """What is said of the table's files."""
    return parquet.archive(Source("d", table.resolved, FileDescriptorSet(), table.root), most)


def test_an_archive_says_how_large_it_is_and_of_which_hours(table: Table) -> None:
    table.write(*FIRST, batch=batch())
    table.write([window(4, 60 * 24)], batch=batch(1))
    table.stage([window(5, 60 * 48)], batch(2))  # not seen yet
    files = list(table.root.glob("dt=*/hr=*/*.parquet"))

    told = archived(table)
    assert (told.path, told.files) == (str(table.root), len(files))
    assert told.bytes == sum(path.stat().st_size for path in files)
    assert told.first_hour.ToDatetime(UTC) == NOON
    assert told.last_hour.ToDatetime(UTC) == NOON + timedelta(days=1)
    written = max(path.stat().st_mtime for path in files)
    assert told.last_write.ToDatetime(UTC).timestamp() == pytest.approx(written, abs=1e-3)
    assert not told.more


def test_of_an_archive_with_too_many_files_the_newest_hours_are_counted(table: Table) -> None:
    table.write(*FIRST, batch=batch())
    table.write([window(4, 60 * 24)], batch=batch(1))

    told = archived(table, most=1)
    assert (told.more, told.files) == (True, 1)
    assert told.first_hour.ToDatetime(UTC) == NOON + timedelta(days=1)


def test_an_archive_without_files_has_no_hours(table: Table) -> None:
    told = archived(table)

    assert (told.files, told.bytes, told.HasField("first_hour"), told.HasField("last_write")) == (
        0,
        0,
        False,
        False,
    )


def test_an_archive_is_described_by_a_process_of_its_own(table: Table, tmp_path: Path) -> None:
    table.write(*FIRST, batch=batch())
    table.resolved.sink.name = "cold"
    job = spec_pb2.JobSpec(dagger="d", sinks=[table.resolved])
    (tmp_path / SPEC).write_bytes(job.SerializeToString())
    found = [
        subprocess.run(
            [sys.executable, "-m", "runtime.describearchive", "--run-dir", str(tmp_path), f"--sink={name}"],
            capture_output=True, check=True, timeout=120,
        ).stdout
        for name in ("", "warm")
    ]  # fmt: skip

    assert found[0][:1] == b"D"
    told = gateway_pb2.DescribeArchiveResponse.FromString(found[0][5:])
    assert (told.sink, told.files) == ("cold", 3)
    assert found[1][:1] == b"E"
    assert events_pb2.DaggerError.FromString(found[1][5:]).reason == "NO_ARCHIVE"
