"""Measure how old rows are when they are in the sink: of closed windows, of open ones, of forwarded records.

    .venv/bin/python bench/freshness.py [--flink] [--minutes M] [--warm W] [CASE ...]

One dagger after another on the embedded stack, each alone, over a topic of its own that is written as time
goes by; its sink is a topic, and a row is in it at the time that Kafka gives it. Where rows are updated it is
InfluxDB, and a row is in it once that has acknowledged it. W minutes to get warm, 1.5
as a rule, then M that count, 1.5 too.

final: the seed query, windows of a minute, a watermark's delay of 5 s, 40 records/s on 4 partitions: how long
after the end of its window a row comes, less that delay. early: a count by type, `emit: early`, 1,000
records/s: how long after it was written a record is in an update of its window. forward: 100 records/s, as
they are: how long after it was written a record is in the sink. sparse-N: as final, 10 records/s in all on N
partitions in turn, so that one of 64 has a record in 6.4 s.

With --flink: the same three on Flink, in the same run, with the settings that a person who wants fresh rows
would give it: watermarks each 200 ms, early firings each 200 ms, no buffering in its sink. Cores are those
of the dagger's driver, or of Flink's two processes. It ends with 1 where a bar is missed: 2 s beyond the
delay, 0.5 s, 0.3 s, each at p95.
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import ages
import dagger
import flink
import tap
import workload
from chosen import chosen
from machine import Meter, header
from stack import Stack, stack

DELAY_S: Final = 5
"""Watermark's delay of a stream that does not say."""
WINDOW_S: Final = 60
EARLY_SQL: Final = """\
SELECT vehicle_type AS tag_vehicle_type, count(1) AS records,
       TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), vehicle_type"""

Ages = Callable[[str, str, str, float], Iterator[float]]


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of rows whose age is measured.

    definition: what its dagger computes. rate: records a second in all. bar: seconds that 95 of a hundred
    rows may be old. ages: of Kafka, the topic of records, that of rows and a time, the ages of rows from then
    on.
    """

    definition: dict[str, Any]
    rate: int
    partitions: int
    trigger: str
    bar: float
    ages: Ages
    updated: bool = False
    """True where its rows are updated, which a topic does not take."""


def closed_ages(kafka: str, _: str, topic: str, since: float) -> Iterator[float]:
    """Yield how long after the end of its window and the watermark's delay each row came."""
    return (age - DELAY_S for age in ages.window_ages(kafka, topic, since))


