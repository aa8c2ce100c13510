"""Where a reader begins, decided before the query starts and kept in its checkpoint directory.

After a crash in the first batch Spark asks for the initial offset again; asked of Kafka again, `latest` would
skip what lay between.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from daggers.v1 import spec_pb2
from pyspark.sql import SparkSession

from runtime.decode.decoder import Decoder
from runtime.source.broker import Broker
from runtime.source.offsets import Offsets, Partition, Positions
from runtime.source.rows import event_times

# Records read before the start to learn how new what is skipped is.
_SAMPLE = 200


def decided(spark: SparkSession, checkpoint: str, key: str, decide: Callable[[], Offsets]) -> Offsets:
    """What was decided for the reader `key`; decided now, and written in one step, if it was not before."""
    context = spark.sparkContext
    jvm, configuration = context._jvm, context._jsc.hadoopConfiguration()  # noqa: SLF001 - Spark's own way to Hadoop's file systems
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/source-start/{quote(key, safe='')}.json")
    files = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.create(
        path.getParent(), configuration
    )
    if files.exists(path):
        stream = files.open(path)
        try:
            text = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return Offsets.from_json(json.loads(text))
    start = decide()
    files.mkdirs(path.getParent())
    stream = files.createAtomic(path, False)
    stream.write(bytearray(json.dumps(start.as_json()).encode()))
    stream.close()
    return start


def decide(
    properties: Mapping[str, str],
    group: str,
    topics: Sequence[str],
    start: int | str,
    decoder: Decoder,
    tolerance_ms: int,
) -> Offsets:
    """Asks Kafka where these topics begin for a reader that has read nothing yet.

    `start` is as from `asked`; `decoder` decodes event times, which are ahead by at most `tolerance_ms`.
    Raises `JobError`.
    """
    broker = Broker(properties, group)
    try:
        known = broker.topics(topics)
        partitions = [partition for topic in known.values() for partition in topic.partitions]
        positions = _positions(broker, partitions, start)
        newest = _newest(broker, {p: positions[p] for p in skips(positions)}, decoder, tolerance_ms)
    finally:
        broker.close()
    ids = {name: topic.id for name, topic in known.items()}
    return Offsets(ids, positions, complete_from=0 if newest is None else newest + 1)


def _positions(broker: Broker, partitions: Sequence[Partition], start: int | str) -> dict[Partition, int]:
    if start == "earliest":
        return broker.first(partitions)
    end = broker.end(partitions)
    return end if isinstance(start, str) else {**end, **broker.first_at(start, partitions)}


def _newest(broker: Broker, skipped: Positions, decoder: Decoder, tolerance_ms: int) -> int | None:
    """The newest event time (us) among the last records that are skipped, None where none is readable."""
    before = {partition: max(0, offset - _SAMPLE) for partition, offset in skipped.items()}
    now_ms = int(time.time() * 1000)
    times = [
        micros
        for partition, messages in (broker.samples(before, _SAMPLE) if before else {}).items()
        for message, micros in event_times(messages, decoder, now_ms, tolerance_ms)
        if int(message.offset() or 0) < skipped[partition]
    ]
    return max(times, default=None)


def asked(start: spec_pb2.StartPosition, override: datetime | None) -> int | str:
    """What a start position asks for: "earliest", "latest", or a Kafka time in ms since the epoch.

    `override` (aware) is what the job asks for instead: an edited dagger starts far enough back.
    """
    if override is not None:
        return int(override.timestamp() * 1000)
    match start.WhichOneof("position"):
        case "earliest" if start.earliest:
            return "earliest"
        case "at":
            return int(start.at.ToDatetime(tzinfo=UTC).timestamp() * 1000)
        case _:
            return "latest"


def skips(start: Positions) -> frozenset[Partition]:
    """The partitions of which something was skipped: those that do not begin with their first record ever."""
    return frozenset(partition for partition, offset in start.items() if offset > 0)
