"""Read a partition without a Python object for a record: messages are put into Arrow's buffers in C.

The client is a handle of librdkafka of its own, made from the same properties as Python's client makes one.
The handle inside Python's client is in no interface: where it lies there may change with any version.
"""

from __future__ import annotations

import ctypes
import weakref
from ctypes import byref, c_int64

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from runtime.source.offsets import Partition
from runtime.source.reader.native_library import Binaries, Columns, NativeLibrary, Piece, ReaderStruct
from runtime.source.records import LIMITS, Limits, Notice, Properties, Records

_CONSUMER = 1  # RD_KAFKA_CONSUMER
_TEXT = 512


class NativeConsumer:
    """A client of one partition at a time; see `consumers.RecordConsumer`. Raises: KafkaException."""

    def __init__(
        self,
        library: NativeLibrary,
        properties: Properties,
        partition: Partition,
        limits: Limits = LIMITS,
    ) -> None:
        self._library, self._partition = library, partition
        self._limits = limits
        self._handle = _handle(library, properties)
        library.kafka.rd_kafka_poll_set_consumer(self._handle)
        queue = library.kafka.rd_kafka_queue_get_consumer(self._handle)
        self._reader = library.waiting_room(queue, limits.records)
        # A handle that is only forgotten goes on fetching. At the end of the process nobody waits for it.
        self._ended = weakref.finalize(self, _end, library, self._handle, self._reader)
        self._ended.atexit = False

    def move(self, partition: Partition) -> None:
        """Read this partition from the next `assign` on."""
        self._partition = partition

    def assign(self, offset: int) -> None:
        """Make the next record the first one from `offset` on."""
        kafka, topic, number = self._library.kafka, self._partition.topic.encode(), self._partition.number
        self._library.reader.reader_drop(byref(self._reader))
        partitions = kafka.rd_kafka_topic_partition_list_new(1)
        kafka.rd_kafka_topic_partition_list_add(partitions, topic, number)
        kafka.rd_kafka_topic_partition_list_set_offset(partitions, topic, number, offset)
        code = kafka.rd_kafka_assign(self._handle, partitions)
        kafka.rd_kafka_topic_partition_list_destroy(partitions)
        if code:
            raise KafkaException(KafkaError(code))

    def unassign(self) -> None:
        """Fetch no more, until it is assigned again."""
        self._library.reader.reader_drop(byref(self._reader))
        if code := self._library.kafka.rd_kafka_assign(self._handle, None):
            raise KafkaException(KafkaError(code))

    def next(self, count: int, timeout_s: float) -> Records | Notice | None:
        """Return what comes next, up to `count` records; None when nothing came for a while."""
        reader, piece = self._library.reader, Piece()
        waiting = reader.reader_fill(
            byref(self._reader), int(timeout_s * 1000), min(count, self._limits.records)
        )
        if waiting < 0:
            raise KafkaException(KafkaError(self._library.kafka.rd_kafka_last_error()))
        if not waiting:
            return None
        reader.reader_measure(byref(self._reader), self._limits.bytes, byref(piece))
        return self._records(piece) if piece.records else self._notice()

    def close(self) -> None:
        """Close its connections."""
        self._ended()

    def _records(self, piece: Piece) -> Records:
        offsets, times = np.empty(piece.records, np.int64), np.empty(piece.records, np.int64)
        values = _Buffers(piece.records, piece.value_bytes, piece.without_value)
        keys = _Buffers(piece.records, piece.key_bytes, piece.without_key)
        columns = Columns(values.addresses(), keys.addresses(), offsets.ctypes.data, times.ctypes.data)
        self._library.reader.reader_take(byref(self._reader), piece.records, byref(columns))
        return Records(offsets, times, values.array(), keys.array())

    def _notice(self) -> Notice:
        offset, text = c_int64(), ctypes.create_string_buffer(_TEXT)
        code = self._library.reader.reader_take_error(byref(self._reader), byref(offset), text, _TEXT)
        return Notice(KafkaError(code, text.value.decode(errors="replace")), offset.value)


class _Buffers:
    """Room for an Arrow array of binaries."""

    def __init__(self, records: int, size: int, missing: int) -> None:
        self._records, self._missing = records, missing
        # Of nothing but NULLs there are as few bytes as of nothing at all.
        self._valid = pa.py_buffer(bytearray((records + 7) // 8)) if missing else None
        self._ends = pa.allocate_buffer(4 * (records + 1))
        self._data = pa.allocate_buffer(size)

    def addresses(self) -> Binaries:
        """Return the addresses where the C file is to write."""
        return Binaries(self._valid and self._valid.address, self._ends.address, self._data.address)

    def array(self) -> pa.BinaryArray:
        """Build the array of what it has written there."""
        buffers = [self._valid, self._ends, self._data]
        return pa.BinaryArray.from_buffers(pa.binary(), self._records, buffers, self._missing)


def _handle(library: NativeLibrary, properties: Properties) -> int:
    """Make a handle with these properties; errors of librdkafka are those that Python's client raises."""
    kafka, text = library.kafka, ctypes.create_string_buffer(_TEXT)
    configuration = kafka.rd_kafka_conf_new()
    kafka.rd_kafka_conf_set_error_cb(configuration, library.reader.reader_ignore)
    # It would write into driver.log past what hides secrets; the planner's clients, which talk to the same
    # brokers, log what is wrong with them.
    kafka.rd_kafka_conf_set_log_cb(configuration, library.reader.reader_ignore)
    for name, value in properties.items():
        text_value = str(value).lower() if isinstance(value, bool) else str(value)
        if kafka.rd_kafka_conf_set(configuration, name.encode(), text_value.encode(), text, _TEXT):
            kafka.rd_kafka_conf_destroy(configuration)
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text.value.decode(errors="replace")))  # noqa: SLF001 - the library names its local errors so
    handle: int | None = kafka.rd_kafka_new(_CONSUMER, configuration, text, _TEXT)
    if handle is None:
        code = kafka.rd_kafka_last_error()
        kafka.rd_kafka_conf_destroy(configuration)
        why = text.value.decode(errors="replace")
        raise KafkaException(KafkaError(code, f"Failed to create consumer: {why}"))
    return handle


def _end(library: NativeLibrary, handle: int, reader: ReaderStruct) -> None:
    library.reader.reader_drop(byref(reader))
    library.kafka.rd_kafka_consumer_close(handle)
    library.kafka.rd_kafka_queue_destroy(reader.queue)
    library.kafka.rd_kafka_destroy(handle)
