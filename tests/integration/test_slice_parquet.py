"""Files of a table behind real drivers: killed, edited, recounted; and through the whole platform by YAML."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from uuid import uuid4

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from conftest import Stack
from services.runtime.tests.job_driver import bookings
from services.runtime.tests.launches import Dagger
from tests.integration.bookings import COUNT_SQL, Bookings, booking, recount, spread
from tests.integration.cli import Cli
from tests.integration.slice_parquet import ALL_SQL, files, rows_of, until

pytestmark = [pytest.mark.integration, pytest.mark.long]


def seen(table: Path) -> Counter[tuple[str, str]]:
    """Bookings by window and city, as readers of folders add them up."""
    rows: Counter[tuple[str, str]] = Counter()
    for row in rows_of(table):
        rows[f"{row['window_timestamp']:%Y-%m-%dT%H:%M:%SZ}", str(row["tag_city_id"])] += row[
            "num_of_bookings"
        ]
    return rows


def test_drivers_that_are_killed_and_edited_leave_each_window_once(tmp_path: Path, kafka: str) -> None:
    dagger = Dagger(tmp_path, kafka, idle_timeout_s=0, sinks=[files(tmp_path / "files")])
    table = tmp_path / "files" / "trips"
    events = spread(range(600), cities=2)
    written = 0
    for killed, upto in enumerate((150, 300, 420)):
        dagger.write(*bookings(events[written:upto]))
        written = upto
        commits = len(list(table.glob("_daggers/commits/*/*/*.json")))
        with dagger.launch() as launch:
            # As soon as the batch's manifest is there, or one is staged: somewhere in the middle of it.
            made = ("_daggers/commits/*/*/*.json", "_daggers/staged/*.parquet")[killed % 2]
            least = commits if killed % 2 == 0 else 0
            until(lambda made=made, least=least: len(list(table.glob(made))) > least, launch.log)  # type: ignore[misc]
            launch.kill()
    dagger.sql = COUNT_SQL.replace("AS num_of_bookings", "AS num_of_bookings, MAX(fare) AS most")
    dagger.write(*bookings(events[written:]), booking(900))
    with dagger.launch() as launch:
        launch.until(lambda beat: seen(table).total() >= len(events))
        code = launch.stop()

    assert code == 0
    assert seen(table) == recount(events)
    assert list((table / "_daggers" / "staged").iterdir()) == []


def test_forwarded_records_are_there_once_after_a_kill_and_an_edit(tmp_path: Path, kafka: str) -> None:
    dagger = Dagger(tmp_path, kafka, sql=ALL_SQL, sinks=[files(tmp_path / "files")])
    table = tmp_path / "files" / "trips"
    dagger.write(*(booking(number, order=str(number)) for number in range(50)))
    with dagger.launch() as launch:
        until(lambda: bool(list(table.glob("_daggers/commits/*/*/*.json"))), launch.log)
        launch.kill()
    dagger.sql = ALL_SQL.replace("city_id", "city_id, status")
    dagger.write(*(booking(number, order=str(number)) for number in range(50, 80)))
    with dagger.launch() as launch:
        launch.until(lambda beat: len(orders(table)) >= 80)
        code = launch.stop()

    assert code == 0
    assert sorted(map(int, orders(table))) == list(range(80))
    [numbers] = {
        tuple((each.name, each.metadata[b"PARQUET:field_id"]) for each in pq.read_schema(file))[:1]
        for file in table.glob("dt=*/hr=*/*.parquet")
    }
    assert numbers == (("order_number", b"1"),)


def orders(table: Path) -> list[str]:
    """Numbers of orders as readers of folders see them."""
    if not list(table.glob("dt=*")):
        return []
    rows = ds.dataset(table, format="parquet", partitioning="hive").to_table()
    return [str(order) for order in rows["order_number"].to_pylist()]


def test_a_dagger_file_makes_a_table_of_files(stack: Stack, tmp_path: Path) -> None:
    cli = Cli(stack.state_dir)
    made = Bookings(stack.kafka, cli)
    folder = stack.state_dir / "files" / uuid4().hex[:8]
    sink = {"name": "files", "parquet": {"location": str(folder), "table": "trips"}}
    name, spec = made.dagger(tmp_path, sinks=[sink])
    events = spread(range(300), cities=2)
    made.write(bookings(events))
    cli("apply", "-f", spec, "--wait")
    until(lambda: seen(folder / "trips").total() >= len(events), lambda: f"only {seen(folder / 'trips')}")
    cli("delete", name, "--wait")

    assert seen(folder / "trips") == recount(events)
