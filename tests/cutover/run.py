"""Edits of a dagger under load on the real stack: no window is missing or doubled, and rows go on coming.

    DAGGERS_SCHEDULER_CUTOVER=true python -m tests.cutover.run EDITS SEED

Records come all the time, with the clock as their event time. Each edit recomputes the open windows. In the
end every window is recounted, in every sink. Prints a line for each edit.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import yaml
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from conftest import Stack, running_stack
from services.runtime.tests.sink_contract import query as asked
from tests.cutover.edits import CITIES, STEP_S, Event, Query, Row, Verdict, edited, judged, row_of, silence
from tests.integration.bookings import NOON, Bookings, booking
from tests.integration.cli import Cli, runs

SILENCE_S: Final = STEP_S + 5
"""Rows of the next window are to be there after so long."""
DEADLINE_S: Final = 600
PARTITIONS: Final = 2
TICK_S: Final = 0.1
EACH: Final = 20
"""So many records of each city in a tick."""
BETWEEN: Final = 2
"""So many windows are written between one edit and the next."""


class Feeder:
    """Writes records all the time, on a thread of its own."""

    def __init__(self, bookings: Bookings) -> None:
        self.events: list[Event] = []
        self._bookings = bookings

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """From here to the end of this."""
        enough = threading.Event()
        thread = threading.Thread(target=self._feed, args=(enough,))
        thread.start()
        try:
            yield
        finally:
            enough.set()
            thread.join()

    def _feed(self, enough: threading.Event) -> None:
        while not enough.wait(TICK_S):
            second = int(time.time())
            for city in CITIES:
                value = booking(second - NOON, city_id=city)
                for number in range(EACH):
                    self._bookings.produce(value, partition=number % PARTITIONS)
                    self.events.append((second, city))
            self._bookings.flush()


class Arrivals:
    """Reads the sink's topic while rows come, on a thread of its own: what came, and when."""

    def __init__(self, kafka: str, topic: str) -> None:
        self.rows: list[Row] = []
        self.first: dict[int, float] = {}
        """When the first row of a window came, by its end."""
        self._consumer = Consumer({"bootstrap.servers": kafka, "group.id": uuid4().hex})
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Arrivals:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._enough.is_set():
            record = self._consumer.poll(0.2)
            if record is None or record.error() is not None:
                continue
            said = json.loads(record.value() or b"")
            row = row_of(said, int(datetime.fromisoformat(said["window_timestamp"]).timestamp()))
            self.rows.append(row)
            self.first.setdefault(row.end, time.monotonic())

    def until(self, revision: int, windows: int) -> None:
        """Until rows of so many windows of a revision have come. Raises: AssertionError at the deadline."""
        end = time.monotonic() + DEADLINE_S
        while len({row.end for row in tuple(self.rows) if row.revision == revision}) < windows:
            assert time.monotonic() < end, f"{windows} windows of revision {revision} never came"
            time.sleep(0.2)  # bounded by the deadline

    def until_end(self, last: int) -> None:
        """Until rows of a window came that ends then. Raises: AssertionError at the deadline."""
        end = time.monotonic() + DEADLINE_S
        while last not in tuple(self.first):
            assert time.monotonic() < end, f"rows of {last} never came; the last are of {max(self.first)}"
            time.sleep(0.2)  # bounded by the deadline


class Edits:
    """One dagger that is edited again and again."""

    def __init__(self, stack: Stack, folder: Path, seed: int) -> None:
        self._stack, self._folder = stack, folder
        self.cli = Cli(stack.state_dir)
        self._draw = random.Random(seed)
        self._name, self._rows = f"cut-{uuid4().hex[:8]}", f"cut-rows-{uuid4().hex[:8]}"
        self._bookings = Bookings(stack.kafka, self.cli, partitions=PARTITIONS)
        admin = AdminClient({"bootstrap.servers": stack.kafka})
        admin.create_topics([NewTopic(self._rows, 1, 1)])[self._rows].result(30)

    def live(self, edits: int) -> tuple[Mapping[str, Verdict], float]:
        """Create the dagger and edit it so often; what is wrong in each sink, the longest silence in s."""
        feeder, queries = Feeder(self._bookings), [Query()]
        with Arrivals(self._stack.kafka, self._rows) as arrivals, feeder.feeding():
            self.cli("apply", self._write(queries[0]), "--wait")
            arrivals.until(0, BETWEEN + 2)
            began = max(arrivals.first)
            for _ in range(edits):
                queries.append(edited(queries[-1], self._draw))
                self._edit(queries[-1], arrivals)
            last = max(arrivals.first) + STEP_S
            arrivals.until_end(last)
            self.cli("stop", self._name, "--wait")
            time.sleep(1.0)  # what a driver might write too much is written by then: it has ended
            rows = {"kafka": tuple(arrivals.rows), "influx": self._in_influx()}
        wrong = {sink: judged(found, queries, feeder.events, last) for sink, found in rows.items()}
        return wrong, silence({end: at for end, at in arrivals.first.items() if end >= began}, last)

    def _edit(self, query: Query, arrivals: Arrivals) -> None:
        begun, handed = time.monotonic(), self._handed()
        self.cli("apply", self._write(query), "--yes", "--accept-loss")
        arrivals.until(query.revision, BETWEEN)
        self.cli.until(self._name, runs)
        how = "cut over" if self._handed() > handed else "stopped, then started"
        _say(f"edit {query.revision}, {how}: {query.sql} ({time.monotonic() - begun:.0f} s)")

    def _handed(self) -> int:
        """How often events speak of one: more often after each."""
        return self.cli.try_("events", self._name).out.count("CutoverHanded")

    def _in_influx(self) -> tuple[Row, ...]:
        found = asked(self._stack.influx, f'SELECT n, revision, tag_city FROM "{self._name}"')
        rows = []
        for series in found.get("series", []):
            for values in series["values"]:
                said = dict(zip(series["columns"], values, strict=True))
                rows.append(row_of(said, int(datetime.fromisoformat(said["time"]).timestamp())))
        return tuple(rows)

    def _write(self, query: Query) -> Path:
        path = self._folder / f"{self._name}.yaml"
        read = {"table": "data_stream", "stream": self._bookings.name, "watermark_delay": "2s",
                "idle_timeout": "off", "start": "latest"}  # fmt: skip
        sinks: list[dict[str, Any]] = [{"kafka": {"topic": self._rows, "format": "json"}}, {"influx": {}}]
        spec = {"name": self._name, "team": "it", "cluster": "local", "streams": [read], "sql": query.sql,
                "sinks": sinks, "trigger": "1s", "driver_memory": "600MiB"}  # fmt: skip
        path.write_text(yaml.safe_dump(spec))
        return path


def main(edits: int, seed: int) -> int:
    """Run on a stack of its own, and say what came of it; answers the exit code."""
    folder = Path(tempfile.mkdtemp(prefix="daggers-cutover-")).resolve()
    try:
        with running_stack(folder / "stack") as stack:
            wrong, silent = Edits(stack, folder, seed).live(edits)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for sink, verdict in wrong.items():
        for each in (*verdict.missing, *verdict.doubled):
            _say(f"  {sink}: {each}")
    missing = sum(len(verdict.missing) for verdict in wrong.values())
    doubled = sum(len(verdict.doubled) for verdict in wrong.values())
    _say(f"{edits} edits, {missing} missing, {doubled} doubled, longest silence {silent:.1f} s")
    return 1 if missing or doubled or silent > SILENCE_S else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
