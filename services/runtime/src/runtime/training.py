"""The CDS training run: a short job without Kafka, in which the JVM loads the classes that a driver needs.

`runtime.appcds_home` submits it to Spark once, and keeps those classes. What a driver does and this does not
costs a driver time, and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.streaming.listener import StreamingQueryListener

from runtime.source import warmup_source
from runtime.spark import session as spark

BATCHES = 4
_SCHEMA = pa.schema(
    [
        ("rowtime", pa.timestamp("us", "UTC")),
        ("city", pa.string()),
        ("fare", pa.float64()),
        ("tags", pa.list_(pa.string())),
    ]
)
_SQL = """
SELECT w.end AS window_timestamp, city, count(1) AS bookings, sum(fare) AS fares, max(size(tags)) AS tags
FROM (SELECT window(rowtime, '60 seconds') AS w, city, fare, tags FROM data_stream WHERE city <> '')
GROUP BY w, city HAVING count(1) > 0"""
_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class _Minutes(DataSource):
    """One minute of event time in each batch."""

    @classmethod
    def name(cls) -> str:
        return "minutes"

    def schema(self) -> str:
        return "rowtime timestamp, city string, fare double, tags array<string>"

    def streamReader(self, schema: object) -> _MinutesReader:  # noqa: N802 - Spark's signature
        return _MinutesReader()


class _MinutesReader(DataSourceStreamReader):
    """Two partitions, ten rows each."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"minute": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        del limit
        return {"minute": start["minute"] + 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        del start
        return [InputPartition((end["minute"], part)) for part in range(2)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        minute, part = partition.value
        rowtime = _NOON + timedelta(minutes=minute, seconds=part)
        rows = [{"rowtime": rowtime, "city": str(city), "fare": 1.5, "tags": ["a"]} for city in range(10)]
        yield pa.RecordBatch.from_pylist(rows, _SCHEMA)


class _Progress(StreamingQueryListener):
    """Takes the query's events, as a driver does."""

    def onQueryStarted(self, event: object) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryProgress(self, event: object) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryTerminated(self, event: object) -> None:  # noqa: N802 - Spark's name
        pass


def main(checkpoint: str) -> None:
    """Run `BATCHES` batches of a windowed count."""
    session = spark.start()
    spark.checkpoint_locally(session)
    warmup_source.read(session)
    session.streams.addListener(_Progress())
    session.dataSource.register(_Minutes)
    rows = session.readStream.format("minutes").load().withWatermark("rowtime", "1 seconds")
    rows.createOrReplaceTempView("data_stream")
    query = (
        session.sql(_SQL)
        .writeStream.outputMode("append")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="200 milliseconds")
        .foreachBatch(_batch)
        .start()
    )
    while query.isActive and (query.lastProgress is None or query.lastProgress["batchId"] < BATCHES):
        query.awaitTermination(1)
    query.stop()
    session.stop()


def _batch(rows: DataFrame, batch_id: int) -> None:
    del batch_id
    rows.mapInArrow(_same, rows.schema).collect()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    main(sys.argv[1])
