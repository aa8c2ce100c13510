"""Read a source without rows, so that every kind of Python process that reads a stream is started.

Those who unpickle it have imported what a stream's reader needs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import LongType, StructType

from runtime.source import datasource as _needed  # noqa: F401 - see above
from runtime.source import quiet_shutdown

_NAME = "daggers.warmup"


def read(session: SparkSession) -> None:
    """Start the processes; they are Spark's own to keep."""
    session.dataSource.register(_WarmupSource)
    session.read.format(_NAME).load().collect()


class _WarmupSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> StructType:
        return StructType().add("empty", LongType())

    def reader(self, schema: StructType) -> DataSourceReader:
        quiet_shutdown.expect()
        return _WarmupReader()


class _WarmupReader(DataSourceReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return iter(())
