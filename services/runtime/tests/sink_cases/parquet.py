"""The sink `parquet` in a directory of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_contract import Case, Counts


def case(dagger: str, request: pytest.FixtureRequest, printed: list[str]) -> Case:
    del dagger, printed
    resolved = sink(request.getfixturevalue("tmp_path"))

    def read() -> Counts:
        rows = [
            ((f"{row['window_timestamp']:%Y-%m-%dT%H:%M:%SZ}", str(row["tag_city"])), row["n"])
            for row in seen(resolved)
        ]
        assert len(set(rows)) == len(rows), "a row is there twice"
        return dict(rows)  # another row of a key comes behind it

    return resolved, read


def sink(folder: Path) -> spec_pb2.ResolvedSink:
    """A table below a folder that is allowed."""
    resolved = spec_pb2.ResolvedSink(egress=spec_pb2.Egress(folders=[str(folder)]))
    resolved.sink.parquet.location, resolved.sink.parquet.table = str(folder / "files"), "counts"
    return resolved


def seen(resolved: spec_pb2.ResolvedSink) -> list[dict[str, object]]:
    """The rows of a table, as whoever reads folders of Parquet files sees them."""
    asked = resolved.sink.parquet
    files = sorted(map(str, (Path(asked.location) / asked.table).glob("dt=*/**/*.parquet")))
    return [row for file in files for row in ds.dataset(file, format="parquet").to_table().to_pylist()]


@contextmanager
def silence(resolved: spec_pb2.ResolvedSink, _: pytest.MonkeyPatch) -> Iterator[spec_pb2.ResolvedSink]:
    """The sink where its folder is none: what it lay on is away."""
    silent = spec_pb2.ResolvedSink()
    silent.CopyFrom(resolved)
    away = Path(resolved.egress.folders[0]) / "away"
    away.write_text("no folder")
    silent.sink.parquet.location = str(away)
    yield silent
