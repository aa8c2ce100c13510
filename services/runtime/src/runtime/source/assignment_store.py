"""Store assignments of readers in a checkpoint, beside what Spark keeps: each is a file of its own.

Written before the query starts that reads by it. After a crash in the first batch Spark asks for the initial
offsets again; asked of Kafka again, `latest` would skip what lay between.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from runtime.source.offsets import Offsets
from runtime.source.planner.assignment import Assignment, LoggedBatch

_ASSIGNMENTS, _OFFSETS, _COMMITS = "source-start", "offsets", "commits"


class AssignmentStore:
    """The files of a checkpoint, a directory (path or Hadoop URI), through Spark's own way to them."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        context = spark.sparkContext
        jvm = context._jvm  # noqa: SLF001 - Spark's own way to Hadoop's file systems
        assert jvm is not None
        self._jvm: Any = jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._checkpoint = checkpoint
        managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
        self._files = managers.create(self._path(checkpoint), context._jsc.hadoopConfiguration())  # noqa: SLF001 - as above

    def assignment(self) -> Assignment | None:
        """Read the newest assignment; None before the first."""
        number = self._newest(_ASSIGNMENTS)
        if number is None:
            return None
        return Assignment.from_json(json.loads(self._read(_ASSIGNMENTS, number)))

    def keep(self, assignment: Assignment) -> None:
        """Write an assignment, whole or not at all; nothing where it is there already."""
        if self._newest(_ASSIGNMENTS) == assignment.number:
            return
        folder = self._path(f"{self._checkpoint}/{_ASSIGNMENTS}")
        self._files.mkdirs(folder)
        stream = self._files.createAtomic(self._path(folder, str(assignment.number)), False)
        stream.write(bytearray(json.dumps(assignment.as_json()).encode()))
        stream.close()

    def newest_batch(self) -> LoggedBatch:
        """Read the newest batch that Spark has planned."""
        number = self._newest(_OFFSETS)
        if number is None:
            return LoggedBatch()
        committed = self._newest(_COMMITS) == number
        # Spark removes what it no longer needs: it may have kept the newest alone.
        before = self._path(f"{self._checkpoint}/{_OFFSETS}/{number - 1}")
        begins = self._ends(number - 1) if self._files.exists(before) else ()
        return LoggedBatch(self._ends(number), committed, begins)

    def _ends(self, batch: int) -> tuple[Offsets, ...]:
        """Return the offsets where a batch ends, by source."""
        version, _metadata, *sources = self._read(_OFFSETS, batch).splitlines()
        assert version == "v2", "this session writes its offsets by source: see `runtime.spark.session`"
        ends = (line.partition(":")[2] for line in sources)
        return tuple(Offsets.from_json(json.loads(end)) for end in ends if end.startswith("{"))

    def _newest(self, folder: str) -> int | None:
        """Return the greatest number that is a file's name; None without one."""
        path = self._path(f"{self._checkpoint}/{folder}")
        if not self._files.exists(path):
            return None
        names = [status.getPath().getName() for status in self._files.list(path)]
        return max((int(name) for name in names if name.isdigit()), default=None)

    def _read(self, folder: str, number: int) -> str:
        stream = self._files.open(self._path(f"{self._checkpoint}/{folder}/{number}"))
        try:
            text: str = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
            return text
        finally:
            stream.close()
