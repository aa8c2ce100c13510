"""Load the C half of the native reader: built where a compiler is; Python's client reads without it.

    python -m runtime.source.reader.native_library

builds it, and the scanner of irregular records (`decode.scanning`).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from confluent_kafka import cimpl

from chassis.logging import logger
from runtime import compiled
from runtime.decode import scanning

SOURCE = Path(__file__).with_name("native_reader.c")


class ReaderStruct(Structure):
    """`reader` of the C file."""

    _fields_ = (
        ("consume_batch", c_void_p),
        ("destroy", c_void_p),
        ("timestamp", c_void_p),
        ("error_text", c_void_p),
        ("queue", c_void_p),
        ("waiting", POINTER(c_void_p)),
        ("count", c_size_t),
        ("next", c_size_t),
    )


class Piece(Structure):
    """`piece` of the C file."""

    _fields_ = tuple(
        (name, c_size_t) for name in ("records", "value_bytes", "key_bytes", "without_value", "without_key")
    )


class Binaries(Structure):
    """`binaries` of the C file."""

    _fields_ = tuple((name, c_void_p) for name in ("valid", "ends", "data"))


class Columns(Structure):
    """`columns` of the C file."""

    _fields_ = (("values", Binaries), ("keys", Binaries), ("offsets", c_void_p), ("times", c_void_p))


# Functions in use: their arguments, and what they return.
_READER = {
    "reader_fill": ((POINTER(ReaderStruct), c_int, c_size_t), c_ssize_t),
    "reader_measure": ((POINTER(ReaderStruct), c_size_t, POINTER(Piece)), None),
    "reader_take": ((POINTER(ReaderStruct), c_size_t, POINTER(Columns)), None),
    "reader_take_error": ((POINTER(ReaderStruct), POINTER(c_int64), c_char_p, c_size_t), c_int),
    "reader_drop": ((POINTER(ReaderStruct),), None),
    "reader_ignore": ((c_void_p, c_int, c_char_p, c_void_p), None),
}
_LIBRDKAFKA = {
    "rd_kafka_conf_new": ((), c_void_p),
    "rd_kafka_conf_set": ((c_void_p, c_char_p, c_char_p, c_char_p, c_size_t), c_int),
    "rd_kafka_conf_set_error_cb": ((c_void_p, c_void_p), None),
    "rd_kafka_conf_set_log_cb": ((c_void_p, c_void_p), None),
    "rd_kafka_conf_destroy": ((c_void_p,), None),
    "rd_kafka_new": ((c_int, c_void_p, c_char_p, c_size_t), c_void_p),
    "rd_kafka_destroy": ((c_void_p,), None),
    "rd_kafka_last_error": ((), c_int),
    "rd_kafka_poll_set_consumer": ((c_void_p,), c_int),
    "rd_kafka_consumer_close": ((c_void_p,), c_int),
    "rd_kafka_queue_get_consumer": ((c_void_p,), c_void_p),
    "rd_kafka_queue_destroy": ((c_void_p,), None),
    "rd_kafka_assign": ((c_void_p, c_void_p), c_int),
    "rd_kafka_topic_partition_list_new": ((c_int,), c_void_p),
    "rd_kafka_topic_partition_list_add": ((c_void_p, c_char_p, c_int32), c_void_p),
    "rd_kafka_topic_partition_list_set_offset": ((c_void_p, c_char_p, c_int32, c_int64), c_int),
    "rd_kafka_topic_partition_list_destroy": ((c_void_p,), None),
}
_PASSED = {
    "consume_batch": "rd_kafka_consume_batch_queue",
    "destroy": "rd_kafka_message_destroy",
    "timestamp": "rd_kafka_message_timestamp",
    "error_text": "rd_kafka_message_errstr",
}


class NativeLibrary:
    """The C file's functions as `reader`, and librdkafka's as `kafka`."""

    def __init__(self, built: Path) -> None:
        """Raises: OSError for what cannot be loaded; AttributeError for a librdkafka without a function."""
        self.reader = _declare(ctypes.CDLL(str(built)), _READER)
        # By way of Python's client: the very librdkafka it uses, wherever its wheel or a system keeps that.
        self.kafka = _declare(ctypes.CDLL(cimpl.__file__), _LIBRDKAFKA)
        self._passed = {
            name: ctypes.cast(getattr(self.kafka, function), c_void_p).value
            for name, function in _PASSED.items()
        }

    def waiting_room(self, queue: int, room: int) -> ReaderStruct:
        """Build a `reader` of this queue, which takes up to `room` messages at a time."""
        waiting = (c_void_p * room)()
        return ReaderStruct(**self._passed, queue=queue, waiting=waiting)


def _declare(library: ctypes.CDLL, functions: Mapping[str, tuple[Sequence[Any], Any]]) -> ctypes.CDLL:
    for name, (arguments, answer) in functions.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, answer
    return library


@cache
def load() -> NativeLibrary | None:
    """Load the library, once for each process; None where it was not built or does not load."""
    built = place()
    try:
        return NativeLibrary(built) if built.is_file() else None
    except (OSError, AttributeError) as problem:
        logger().warning("reader.library_skipped", library=built.name, why=str(problem))
        return None


def place(folder: Path = SOURCE.parent) -> Path:
    """Return the path of this version of the library."""
    return compiled.place(SOURCE, folder)


def build(folder: Path = SOURCE.parent) -> str:
    """Build it into a folder, unless it is there. Returns a sentence with the reason if it fails, else ""."""
    return compiled.build(SOURCE, NativeLibrary, folder)


if __name__ == "__main__":
    reason = build() or scanning.build()
    sys.stdout.write(f"{reason or place()}\n")
    sys.exit(1 if reason else 0)
