"""Rows a second that each function of our own takes in Spark, beside its plain reference.

    .venv/bin/python bench/functions.py [FUNCTION …]

One task (local[1]) over cached rows, through the dialect, the answers thrown away. Per core: rows by the CPU
time of all processes, JVM and Python workers together, without what reading the row and carrying its identity
along takes, which is the first line. DistinctCount stands beside Spark's own approx_count_distinct.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import psutil
from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2
from machine import header
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession

from daggersql import Table, check
from runtime import spark, udfs

ROWS = 1_000_000
SLOW_ROWS = 20_000
RUNS = 2
_Field = descriptor_pb2.FieldDescriptorProto
COLUMNS = {
    "lat": (_Field.TYPE_DOUBLE, False, "rand(1) * 180 - 90"),
    "lng": (_Field.TYPE_DOUBLE, False, "rand(2) * 360 - 180"),
    "cell": (_Field.TYPE_STRING, False, "CAST(CAST(rand(3) * 1e18 AS BIGINT) * 8 + 4 AS STRING)"),
    "sec": (_Field.TYPE_INT64, False, "1700000000 + id * 7"),
    "words": (_Field.TYPE_STRING, False, "concat_ws(',', id, 'abc', id % 7, '')"),
    "data": (_Field.TYPE_BYTES, False, "CAST(concat('text ', id) AS BINARY)"),
    "doc": (_Field.TYPE_STRING, False, 'concat(\'{"a":{"b":[\', id, \',2]},"c":"x"}\')'),
    "list": (_Field.TYPE_INT64, True, "array(id % 5, id, id % 3)"),
    "x": (_Field.TYPE_INT64, False, "id"),
}
CALLS: dict[str, tuple[str, Sequence[str], Sequence[Any]]] = {
    "S2Id": ("S2Id(lat, lng, 13)", ("lat", "lng"), (13,)),
    "S2AreaInKm2": ("S2AreaInKm2(cell)", ("cell",), ()),
    "Distance": ("Distance(lat, lng, 1.5, 103.8)", ("lat", "lng"), (1.5, 103.8)),
    "GeoHash": ("GeoHash(lat, lng, 6)", ("lat", "lng"), (6,)),
    "StartOfMonth": ("StartOfMonth(sec, 'America/New_York')", ("sec",), ("America/New_York",)),
    "EndOfMonth": ("EndOfMonth(sec, 'America/New_York')", ("sec",), ("America/New_York",)),
    "StartOfWeek": ("StartOfWeek(sec, 'America/New_York')", ("sec",), ("America/New_York",)),
    "EndOfWeek": ("EndOfWeek(sec, 'America/New_York')", ("sec",), ("America/New_York",)),
    "TimeInDate": ("TimeInDate(sec, 9, 30, 'America/New_York')", ("sec",), (9, 30, "America/New_York")),
    "TimestampFromUnix": ("TimestampFromUnix(sec)", ("sec",), ()),
    "FormatTimeInZone": (
        "FormatTimeInZone(rowtime, 'Asia/Kolkata', 'yyyy-MM-dd HH:mm:ss')",
        ("rowtime",),
        ("Asia/Kolkata", "yyyy-MM-dd HH:mm:ss"),
    ),
    "Split": ("Split(words, ',')", ("words",), (",",)),
    "ByteToString": ("ByteToString(data)", ("data",), ()),
    "JsonQuery": ("JsonQuery(doc, '$.a.b[0]')", ("doc",), ("$.a.b[0]",)),
    "JsonUpdate": ("JsonUpdate(doc, '$.c', 'y')", ("doc",), ("$.c", "y")),
    "JsonDelete": ("JsonDelete(doc, '$.a')", ("doc",), ("$.a",)),
    "ListContains": ("ListContains(list, 2)", ("list",), (2,)),
    "ArrayOperate": ("ArrayOperate(list, 'distinct.sorted', 'long')", ("list",), ("distinct.sorted", "long")),
    "ArrayAggregate": ("ArrayAggregate(list, 'distinct.sum', 'long')", ("list",), ("distinct.sum", "long")),
    "ElementAt": ("ElementAt(list, -1)", ("list",), (-1,)),
}
AGGREGATES = {
    "DistinctCount": ("DistinctCount(x)", "x"),
    "PercentileAggregator": ("PercentileAggregator(95, lat)", "lat"),
}

SPARKS_OWN = "SELECT approx_count_distinct(x) FROM rows GROUP BY window(rowtime, '1 day')"


def main() -> None:
    """Print one line for each function."""
    wanted = sys.argv[1:] or [*CALLS, *AGGREGATES]
    print(header("pyspark", "pyarrow", "numpy", "s2sphere"), f"Java {_java()}", sep=", ", flush=True)
    session = _session()
    view = _rows(session)
    bare = _measured(lambda: _discard(session.sql(_sql("x"))))
    print(_line("(reading a row)", "x", *bare, None), flush=True)
    reading = bare[1]
    sample = view.limit(SLOW_ROWS).toArrow().to_pylist()
    for name in wanted:
        module = udfs.load(name.lower())
        module.register(session)
        if name in CALLS:
            call, columns, constants = CALLS[name]
            rows = [tuple(row[column] for column in columns) + tuple(constants) for row in sample]
            slow = _timed(lambda rows=rows, module=module: [module.reference(*row) for row in rows])  # type: ignore[misc]
        else:
            call, column = AGGREGATES[name]
            rows = [(95, row[column]) if name == "PercentileAggregator" else (row[column],) for row in sample]
            slow = _timed(lambda rows=rows, module=module: module.reference(rows))  # type: ignore[misc]
        taken = _measured(lambda call=call, name=name: _discard(session.sql(_sql(call, name in AGGREGATES))))  # type: ignore[misc]
        print(_line(name, call, taken[0], taken[1] - reading, SLOW_ROWS / slow), flush=True)
        if name == "DistinctCount":
            taken = _measured(lambda: _discard(session.sql(SPARKS_OWN)))
            print(
                _line("(Spark's own)", "approx_count_distinct(x)", taken[0], taken[1] - reading, None),
                flush=True,
            )
    session.stop()


def _line(name: str, call: str, wall: float, cpu: float, reference: float | None) -> str:
    beside = "" if reference is None else f", reference {reference / 1e6:6.3f} M/s"
    rates = f"{ROWS / max(cpu, 0.01) / 1e6:6.2f} M rows/s per core, {ROWS / wall / 1e6:6.2f} M/s a task"
    return f"{name:18} {rates}{beside}   {call}"


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
    return sum(sum(each.cpu_times()[:4]) for each in [here, *here.children(recursive=True)])


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _discard(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _sql(call: str, grouped: bool = False) -> str:
    by = " GROUP BY TUMBLE(rowtime, INTERVAL '1' DAY)" if grouped else ""
    checked = check(f"SELECT {call} AS v FROM rows{by}", [_table()])
    if checked.plan is None:
        raise SystemExit(f"{call}: {checked.findings[0].message}")
    return checked.plan.spark_sql


def _rows(session: SparkSession) -> DataFrame:
    """The stream's view, in memory."""
    listed = [f"{sql} AS {name}" for name, (_, _, sql) in COLUMNS.items()]
    meta = ["'t' AS __topic", "0 AS __partition", "id AS __offset", "timestamp_seconds(id) AS __timestamp"]
    time_ = "timestamp_micros(1700000000000000 + id * 40000) AS rowtime"
    frame = session.range(0, ROWS, numPartitions=1).selectExpr(*listed, time_, *meta).cache()
    frame.count()
    frame.createOrReplaceTempView("rows")
    return frame


def _table() -> Table:
    message = descriptor_pb2.DescriptorProto(name="Row")
    message.field.add(
        name="time", number=1, type=_Field.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp",
        label=_Field.LABEL_OPTIONAL,
    )  # fmt: skip
    for number, (name, (kind, repeated, _)) in enumerate(COLUMNS.items(), 2):
        label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
        message.field.add(name=name, number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    file = descriptor_pb2.FileDescriptorProto(
        name="row.proto", package="bench", syntax="proto3", message_type=[message],
        dependency=[timestamp_pb2.DESCRIPTOR.name],
    )  # fmt: skip
    pool.AddSerializedFile(file.SerializeToString())
    return Table("rows", pool.FindMessageTypeByName("bench.Row"), "time")


def _session() -> SparkSession:
    conf = SparkConf().set("spark.ui.enabled", "false").set("spark.log.level", "ERROR")
    conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
    conf.set("spark.driver.memory", "4g")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # noqa: TID251 - read by Spark, in this process only
    SparkContext(master="local[1]", appName="functions", conf=conf)
    return spark.start("functions")


def _java() -> str:
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    return told.split('"')[1] if '"' in told else "?"


if __name__ == "__main__":
    main()
