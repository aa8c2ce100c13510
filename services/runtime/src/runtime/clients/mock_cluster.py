"""A Kafka inside this process, for a warm-up run: librdkafka's own mock cluster, on a free port of loopback.

It answers all that a launch asks of one broker, forgets everything when it is closed, and nobody else is told
of it. Python's client has no way to start one, so it is called as `source.reader.native_library` calls the
rest of librdkafka: by way of that client's own copy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_char_p, c_int, c_int32, c_size_t, c_void_p
from typing import Any

from confluent_kafka import cimpl

from runtime.errors import internal

_PRODUCER = 0
_FUNCTIONS = {
    "rd_kafka_conf_new": ((), c_void_p),
    "rd_kafka_conf_set": ((c_void_p, c_char_p, c_char_p, c_char_p, c_size_t), c_int),
    "rd_kafka_new": ((c_int, c_void_p, c_char_p, c_size_t), c_void_p),
    "rd_kafka_destroy": ((c_void_p,), None),
    "rd_kafka_mock_cluster_new": ((c_void_p, c_int), c_void_p),
    "rd_kafka_mock_cluster_bootstraps": ((c_void_p,), c_char_p),
    "rd_kafka_mock_cluster_destroy": ((c_void_p,), None),
    "rd_kafka_mock_set_controller_id": ((c_void_p, c_int32), c_int),
    "rd_kafka_mock_topic_create": ((c_void_p, c_char_p, c_int, c_int), c_int),
}


@contextmanager
def opened(topics: Sequence[str]) -> Iterator[str]:
    """Its address, HOST:PORT, while it is open, with these topics of one partition.

    Raises: JobError (INTERNAL) where this librdkafka has none.
    """
    with started(topics) as (kafka, cluster):
        yield kafka.rd_kafka_mock_cluster_bootstraps(cluster).decode()


@contextmanager
def started(topics: Sequence[str]) -> Iterator[tuple[Any, Any]]:
    """The library and its mock cluster, as `opened`."""
    kafka = _library()
    error = ctypes.create_string_buffer(512)
    properties = kafka.rd_kafka_conf_new()
    kafka.rd_kafka_conf_set(properties, b"log_level", b"0", error, len(error))
    client = kafka.rd_kafka_new(_PRODUCER, properties, error, len(error))
    cluster = kafka.rd_kafka_mock_cluster_new(client, 1) if client else None
    if not cluster:
        raise internal("NO_MOCK_CLUSTER", f"librdkafka starts no mock cluster: {error.value.decode()}")
    try:
        kafka.rd_kafka_mock_set_controller_id(cluster, 1)  # who describes topics asks the controller
        for topic in topics:
            kafka.rd_kafka_mock_topic_create(cluster, topic.encode(), 1, 1)
        yield kafka, cluster
    finally:
        kafka.rd_kafka_mock_cluster_destroy(cluster)
        kafka.rd_kafka_destroy(client)


def _library() -> Any:
    library = ctypes.CDLL(cimpl.__file__)
    try:
        for name, (arguments, answer) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, answer
    except AttributeError as missing:
        raise internal("NO_MOCK_CLUSTER", f"This librdkafka has no mock cluster: {missing}") from None
    return library
