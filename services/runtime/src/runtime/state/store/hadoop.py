"""Checkpoint roots on Hadoop file systems, HDFS and others, through the JVM that spark-submit started.

Local directories need none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from runtime.errors import external

# Where a file is created, and renamed, as a whole or not at all: what Spark's checkpoints stand on.
_ATOMIC = frozenset({"file", "hdfs", "viewfs", "webhdfs", "swebhdfs", "abfs", "abfss"})
# What other stores say of themselves when they have a conditional put (S3A since Hadoop 3.4.2).
_CONDITIONAL = "fs.option.create.conditional.overwrite"


class HadoopPath:
    """A path on a Hadoop file system.

    Every method raises `OSError` when the store does not answer, or says no.
    """

    def __init__(self, uri: str, files: Any, make: Callable[[str], Any]) -> None:
        """`files` is the FileSystem and `make` the constructor of Path, both Java's; see `hadoop_path`."""
        self._uri = uri.rstrip("/")
        self._files = files
        self._make = make

    def __str__(self) -> str:
        return self._uri

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HadoopPath) and other._uri == self._uri

    def __hash__(self) -> int:
        return hash(self._uri)

    def __lt__(self, other: HadoopPath) -> bool:
        return self._uri < other._uri

    def __truediv__(self, name: str) -> HadoopPath:
        return HadoopPath(f"{self._uri}/{name}", self._files, self._make)

    @property
    def name(self) -> str:
        """The last part."""
        return self._uri.rpartition("/")[2]

    @property
    def local(self) -> None:
        """It is on no machine."""

    def with_name(self, name: str) -> HadoopPath:
        """What is called `name` beside it."""
        return HadoopPath(f"{self._uri.rpartition('/')[0]}/{name}", self._files, self._make)

    def iterdir(self) -> Iterator[HadoopPath]:
        """What is in this directory; raises `FileNotFoundError` when there is none."""
        with _as_os_error():
            statuses = self._files.listStatus(self._path())
        return iter([self / status.getPath().getName() for status in statuses])

    def is_dir(self) -> bool:
        """Whether it is a directory."""
        with _as_os_error():
            there = self._files.exists(self._path())
            return bool(there and self._files.getFileStatus(self._path()).isDirectory())

    def exists(self) -> bool:
        """Whether there is a file or a directory of this name."""
        with _as_os_error():
            return bool(self._files.exists(self._path()))

    def modified(self) -> float:
        """When it was written last, in seconds after the epoch."""
        with _as_os_error():
            return float(self._files.getFileStatus(self._path()).getModificationTime()) / 1000

    def read_text(self) -> str:
        """All of a file, as UTF-8."""
        with _as_os_error():
            stream = self._files.open(self._path())
            try:
                return bytes(stream.readAllBytes()).decode()
            finally:
                stream.close()

    def create(self) -> None:
        """An empty file, with the directories above it; it may exist."""
        with _as_os_error():
            self._files.mkdirs(self._make(self._uri.rpartition("/")[0]))
            self._files.createNewFile(self._path())

    def write_text(self, text: str) -> None:
        """Make this all of a file, which may exist, in one step: as Spark writes its own."""
        jvm = SparkContext._jvm  # noqa: SLF001 - Spark's own way to files that are whole or not there
        assert jvm is not None
        managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
        with _as_os_error():
            folder = self._make(self._uri.rpartition("/")[0])
            self._files.mkdirs(folder)
            stream = managers.create(folder, self._files.getConf()).createAtomic(self._path(), True)
            try:
                stream.write(bytearray(text.encode()))
            except BaseException:
                stream.cancel()
                raise
            stream.close()

    def remove(self) -> None:
        """Delete it, and all below it."""
        with _as_os_error():
            self._files.delete(self._path(), True)

    def _path(self) -> Any:
        return self._make(self._uri)


class HadoopStore:
    """A lease on a Hadoop file system: an empty file for each generation that took it; the greatest holds it.

    Two drivers never have one generation, so no file is ever contended: that it is there says everything.
    """

    def __init__(self, root: HadoopPath) -> None:
        self._root, self._folder = root, root / "lease"

    def read(self) -> int:
        """The generation that holds the lease; 0 when nobody ever did. Raises OSError, ValueError."""
        try:
            return max((int(entry.name) for entry in self._folder.iterdir()), default=0)
        except FileNotFoundError:
            return 0

    def take(self, generation: int) -> int:
        """Take the lease from older generations; the generation that holds it then."""
        (self._folder / str(generation)).create()
        held = self.read()
        if held == generation:
            for entry in self._folder.iterdir():
                if int(entry.name) < generation:
                    entry.remove()
        return held

    def take_again(self, generation: int) -> int:
        """The same of one that had it. Raises OSError where the whole checkpoint root is gone."""
        if not self._root.is_dir():
            raise FileNotFoundError(f"{self._root} is gone")
        return self.take(generation)


def hadoop_path(root: str, settings: Mapping[str, str] | None = None) -> HadoopPath:
    """The path that a URI such as `hdfs://namenode:8020/daggers/NAME` names. Starts a JVM if there is none.

    `settings` are added to Hadoop's configuration, which knows `spark.hadoop.*`. Raises `JobError` (EXTERNAL)
    for a store that cannot hold a checkpoint, or is not known here.
    """
    SparkContext._ensure_initialized()  # noqa: SLF001 - the JVM without a Spark application
    jvm = SparkContext._jvm  # noqa: SLF001 - as above
    assert jvm is not None
    spark = jvm.org.apache.spark
    configuration = spark.deploy.SparkHadoopUtil.get().newConfiguration(spark.SparkConf(True))
    for name, value in (settings or {}).items():
        configuration.set(name, value)
    make = jvm.org.apache.hadoop.fs.Path
    scheme = root.partition(":")[0]
    try:
        with _as_os_error():
            files = jvm.org.apache.hadoop.fs.FileSystem.get(make(root).toUri(), configuration)
            atomic = scheme in _ATOMIC or files.hasPathCapability(make(root), _CONDITIONAL)
    except OSError as problem:
        raise external(
            "CHECKPOINT_ROOT_UNSUPPORTED", f"The checkpoint root {root!r} cannot be used: {problem}."
        ) from None
    if not atomic:
        raise external(
            "CHECKPOINT_ROOT_UNSUPPORTED",
            f"The checkpoint root {root!r} is on a store that cannot create a file only where there is "
            "none, so two drivers could write one checkpoint; use hdfs:, viewfs:, abfs: or a mounted "
            "directory, or an s3a: store with conditional writes.",
        )
    return HadoopPath(root, files, make)


@contextmanager
def _as_os_error() -> Iterator[None]:
    """What Java raises, as Python's: in one line."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as problem:
        told = str(problem.java_exception.toString()) if isinstance(problem, Py4JJavaError) else str(problem)
        line = told.splitlines()[0]
        raise FileNotFoundError(line) if "FileNotFoundException" in line else OSError(line) from None
