"""The session as a driver has it: its workers, its helpers, and what Py4J need not ask twice."""

from __future__ import annotations

import gc
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import psutil
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, text_format
from google.protobuf.message_factory import GetMessageClass
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from services.runtime.tests.launches import command_line
from services.runtime.tests.sessions import driver_session

from daggerspec.limits import WORKER_MEMORY_MIB
from daggersql import Table, check
from runtime.decode.decoder import Decoder
from runtime.errors import explain, worker_full
from runtime.source import warmup_source
from runtime.spark import cleaner, hadoopdefaults, helpers, localfiles, names
from runtime.spark.session import work_for

pytestmark = pytest.mark.integration

TWINS = """
name: "twins.proto" package: "twins" syntax: "proto3" dependency: "google/protobuf/timestamp.proto"
message_type {
  name: "Twins"
  field { name: "a" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "a" }
  field { name: "A" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 json_name: "A" }
  field { name: "nested" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".twins.Twins"
          json_name: "nested" }
  field { name: "time" number: 4 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".google.protobuf.Timestamp" json_name: "time" }
}
"""


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with driver_session() as started:
        yield started


def test_a_worker_has_what_it_needs_when_it_is_forked_and_no_thread_but_jemallocs(
    session: SparkSession,
) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        there = {"runtime.launch.delivery", "runtime.source.datasource"} <= set(sys.modules)
        threads = sorted(
            task.joinpath("comm").read_text().strip() for task in Path("/proc/self/task").iterdir()
        )
        yield from ()
        for _ in batches:
            yield pa.RecordBatch.from_pylist([{"there": there, "threads": threads[:-1]}])

    (seen,) = session.range(1).mapInArrow(look, "there boolean, threads array<string>").collect()

    assert seen["there"]
    assert set(seen["threads"]) <= {"jemalloc_bg_thd"}


