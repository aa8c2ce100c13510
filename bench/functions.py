"""Rows a second that each function of our own takes in Spark, beside its plain reference.

    .venv/bin/python bench/functions.py [FUNCTION …]

One task (local[1]) over cached rows, through the dialect, the answers thrown away. Per core: rows by the CPU
time of all processes, JVM and Python workers together, without what reading the row and carrying its identity
along takes, which are the first two lines; a group has a thousand rows. DistinctCount stands beside Spark's
own approx_count_distinct.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from chosen import chosen
from daggers.v1 import spec_pb2
from function_calls import CALLS, START, TABLES, Call, Column, message_files, selected, table
from google.protobuf import descriptor_pool
from machine import header
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession

from daggersql import Plan, Table, check
from runtime import functions
from runtime.references import Tables
from runtime.references.loading import References
from runtime.spark import session as spark
from runtime.values.registration import Registration

ROWS = 1_000_000
SLOW_ROWS = 20_000
RUNS = 2
SPARKS_OWN = "SELECT approx_count_distinct(x) FROM rows GROUP BY window(rowtime, '40 seconds')"


def main() -> None:
    """Print one line for each function."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("function", nargs="*", help="functions to measure; all when none is named")
    wanted = chosen(parser, parser.parse_args().function, CALLS)
    print(header("pyspark", "pyarrow", "numpy", "s2sphere"), f"Java {_java()}", sep=", ", flush=True)
    files = message_files()
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    stream = table(pool)
    session = _session()
    registration = Registration(session, files.SerializeToString())
    with tempfile.TemporaryDirectory() as folder:
        given = _reference_tables(Path(folder))
        view = _rows(session, pool)
        sample = [_plain(row) for row in view.limit(SLOW_ROWS).toArrow().to_pylist()]
        bare = {
            by: _measured(
                lambda by=by: _discard(
                    session.sql(_plan("x" if not by else "COUNT(*)", stream, by).spark_sql)
                )
            )
            for by in (False, True)
        }  # type: ignore[misc]
        print(_line("(reading a row)", "x", *bare[False], None), flush=True)
        print(_line("(and grouping it)", "COUNT(*)", *bare[True], None), flush=True)
        for name in wanted:
            call, module = CALLS[name], functions.load(name.lower())
            module.register(registration)
            slow = _timed(_plain_calls(module, call, sample, pool))
            plan = _plan(call.sql, stream, call.aggregate, rows=call.rows)
            _references(plan, given, Path(folder)).refresh(session)
            taken = _measured(lambda plan=plan: _discard(session.sql(plan.spark_sql)))  # type: ignore[misc]
            before = bare[call.aggregate][1]
            print(_line(name, call.sql, taken[0], taken[1] - before, SLOW_ROWS / slow), flush=True)
            if name == "DistinctCount":
                taken = _measured(lambda: _discard(session.sql(SPARKS_OWN)))
                own = _line("(Spark's own)", "approx_count_distinct(x)", taken[0], taken[1] - before, None)
                print(own, flush=True)
    session.stop()


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "map": {"a": row["x"], "b": 1}}


def _plain_calls(
    module: Any, call: Call, sample: Sequence[dict[str, Any]], pool: descriptor_pool.DescriptorPool
) -> Callable[[], object]:
    """The reference over the sample."""
    start = datetime.fromisoformat(START).replace(tzinfo=UTC)
    constants = [start if argument == START else argument for argument in call.arguments]
    rows = [
        tuple(row[constant.name] if isinstance(constant, Column) else constant for constant in constants)
        for row in sample
    ]
    if call.aggregate:
        return lambda: [module.reference(rows[at : at + 1000]) for at in range(0, len(rows), 1000)]
    options: dict[str, Any] = {"pool": pool} if "pool" in call.needs else {}
    if "tables" in call.needs:
        options["tables"] = Tables(lambda name: TABLES[name], clock=time.monotonic)
    return lambda: [module.reference(*row, **options) for row in rows]


def _reference_tables(folder: Path) -> list[spec_pb2.ReferenceTable]:
    for name, content in TABLES.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    kind = spec_pb2.ReferenceTable.FORMAT_JSON
    return [
        spec_pb2.ReferenceTable(name=name, location=str(folder / f"{name}.json"), format=kind)
        for name in TABLES
    ]


def _references(plan: Plan, given: list[spec_pb2.ReferenceTable], folder: Path) -> References:
    found = References(
        plan.references, given, dagger="d", store=folder / "store", folder=folder, clock=time.monotonic
    )
    found.start()
    return found


def _line(name: str, call: str, wall: float, cpu: float, reference: float | None) -> str:
    beside = "" if reference is None else f", reference {reference / 1e6:6.3f} M/s"
    rates = f"{ROWS / max(cpu, 0.01) / 1e6:6.2f} M rows/s per core, {ROWS / wall / 1e6:6.2f} M/s a task"
    return f"{name:24} {rates}{beside}   {call}"


def _measured(run: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of the best of a few runs, after one to warm up."""
    run()
    best: list[tuple[float, float]] = []
    for _ in range(RUNS):
        wall, cpu = time.perf_counter(), _cpu()
        run()
        best.append((time.perf_counter() - wall, _cpu() - cpu))
    return min(wall for wall, _ in best), min(cpu for _, cpu in best)


def _cpu() -> float:
    """CPU seconds of this process, the JVM and its Python workers so far."""
    here = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in [here, *here.children(recursive=True)])


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _discard(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _plan(call: str, stream: Table, grouped: bool, *, rows: bool = False) -> Plan:
    by = " GROUP BY TUMBLE(rowtime, INTERVAL '40' SECOND)" if grouped else ""
    unfolded = f"SELECT 1 AS v FROM rows, LATERAL TABLE({call}) AS t"
    checked = check(unfolded if rows else f"SELECT {call} AS v FROM rows{by}", [stream])
    if checked.plan is None:
        raise SystemExit(f"{call}: {checked.findings[0].message}")
    return checked.plan


def _rows(session: SparkSession, pool: descriptor_pool.DescriptorPool) -> DataFrame:
    """The stream's view, in memory."""
    meta = ["'t' AS __topic", "0 AS __partition", "id AS __offset", "timestamp_seconds(id) AS __timestamp"]
    time_ = "timestamp_micros(1700000000000000 + id * 40000) AS rowtime"
    frame = session.range(0, ROWS, numPartitions=1).selectExpr(*selected(pool), time_, *meta).cache()
    frame.count()
    frame.createOrReplaceTempView("rows")
    return frame


def _session() -> SparkSession:
    conf = SparkConf().set("spark.ui.enabled", "false").set("spark.log.level", "ERROR")
    conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
    conf.set("spark.driver.memory", "4g").set("spark.ui.showConsoleProgress", "false")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # noqa: TID251 - read by Spark, in this process only
    SparkContext(master="local[1]", appName="functions", conf=conf)
    return spark.start()


def _java() -> str:
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    return told.split('"')[1] if '"' in told else "?"


if __name__ == "__main__":
    main()
