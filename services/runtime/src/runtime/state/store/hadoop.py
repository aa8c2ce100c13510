"""Store checkpoint roots in Hadoop file systems, HDFS and others, through the JVM that spark-submit started.

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

# file systems with atomic creation and renaming, on which Spark's checkpoints depend
_ATOMIC = frozenset({"file", "hdfs", "viewfs", "webhdfs", "swebhdfs", "abfs", "abfss"})
# capability of other stores with a conditional put (S3A since Hadoop 3.4.2)
_CONDITIONAL = "fs.option.create.conditional.overwrite"


class HadoopPath:
    """Path in a Hadoop file system. Every method raises OSError where the store fails or refuses."""

    def __init__(self, uri: str, files: Any, make: Callable[[str], Any]) -> None:
        """files: Java's FileSystem. make: Java's constructor of Path. Made by `hadoop_path`."""
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
        """Last part of the path."""
        return self._uri.rpartition("/")[2]

    @property
    def local(self) -> None:
        """None: a Hadoop path is not on this machine."""

    def with_name(self, name: str) -> HadoopPath:
        """Return the path called `name` beside this one."""
        return HadoopPath(f"{self._uri.rpartition('/')[0]}/{name}", self._files, self._make)

    def iterdir(self) -> Iterator[HadoopPath]:
        """List this directory. Raises: FileNotFoundError where there is none."""
        with _as_os_error():
            statuses = self._files.listStatus(self._path())
        return iter([self / status.getPath().getName() for status in statuses])

    def is_dir(self) -> bool:
        """Tell whether it is a directory."""
        with _as_os_error():
            there = self._files.exists(self._path())
            return bool(there and self._files.getFileStatus(self._path()).isDirectory())

    def exists(self) -> bool:
        """Tell whether there is a file or a directory of this name."""
        with _as_os_error():
            return bool(self._files.exists(self._path()))

    def modified_at(self) -> float:
        """Return the time of the last write, in seconds since 1970."""
        with _as_os_error():
            return float(self._files.getFileStatus(self._path()).getModificationTime()) / 1000

    def read_text(self) -> str:
        """Read a whole file as UTF-8."""
        with _as_os_error():
            stream = self._files.open(self._path())
            try:
                return bytes(stream.readAllBytes()).decode()
            finally:
                stream.close()

    def create(self) -> None:
        """Create an empty file, with the directories above it; it may exist."""
        with _as_os_error():
            self._files.mkdirs(self._make(self._uri.rpartition("/")[0]))
            self._files.createNewFile(self._path())

    def write_text(self, text: str) -> None:
        """Replace the content of a file atomically, as Spark writes its own; it may not exist."""
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
        """Delete it, with everything below it."""
        with _as_os_error():
            self._files.delete(self._path(), True)

    def _path(self) -> Any:
        return self._make(self._uri)


class HadoopStore:
    """Lease in a Hadoop file system: an empty file for each generation that took it; the greatest one holds
    it.

    Two drivers never have the same generation, so no two write one file; its existence is all that counts.
    """

    def __init__(self, root: HadoopPath) -> None:
        self._root, self._folder = root, root / "lease"

    def read(self) -> int:
        """Return the generation that holds the lease; 0 before the first. Raises: OSError, ValueError."""
        try:
            return max((int(entry.name) for entry in self._folder.iterdir()), default=0)
        except FileNotFoundError:
            return 0

    def take(self, generation: int) -> int:
        """Take the lease from older generations; return the generation that holds it then."""
        (self._folder / str(generation)).create()
        holder = self.read()
        if holder == generation:
            for entry in self._folder.iterdir():
                if int(entry.name) < generation:
                    entry.remove()
        return holder

    def take_again(self, generation: int) -> int:
        """Take a lease back that is gone. Raises: OSError where the whole checkpoint root is gone."""
        if not self._root.is_dir():
            raise FileNotFoundError(f"{self._root} is gone")
        return self.take(generation)


def hadoop_path(root: str, settings: Mapping[str, str] | None = None) -> HadoopPath:
    """Open the path of a URI such as `hdfs://namenode:8020/daggers/NAME`. Starts a JVM if there is none.

    settings: added to Hadoop's configuration, which has `spark.hadoop.*` already. Raises: JobError (EXTERNAL)
    for a store that cannot hold a checkpoint, or is unknown here.
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
    """Raise Java's errors as OSError, with their first lines."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as problem:
        text = str(problem.java_exception.toString()) if isinstance(problem, Py4JJavaError) else str(problem)
        line = text.splitlines()[0]
        raise FileNotFoundError(line) if "FileNotFoundException" in line else OSError(line) from None
