"""A dagger that forwards records from Kafka to Parquet files: records per CPU-second, cold and warm.

    .venv/bin/python bench/forward.py [--records N] [--runs K] [FORM ...]

One dagger on the embedded stack for each form, over 2,000,000 prefilled records, batches due each second, no
health monitor. fields: every field of a record is a column. record: `payload: record`, value, key and headers
as they were read, which nobody decodes. Cold and warm are what bench/runs.py says. CPU: user and system time
of every process of the driver, the broker's is not counted.

A run is over when the manifests have all records. In the end each of their files is there, no other is, and
has the rows that its manifest says. It ends with 1 where a form has less than 150,000 records for a
CPU-second, warm.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import dagger
import pyarrow.parquet as pq
import workload
from chosen import chosen
from machine import header
from runs import cold_and_warm
from stack import stack

from runtime.clients.manifests import COMMITS

BAR: Final = 150_000
FORMS: Final[dict[str, dict[str, str]]] = {"fields": {}, "record": {"payload": "record"}}
_DEADLINE_S: Final = 300


class Table:
    """A table of files, by what its manifests say."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _files(self) -> Iterator[dict[str, Any]]:
        for manifest in self._folder.glob(f"{COMMITS}/*/*/*.json"):
            yield from json.loads(manifest.read_text())["files"]

    def wait_for(self, rows: int) -> None:
        """Wait until it has so many rows."""
        end = time.monotonic() + _DEADLINE_S
        while (held := sum(file["rows"] for file in self._files())) < rows:
            if time.monotonic() > end:
                raise SystemExit(f"only {held} of {rows} rows in time")
            time.sleep(0.1)

    def check(self, rows: int) -> str:
        """How many files it has, once each is known to be there with its rows."""
        said = {str(file["path"]): file["rows"] for file in self._files()}
        there = {
            str(path.relative_to(self._folder)): pq.read_metadata(path).num_rows
            for path in self._folder.glob("dt=*/hr=*/*.parquet")
        }
        assert said == there
        assert sum(there.values()) == rows
        return f"exactly {rows:,} rows in {len(there)} files"


def main() -> int:
    """Run each form, and print one line for each number; 1 where the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("forms", nargs="*", metavar="FORM", help=f"of {', '.join(FORMS)}")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3, help="warm runs")
    told = parser.parse_args()
    forms = chosen(parser, told.forms, FORMS)
    print(header("pyspark", "confluent-kafka", "ptars", "pyarrow"), flush=True)
    rates = [forwarded(form, told.records, told.runs) for form in forms]
    return int(min(rates) < BAR)


def forwarded(form: str, records: int, runs: int) -> float:
    """Records of a form for a CPU-second, warm."""
    with stack() as on:
        on.end("health-monitor")  # see bench/seed.py
        dagger.prepare(on)
        workload.fill(on.kafka, dagger.TOPIC, records)
        table = Table(on.state_dir / "files" / "rows")
        sink = {"parquet": {"location": str(on.state_dir / "files"), "table": "rows"}}

        def done(run: int) -> str:
            table.wait_for(run * records)
            return ""

        warm = cold_and_warm(on, form, {"forward": FORMS[form], "sinks": [sink]}, records, runs, done)
        on.daggers("delete", form, "--wait")
        rate, found = records / warm.cpu, table.check((runs + 1) * records)
    print(f"{form}: {rate / 1_000:.0f} k records/CPU-s warm, {found}", flush=True)
    return rate


if __name__ == "__main__":
    sys.exit(main())
