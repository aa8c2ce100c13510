"""Run librdkafka's mock cluster inside this process, for a warm-up run, on a free port of loopback.

It answers everything that a launch needs of one broker, and stores nothing after it is closed. Python's
client cannot start one, so it is called by `ctypes` in that client's own copy of librdkafka, as
`source.reader.native_library` does.
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
def run_cluster(topics: Sequence[str]) -> Iterator[str]:
    """Run a cluster with these topics of one partition each, and yield its address, HOST:PORT.

    Raises: JobError (INTERNAL) where this librdkafka has none.
    """
    with start_cluster(topics) as (kafka, cluster):
        yield kafka.rd_kafka_mock_cluster_bootstraps(cluster).decode()


@contextmanager
def start_cluster(topics: Sequence[str]) -> Iterator[tuple[Any, Any]]:
    """Run a cluster with these topics, and yield the library and the handle of the cluster.

    Raises: JobError (INTERNAL) where this librdkafka has none.
    """
    kafka = _library()
    error = ctypes.create_string_buffer(512)
    properties = kafka.rd_kafka_conf_new()
    kafka.rd_kafka_conf_set(properties, b"log_level", b"0", error, len(error))
    client = kafka.rd_kafka_new(_PRODUCER, properties, error, len(error))
    cluster = kafka.rd_kafka_mock_cluster_new(client, 1) if client else None
    if not cluster:
        raise internal("NO_MOCK_CLUSTER", f"librdkafka starts no mock cluster: {error.value.decode()}")
    try:
        kafka.rd_kafka_mock_set_controller_id(cluster, 1)  # topics are described by the controller
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