def update_ages(kafka: str, records: str, topic: str, since: float) -> Iterator[float]:
    """Yield how long after it was written each record was in an update of its window."""
    begin = (since // WINDOW_S + 1) * WINDOW_S  # an update counts its window from the begin
    kind = workload.message_class()
    end = time.time() - 1
    written = (
        (kind.FromString(message.value() or b"").vehicle_type, ages.written_at(message))
        for message in ages.messages(kafka, begin, records)
    )
    updates = (
        ages.Update(at, row["vehicle_type"], ages.instant(row["window_timestamp"]), row["records"])
        for at, row in ages.rows(kafka, topic, begin)
    )
    return ages.update_ages([(key, at) for key, at in written if begin <= at < end], updates, WINDOW_S)


def forwarded_ages(kafka: str, _: str, topic: str, since: float) -> Iterator[float]:
    """Yield how long after it was written each forwarded record was in the sink."""
    return ages.record_ages(kafka, topic, since)


FINAL: Final = functools.partial(Case, {"sql": dagger.SQL}, trigger="1s", bar=2.0, ages=closed_ages)
CASES: Final[dict[str, Case]] = {
    "final": FINAL(rate=40, partitions=4),
    "early": Case(
        {"sql": EARLY_SQL, "emit": "early"}, 1_000, 4, "200ms", 0.5, update_ages, updated=True
    ),
    "forward": Case(
        {"forward": {"fields": {"event_timestamp": "rowtime", "order_number": "order_number"}}},
        100, 4, "100ms", 0.3, forwarded_ages,
    ),
    **{f"sparse-{number}": FINAL(rate=10, partitions=number, bar=9.0) for number in (16, 64)},
}  # fmt: skip
PEERS: Final = ("final", "early", "forward")


def main() -> int:
    """Print a line for each case; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--flink", action="store_true", help="build Flink in a throw-away venv, and run it")
    parser.add_argument("--minutes", type=float, default=1.5, help="how long rows count")
    parser.add_argument("--warm", type=float, default=1.5, help="how long it runs before")
    options = parser.parse_args()
    names = chosen(parser, options.cases, CASES)
    print(header("pyspark", "confluent-kafka"), flush=True)
    with stack() as on:
        late = {
            name: measure(on, name, CASES[name], options.warm * 60, options.minutes * 60) for name in names
        }
        if options.flink:
            with tempfile.TemporaryDirectory(prefix="daggers-flink-") as folder:
                peer(on.kafka, Path(folder) / "flink", [name for name in names if name in PEERS], options)
    missed = [name for name in names if late[name] > CASES[name].bar]
    print(f"missed: {', '.join(missed) or 'none'}")
    return bool(missed)


def measure(on: Stack, name: str, case: Case, warm_s: float, counted_s: float) -> float:
    """Print how old the rows of a case's dagger are; return the age of 95 of a hundred, in seconds."""
    rows = f"{name}-rows"
    dagger.prepare(on, name, case.partitions)
    with _sinks(on, case, rows) as sinks:
        dagger.apply(on, name, {**case.definition, "sinks": sinks}, trigger=case.trigger, reads=name)
        spent, found = _measure_rows(on, name, case, rows, warm_s, counted_s)
        on.daggers("delete", name, "--wait")
    return _print_ages(name, case, found, spent)


@contextmanager
def _sinks(on: Stack, case: Case, rows: str) -> Iterator[list[dict[str, Any]]]:
    """Give the sinks of a case; whatever is in them is in a topic, too."""
    if not case.updated:
        yield [{"kafka": {"topic": rows, "format": "json"}}]
        return
    workload.create_topic(on.kafka, rows, 1)
    with tap.tapping(on.daggers("local", "status")["influx"]["url"], on.kafka, rows) as url:
        token = {"file": str(on.state_dir / "influx.token")}
        yield [{"influx": {"measurement": "early", "url": url, "token": token}}]


def _measure_rows(
    on: Stack, name: str, case: Case, rows: str, warm_s: float, counted_s: float
) -> tuple[float, list[float]]:
    """Return the cores of a dagger's driver, and the ages of its rows in seconds, sorted."""
    with (
        Meter(on.driver_session(name)) as meter,
        workload.feeding(on.kafka, case.rate, name, case.partitions),
    ):
        time.sleep(warm_s)
        since, before = time.time(), meter.read()
        time.sleep(counted_s)
        spent = meter.read() - before
        return spent.cpu / spent.wall, sorted(case.ages(on.kafka, name, rows, since))


def _print_ages(name: str, case: Case, found: list[float], cores: float) -> float:
    if not found:
        raise SystemExit(f"{name}: no row")
    late = ages.share_of(found, 0.95)
    load = f"{case.rate:,} records/s on {case.partitions} partitions"
    print(f"{name}, {load}: {ages.shares(found)}, {cores:.2f} cores (bar {case.bar} s)", flush=True)
    return late


def peer(kafka: str, folder: Path, names: list[str], options: argparse.Namespace) -> None:
    """Print how old the rows of Flink are."""
    if missing := flink.build(folder):
        print(missing, flush=True)
        return
    for name in names:
        with flink.cluster(folder, folder / name) as cluster:
            case, records, rows = CASES[name], f"flink-{name}", f"flink-{name}-rows"
            workload.create_topic(kafka, records, case.partitions)
            workload.create_topic(kafka, rows, 1)
            cluster.begin(kafka, records, rows, name)
            with workload.feeding(kafka, case.rate, records, case.partitions):
                time.sleep(options.warm * 60)
                since, before = time.time(), cluster.meter.read()
                time.sleep(options.minutes * 60)
                spent = cluster.meter.read() - before
                found = sorted(case.ages(kafka, records, rows, since))
        _print_ages(f"Flink, {name}", case, found, spent.cpu / spent.wall)


if __name__ == "__main__":
    sys.exit(main())