def test_jobs_of_two_daggers_take_turns_and_their_tasks_log_for_their_own(session: SparkSession) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        names = {name: context.getLocalProperty(name) for name in ("spark.scheduler.pool", "mdc.dagger")}
        yield from (pa.RecordBatch.from_pylist([{"names": list(names.values())}]) for _ in batches)

    def compute(dagger: str) -> None:
        work_for(session, dagger)
        found[dagger] = session.range(1, numPartitions=1).mapInArrow(look, "names array<string>").collect()

    found: dict[str, Any] = {}
    threads = [Thread(target=compute, args=(dagger,)) for dagger in ("prices", "rides")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert {dagger: rows[0]["names"] for dagger, rows in found.items()} == {
        "prices": ["prices", "prices"],
        "rides": ["rides", "rides"],
    }
    assert session.sparkContext.getConf().get("spark.scheduler.mode") == "FAIR"


@pytest.mark.long
def test_a_task_that_takes_a_worker_too_much_memory_says_so_and_the_next_is_served(
    session: SparkSession,
) -> None:
    def take(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            taken = ["x" * 2**20 for _ in range(batch.column(0)[0].as_py())]
            yield pa.RecordBatch.from_pylist([{"n": len(taken)}])

    def taken(mib: int) -> int:
        return int(session.range(mib, mib + 1).mapInArrow(take, "n long").collect()[0]["n"])

    with pytest.raises(PythonException) as refused:
        taken(2 * WORKER_MEMORY_MIB)

    assert explain(refused.value) == worker_full().error
    assert taken(10) == 10


def test_a_java_name_is_looked_up_once(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    jvm: Any = session._jvm
    first = jvm.org.apache.spark.SparkConf
    names.remember()

    def refuse(*_: object) -> str:
        raise AssertionError("the JVM is asked again")

    monkeypatch.setattr(jvm._gateway_client, "send_command", refuse)

    assert jvm.org.apache.spark.SparkConf is first


def test_a_java_name_that_is_nothing_is_no_class_the_next_time_either(session: SparkSession) -> None:
    jvm: Any = session._jvm

    for _ in range(2):
        with pytest.raises((TypeError, Py4JError)):
            jvm.org.apache.spark.NoSuchClass()


def test_no_data_sources_are_looked_for_and_unknown_ones_are_refused_as_ever(session: SparkSession) -> None:
    with pytest.raises(Py4JJavaError, match="DATA_SOURCE_NOT_FOUND"):
        session.read.format("no.such.source").load()

    assert not [line for line in _helpers() if "lookup_data_sources" in line]


def test_the_helpers_that_a_stream_needs_are_there_after_nothing_was_read(session: SparkSession) -> None:
    warmup_source.read(session)

    running = " ".join(_helpers())
    assert "create_data_source" in running
    assert "plan_data_source_read" in running
    assert "runtime.daemon" in running


def test_helpers_end_when_no_launch_starts_and_are_started_anew_when_spark_asks_for_them(
    session: SparkSession, tmp_path: Path
) -> None:
    for name in ("one", "other"):
        helpers.need(tmp_path / name)
    warmup_source.read(session)
    running = psutil.Process().children(recursive=True)
    there = [one for one in running if "data_source" in command_line(one)]
    helpers.release(tmp_path / "one", session)
    still = [one for one in there if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    helpers.release(tmp_path / "other", session)
    gone, left = psutil.wait_procs(there, timeout=30)
    warmup_source.read(session)

    assert still == there
    assert (len(gone) >= 2, left) == (True, [])
    assert "create_data_source" in " ".join(_helpers())


class _Planned(DataSource):
    """A stream whose offsets say which process plans it."""

    @classmethod
    def name(cls) -> str:
        return "planned"

    def schema(self) -> str:
        return "pid int"

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802 - Spark's signature
        return _PlannedReader()


class _PlannedReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"pid": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"pid": os.getpid()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(end["pid"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (partition.value,)


def test_a_stream_is_planned_by_this_process_which_keeps_what_is_its_own(
    session: SparkSession, tmp_path: Path
) -> None:
    counted = session.sparkContext.accumulator(0)
    path = list(sys.path)
    session.dataSource.register(_Planned)
    found: Queue[int] = Queue()
    stream = session.readStream.format("planned").load()
    writer = stream.writeStream.foreachBatch(lambda rows, _: [found.put(row.pid) for row in rows.collect()])
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    planner = found.get(timeout=60)
    stands_in = [one for one in psutil.Process().children(recursive=True) if command_line(one) == "cat"]
    session.sparkContext.parallelize([1, 2]).foreach(counted.add)
    query.stop()
    gone, _ = psutil.wait_procs(stands_in, timeout=30)

    assert (planner, len(gone), sys.path) == (os.getpid(), 1, path)
    assert counted.value == 3


def test_hadoop_writes_local_files_as_it_does_but_starts_no_process_for_each(
    session: SparkSession, tmp_path: Path
) -> None:
    jvm: Any = session._jvm
    ours = jvm.org.apache.hadoop.fs.FileSystem.get(
        jvm.java.net.URI.create(tmp_path.as_uri()), session._jsparkSession.sessionState().newHadoopConf()
    )
    hadoops = jvm.org.apache.hadoop.fs.LocalFileSystem()
    hadoops.initialize(jvm.java.net.URI.create("file:///"), session._jsc.hadoopConfiguration())
    written = {}
    for name, files in (("hadoops", hadoops), ("ours", ours)):
        folder = tmp_path / name
        folder.mkdir()
        stream = files.create(jvm.org.apache.hadoop.fs.Path(f"{folder.as_uri()}/file"), True)
        stream.writeBytes("content")
        stream.close()
        written[name] = {
            file.name: (file.read_bytes(), oct(file.stat().st_mode)) for file in folder.iterdir()
        }

    assert ours.getClass().getName() == "LocalFiles"
    assert sorted(written["ours"]) == [".file.crc", "file"]
    assert written["ours"] == written["hadoops"]


def test_permissions_of_local_files_are_set_and_what_is_not_there_is_an_error(
    session: SparkSession, tmp_path: Path
) -> None:
    jvm: Any = session._jvm
    localfiles.use(session)  # again changes nothing
    hadoop = jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(jvm.java.net.URI.create("file:///"), session._jsc.hadoopConfiguration())
    (tmp_path / "file").touch()
    for mode in ("640", "1777"):
        files.setPermission(hadoop.Path(f"{tmp_path}/file"), hadoop.permission.FsPermission(mode))
        assert oct((tmp_path / "file").stat().st_mode)[-4:] == mode.rjust(4, "0")

    with pytest.raises(Py4JJavaError, match="NoSuchFile"):
        files.setPermission(hadoop.Path(f"{tmp_path}/none"), hadoop.permission.FsPermission("640"))


def test_fields_whose_names_differ_in_case_are_two_columns(session: SparkSession) -> None:
    file = text_format.Parse(TWINS, descriptor_pb2.FileDescriptorProto())
    message = (
        descriptor_pool.Default().AddSerializedFile(file.SerializeToString()).message_types_by_name["Twins"]
    )
    record: Any = GetMessageClass(message)(a="one", A=1)
    record.nested.a, record.nested.A = "two", 2
    sql = (
        "SELECT a AS tag_a, SUM(A) AS n, MAX(nested.a) AS b, MAX(nested.A) AS m,"
        " TUMBLE_END(rowtime, INTERVAL '1' MINUTE) AS window_timestamp FROM twins"
        " GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE), a"
    )
    plan = check(sql, [Table("twins", message, "time")], []).plan
    assert plan is not None
    decoded = Decoder(message, plan.reads[0].paths, "time").decode([record.SerializeToString()])

    rows = session.createDataFrame(pa.Table.from_batches([decoded.columns]))
    rows.withColumn("rowtime", F.current_timestamp()).createOrReplaceTempView("twins")
    (row,) = session.sql(plan.spark_sql).collect()

    assert (row["tag_a"], row["n"], row["b"], row["m"]) == ("one", 1, "two", 2)


def _helpers() -> list[str]:
    """The command lines of the processes below this one."""
    return [command_line(one) for one in psutil.Process().children(recursive=True)]


class Runs:
    """Something that Java can call back."""

    def __init__(self) -> None:
        self.times = 0

    def run(self) -> None:
        """As java.lang.Runnable says."""
        self.times += 1

    class Java:
        """What it is to Java."""

        implements = ("java.lang.Runnable",)


def test_only_who_knows_the_token_calls_python_back(session: SparkSession) -> None:
    gateway: Any = session.sparkContext._gateway
    runs = Runs()
    proxy = gateway.gateway_property.pool.put(runs)
    thread = gateway.jvm.java.lang.Thread(runs)
    thread.start()
    thread.join(10_000)
    by_java = runs.times
    command = f"c\n{proxy}\nrun\ne\n".encode()
    for said in (command, b"A\nnot-the-token\n" + command):
        # What arrives without a token is one HTTP request as good as another.
        with socket.create_connection(("127.0.0.1", gateway._callback_server.port), 10) as stranger:
            stranger.sendall(said)
            with suppress(ConnectionResetError):
                while stranger.recv(1024):
                    pass

    assert (by_java, runs.times) == (1, 1)


def _free(session: SparkSession) -> int:
    """Bytes that Spark may still keep in memory."""
    return int(session.sparkContext._jsc.sc().getExecutorMemoryStatus().head()._2()._2())


def test_what_nobody_refers_to_is_cleaned_up_though_who_does_it_waits(session: SparkSession) -> None:
    jvm: Any = session._jvm
    cleaner.wait_patiently(session)
    context = session.sparkContext._jsc
    field = jvm.java.lang.Class.forName("org.apache.spark.ContextCleaner").getDeclaredField("referenceQueue")
    field.setAccessible(True)
    queue = field.get(context.sc().cleaner().get())
    cleaner.wait_patiently(session)
    again = field.get(context.sc().cleaner().get())
    size, before = 8_000_000, _free(session)
    kept = context.broadcast(os.urandom(size))
    taken = before - _free(session)
    del kept
    deadline = time.monotonic() + 60
    while before - _free(session) > size // 2:
        assert time.monotonic() < deadline, "it is not cleaned up"
        gc.collect()
        jvm.java.lang.System.gc()
        time.sleep(0.1)

    # What others no longer need may be freed meanwhile: most of it is told apart from nothing.
    assert (taken > size // 2, queue.getClass().getName()) == (True, "PatientQueue")
    assert again.equals(queue)


def test_a_querys_jobs_come_from_where_it_was_started(session: SparkSession, tmp_path: Path) -> None:
    said: list[list[str | None]] = []

    def write(rows: DataFrame, batch_id: int) -> None:
        for _ in range(2):
            context = session.sparkContext
            said.append([context.getLocalProperty(f"callSite.{form}") for form in ("short", "long")])
            rows.collect()

    query = session.readStream.format("rate").load().writeStream.foreachBatch(write)
    started = query.option("checkpointLocation", str(tmp_path)).start()
    deadline = time.monotonic() + 60
    while len(said) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    started.stop()

    assert said[0] == said[1]
    assert all(said[0])


def test_what_hadoop_says_by_default_is_forgotten_and_what_was_said_is_not(session: SparkSession) -> None:
    jvm: Any = session._jvm
    known = session._jsc.hadoopConfiguration()
    known.set("io.file.buffer.size", "8192")
    before = known.size()
    for _ in range(2):
        hadoopdefaults.forget(session)
    local = jvm.org.apache.hadoop.fs.FileContext.getFileContext(known)

    assert before > 200
    assert known.size() < 60
    assert known.get("io.file.buffer.size") == "8192"
    assert known.get("fs.s3a.connection.maximum") is None
    assert local.getDefaultFileSystem().getUri().getScheme() == "file"
