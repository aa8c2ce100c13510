"""Create SQL sessions, with the settings that decide what is computed, whoever launched the driver.

The launcher sets memory, master and hosts. Settings that must not differ between two launches of a dagger are
here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from daggerspec.executors import LOCAL_PARTITIONS
from runtime.spark import (
    callbacks,
    callsites,
    cleaner,
    executors,
    hadoopdefaults,
    localfiles,
    names,
    planners,
    queries,
    withoutpandas,
)

SETTINGS = {
    # Meaning of the SQL. Bad data gives NULL and never ends a job, so the ANSI errors are off. Fields
    # `a` and `A` of one message are two, as they are to Protobuf.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    # Of a key that stands in a JSON object twice the last value counts, as in Flink; else the whole document
    # would be no JSON.
    "spark.sql.variant.allowDuplicateKeys": "true",
    # Nothing but the views of this job can be read, and no function that runs other code.
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.scripting.enabled": "false",
    "spark.sql.restrictedMode.enabled": "true",
    # A batch's offsets stand in its log under the place of each source, so that topics can come and go: with
    # the first format Spark refuses a checkpoint of more or fewer sources.
    "spark.sql.streaming.offsetLog.formatVersion": "2",
    # Micro-batches: an idle poll is told of within a second; adaptive plans would only cost time.
    "spark.sql.streaming.noDataProgressEventInterval": "1000",
    "spark.sql.streaming.stopTimeout": "30s",
    # Two warnings a batch, about snapshots that are taken once a minute and not more often.
    "spark.sql.streaming.stateStore.coordinatorReportSnapshotUploadLag": "false",
    "spark.sql.streaming.stateStore.forceSnapshotUploadOnLag": "false",
    "spark.sql.adaptive.enabled": "false",
    # Else Spark looks through the code of each stage's closure, and serialises it once to see that it can, in
    # every batch: a third of what planning took.
    "spark.sql.execution.usePartitionEvaluator": "true",
    # What the UI shows of a plan is made for every batch, whether anybody looks or not.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "runtime.daemon",
    # How long the JVM waits for this Python to fetch what `collect()` found. On a host that is overloaded the
    # 15 s of the default pass, and an end of the batch would be of no use to anybody.
    "spark.python.authenticate.socketTimeout": "600s",
    # What stands in driver.log and in the UI is for people to read, not to act on.
    "spark.ui.port": "0",
    "spark.ui.killEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Batches of members of one process take turns: a heavy one does not go first because it came first.
    "spark.scheduler.mode": "FAIR",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
}
# Renaming a file is atomic on a local disk, and this manager saves the checksum files of the default one.
_LOCAL_CHECKPOINTS = (
    "spark.sql.streaming.checkpointFileManagerClass",
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
)
# A batch saves what it changed, not all there is. Beside the heap a store takes two write buffers, its cache,
# and the filters of its files, 1.3 bytes for each key. Spark's own bound for all stores together would keep
# those in a cache of 64 parts, none of which has room for a large file's: read anew for every key (ADR 24).
_DISK_STATE = {
    "providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "rocksdb.changelogCheckpointing.enabled": "true",
    "rocksdb.writeBufferSizeMB": "16",
    "rocksdb.maxWriteBufferNumber": "2",
    "rocksdb.blockCacheSizeMB": "16",
}
# Partitions where nobody knows the number of cores. Each costs milliseconds in every batch: Spark's own 200
# cost 6 s.
_PARTITIONS_OF_MANY = 4

_SOON = 2_000

_BEFORE_EVERYTHING = datetime(1, 1, 1, tzinfo=UTC)


def start() -> SparkSession:
    """Start Spark on the master that spark-submit was given, and return the session."""
    names.remember()
    callsites.leave()
    withoutpandas.leave()
    builder = SparkSession.builder
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    callbacks.ask_for_token(session)
    planners.serve(session)
    _no_data_sources(session)
    localfiles.use(session)
    cleaner.wait_patiently(session)
    _prepare(session)
    return session


def another(session: SparkSession) -> SparkSession:
    """Create a session in the same application with its own settings, views, functions and queries."""
    other = session.newSession()
    for name, value in SETTINGS.items():
        if other.conf.isModifiable(name):
            other.conf.set(name, value)
    _prepare(other)
    return other


def work_for(session: SparkSession, dagger: str) -> None:
    """Have the jobs of what this thread starts take turns with those of other daggers, and their tasks' lines
    in the log name the dagger.
    """
    session.sparkContext.setLocalProperty("spark.scheduler.pool", dagger)
    session.sparkContext.setLocalProperty("mdc.dagger", dagger)


@contextmanager
def stop_at_exit(session: SparkSession) -> Iterator[SparkSession]:
    """Stop Spark at the end of the context, without waiting for ever."""
    try:
        yield session
    finally:
        queries.stop_patiently(session.stop)


def slots(session: SparkSession) -> int:
    """Return how many tasks run at once in this process; 0 where executors are elsewhere."""
    return session.sparkContext.defaultParallelism if _is_local(session) else 0


def _is_local(session: SparkSession) -> bool:
    return str(session.sparkContext.master).startswith("local")


def _prepare(session: SparkSession) -> None:
    _bounded_list(session)
    session.conf.set("spark.sql.shuffle.partitions", _partitions(session))


def _partitions(session: SparkSession) -> int:
    """Return the number of tasks of a stage behind a shuffle: one for each core of its executors."""
    if _is_local(session):
        return LOCAL_PARTITIONS
    return executors.asked_cores(session.sparkContext.getConf()) or _PARTITIONS_OF_MANY


def checkpoint_locally(session: SparkSession) -> None:
    """Configure checkpoints on a local disk; before a query is started."""
    session.conf.set(*_LOCAL_CHECKPOINTS)
    if _is_local(session):
        hadoopdefaults.forget(session)


def compute_much_at_once(session: SparkSession) -> None:
    """Configure few large batches whose rows somebody waits for; before the query is started.

    Every slot gets work, and workers get rows in small portions, early.
    """
    if parallel := slots(session):
        session.conf.set("spark.sql.shuffle.partitions", parallel)
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", _SOON)


def keep_state_on_disk(session: SparkSession) -> None:
    """Configure state on disk; before a query is started, and for all later launches on its checkpoint."""
    for name, value in _DISK_STATE.items():
        session.conf.set(f"spark.sql.streaming.stateStore.{name}", value)


def _no_data_sources(session: SparkSession) -> None:
    """Spark looks for data sources among Python's packages, in two processes, before it takes ours."""
    jvm = session._jvm  # noqa: SLF001 - Spark has no setting for it
    manager = getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager$")  # type: ignore[union-attr]
    none = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(jvm.java.util.HashMap())  # type: ignore[union-attr]
    getattr(getattr(manager, "MODULE$"), "dataSourceBuilders_$eq")(jvm.scala.Option.apply(none))  # type: ignore[union-attr]


def rows(session: SparkSession, sql: str, complete_from: datetime | None = None) -> DataFrame:
    """Return the rows of a plan's SQL. complete_from: time (aware) before which records may be missing."""
    return session.sql(sql, args={"complete_from": complete_from or _BEFORE_EVERYTHING})


def _bounded_list(session: SparkSession) -> None:
    """Give `collect_top_k(x, most, least first)` a name in SQL: of Spark's lists, the only one with a bound.

    Spark's own DataFrames use it; like them, a query is built of nothing that a person has written.
    """
    jvm = session._jvm  # noqa: SLF001 - as above
    functions = getattr(jvm.org.apache.spark.sql.catalyst.analysis, "FunctionRegistry$")  # type: ignore[union-attr]
    name = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier("collect_top_k")  # type: ignore[union-attr]
    builder = getattr(functions, "MODULE$").internal().lookupFunctionBuilder(name).get()
    registry = session._jsparkSession.sessionState().functionRegistry()  # noqa: SLF001 - as above
    registry.createOrReplaceTempFunction("collect_top_k", builder, "built-in")
