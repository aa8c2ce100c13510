"""A checkpoint's state is divided anew for more or fewer cores: nothing is lost or counted twice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from services.runtime.tests.sessions import drain, feed, moment, planned, spark_session, stream
from services.runtime.tests.whole_rows import LONG, QUICK

from daggerspec.state import STATE_UNDIVIDED
from runtime.errors import JobError
from runtime.spark.session import keep_state_on_disk
from runtime.state import checkpoint, damage, openstate, partitions
from runtime.state.store import Place
from runtime.state.store.local import LocalPlace

QUERIES = QUICK | LONG
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
MEMORY, DISK = (f"org.apache.spark.{name}StateStoreProvider" for name in ("HDFSBacked", "RocksDB"))
STAGES = ((1, range(16)), (3, range(16, 40)), (2, range(40, 64)), (1, range(64, 80)))
"""Partitions of each launch, and the seconds whose records it reads."""


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with spark_session("collectarray") as started:
        keep_state_on_disk(started)
        yield started


def write_log(folder: Path, name: str, batch: int, number: int, provider: str = DISK) -> None:
    """Write one file of a log as Spark does, begun with so many partitions."""
    conf = {"spark.sql.shuffle.partitions": str(number), PROVIDER: provider}
    metadata = {"batchWatermarkMs": 0, "conf": conf}
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / str(batch)).write_text(f"v2\n{json.dumps(metadata)}\n")


@pytest.mark.parametrize(
    ("begun", "committed", "wanted", "numbers"),
    [
        ((1, 1), 1, 1, ()),
        ((1, 1), 1, 8, (8,)),
        ((8, 8), 1, 1, (1,)),
        ((1, 4), 0, 4, (4,)),  # a division to 4 was begun and has to end
        ((1, 4), 0, 8, (4, 8)),
        ((1, 4), 0, 1, (4, 1)),
    ],
)
def test_how_state_is_divided_follows_from_the_logs_of_its_checkpoint(
    tmp_path: Path, begun: Sequence[int], committed: int, wanted: int, numbers: Sequence[int]
) -> None:
    for batch, number in enumerate(begun):
        write_log(tmp_path, "offsets", batch, number)
    (tmp_path / "state").mkdir()
    write_log(tmp_path, "commits", committed, 0)

    assert partitions.plan_division(local(tmp_path), wanted) == partitions.Division(tuple(numbers))


def test_an_unfinished_batch_keeps_its_partitions_and_the_driver_says_so(tmp_path: Path) -> None:
    for batch in (0, 1):
        write_log(tmp_path, "offsets", batch, 1)
    (tmp_path / "state").mkdir()
    write_log(tmp_path, "commits", 0, 0)
    late = partitions.plan_division(local(tmp_path), 8)

    assert late.numbers == ()
    assert late.warning.startswith(f"{STATE_UNDIVIDED}: it computes in 1 task and not in 8")


def test_state_in_memory_stays_as_it_is_and_the_driver_says_what_divides_it(tmp_path: Path) -> None:
    write_log(tmp_path, "offsets", 0, 2, MEMORY)
    (tmp_path / "state").mkdir()
    write_log(tmp_path, "commits", 0, 0)
    up, same, down = (partitions.plan_division(local(tmp_path), number) for number in (8, 2, 1))

    assert up.numbers == ()
    assert "computes in 2 tasks and not in 8: Spark divides no state in memory" in up.warning
    assert "`state: disk`" in up.warning
    assert [same, down] == [partitions.AS_IT_IS] * 2


def test_a_checkpoint_without_state_or_without_a_batch_is_left_alone(tmp_path: Path) -> None:
    empty = partitions.plan_division(local(tmp_path), 8)
    write_log(tmp_path, "offsets", 0, 1)
    (tmp_path / "state").mkdir()
    first = partitions.plan_division(local(tmp_path), 8)
    write_log(tmp_path, "commits", 0, 0)
    (tmp_path / "state").rmdir()

    assert [empty, first, partitions.plan_division(local(tmp_path), 8)] == [partitions.AS_IT_IS] * 3


@pytest.mark.integration
@pytest.mark.parametrize(
    "query",
    [
        "session",
        *(pytest.param(query, marks=pytest.mark.long) for query in QUERIES if query != "session"),
    ],
)
def test_a_query_that_is_divided_between_its_launches_gives_the_rows_of_one_that_never_was(
    session: SparkSession, tmp_path: Path, query: str
) -> None:
    sql = QUERIES[query]
    wanted, divided = tmp_path / "whole", tmp_path / "divided"
    rows = [launches(session, folder, sql, moves=folder == divided) for folder in (wanted, divided)]
    place = local(divided / "checkpoint")
    assigned = divided / "checkpoint" / "source-start" / "0"  # the source of these tests keeps none
    assigned.parent.mkdir()
    assigned.write_text("v1\n{}\n")

    assert rows[0] == rows[1]
    assert rows[0]
    assert damage.of(place) is None
    assert openstate.oldest(session, place) == openstate.oldest(session, local(wanted / "checkpoint"))


@pytest.mark.integration
def test_a_division_that_was_cut_short_is_finished_by_the_next_launch(
    session: SparkSession, tmp_path: Path
) -> None:
    whole = launches(session, tmp_path / "whole", QUERIES["tumble"], moves=False)
    place = tmp_path / "cut" / "checkpoint"
    rows = launch(session, tmp_path / "cut", QUERIES["tumble"], 1, STAGES[0][1])
    partitions.divide(session, local(place), (3,))
    last = checkpoint.last_batch(local(place) / "commits")
    assert last is not None
    for name in (last.name, f".{last.name}.crc"):
        (place / "commits" / name).unlink(missing_ok=True)
    for number, seconds in STAGES[1:]:
        rows += launch(session, tmp_path / "cut", QUERIES["tumble"], number, seconds)

    assert sorted(map(str, rows)) == whole


@pytest.mark.integration
def test_what_spark_cannot_divide_is_named(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(JobError) as raised:
        partitions.divide(session, local(tmp_path), (3,))

    assert raised.value.error.reason == "STATE_NOT_DIVIDED"
    assert raised.value.error.retryable


def local(path: Path) -> Place:
    """Return the place of a checkpoint on the local disk."""
    return LocalPlace(path)


def launches(session: SparkSession, folder: Path, sql: str, *, moves: bool) -> list[str]:
    """Collect the rows of four launches that read one part of the records each, sorted."""
    rows: list[Row] = []
    for number, seconds in STAGES:
        rows += launch(session, folder, sql, number if moves else 1, seconds)
    return sorted(map(str, rows))


def launch(session: SparkSession, folder: Path, sql: str, number: int, seconds: Sequence[int]) -> list[Row]:
    """Collect the rows of a launch with so many cores, over the records of these seconds."""
    session.conf.set("spark.sql.shuffle.partitions", str(number))
    for table, key in (
        ("customer_events", "customer_id"), ("bookings", "order_number"), ("payments", "order_id"),
    ):  # fmt: skip
        records = [
            {key: _key(table, second), "rowtime": moment(second), "fare": second, "fee": second}
            for second in seconds
            if second % 5 or table != "payments"
        ]
        feed(folder, table, str(seconds[0]), records)
    place = local(folder / "checkpoint")
    division = partitions.plan_division(place, partitions.count_wanted(session))
    assert not division.warning
    partitions.divide(session, place, division.numbers)
    return drain(stream(session, planned(sql), folder), folder)


def _key(table: str, second: int) -> str:
    """Return a key: each customer comes four times in a row, and is away for eight seconds."""
    return f"k{second // 4 % 3}" if table == "customer_events" else "ab"[second % 2]
