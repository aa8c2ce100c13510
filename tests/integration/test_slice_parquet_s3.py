"""Files of a table in a bucket behind real drivers: killed, launched again, recounted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from services.runtime.tests.launches import Dagger
from services.runtime.tests.sink_parquet_s3 import sink
from tests.integration.bookings import booking
from tests.integration.slice_parquet import ALL_SQL, until
from tests.s3 import moto

from runtime.clients import files

pytestmark = [pytest.mark.integration, pytest.mark.long]


def orders(table: files.Files) -> Counter[str]:
    """Numbers of orders as readers of folders see them."""
    days = [day for day in table.names("") if day.startswith("dt=")]
    hours = [f"{day}/{hour}" for day in days for hour in table.names(day)]
    texts = [table.get(f"{hour}/{name}") for hour in hours for name in table.names(hour)]
    read = (pq.read_table(pa.BufferReader(text))["order_number"].to_pylist() for text in texts)
    return Counter(order for names in read for order in names)


def test_records_are_in_the_bucket_once_after_a_kill(tmp_path: Path, kafka: str) -> None:
    with moto() as server:
        resolved = sink(server, tmp_path / "secret")
        table = files.of(resolved)
        dagger = Dagger(tmp_path, kafka, sql=ALL_SQL, sinks=[resolved])
        dagger.write(*(booking(number, order=str(number)) for number in range(50)))
        with dagger.launch() as launch:
            until(lambda: bool(list(table.list_staged(""))) or orders(table).total() > 0, launch.log)
            launch.kill()
        dagger.write(*(booking(number, order=str(number)) for number in range(50, 80)))
        with dagger.launch() as launch:
            launch.until(lambda beat: orders(table).total() >= 80)
            code = launch.stop()

        assert code == 0
        assert orders(table) == Counter(map(str, range(80)))
        below = f"_daggers/commits/{dagger.name}"
        folders = [f"{below}/{name}" for name in table.names(below)]
        told = [
            json.loads(table.get(f"{folder}/{name}") or b"")
            for folder in folders
            for name in table.names(folder)
        ]
        assert sum(each["rows"] for each in told) == 80
        assert list(table.list_staged("")) == []
