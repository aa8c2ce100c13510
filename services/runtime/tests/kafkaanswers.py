"""A broker of librdkafka's own, which answers Produce requests as it is told: no real one does on demand."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from runtime.clients import mock_cluster

PRODUCE: Final = 0
_MANY: Final = 1_000
_FURTHER: Final = {
    "rd_kafka_mock_push_request_errors_array": (ctypes.c_void_p, ctypes.c_int16, ctypes.c_size_t),
    "rd_kafka_mock_clear_request_errors": (ctypes.c_void_p, ctypes.c_int16),
}


@dataclass(frozen=True)
class Broker:
    """One with a topic `t`."""

    address: str
    _cluster: Any
    _library: Any

    def answers(self, *codes: int) -> None:
        """Answer the next requests by these codes of errors, 0 being none."""
        push = self._library.rd_kafka_mock_push_request_errors_array
        push(self._cluster, PRODUCE, len(codes), (ctypes.c_int * len(codes))(*codes))

    def always_answers(self, code: int) -> None:
        """Answer by this code for a long time."""
        self.answers(*[code] * _MANY)

    def recovers(self) -> None:
        """Answer as a broker does that takes all."""
        self._library.rd_kafka_mock_clear_request_errors(self._cluster, PRODUCE)


@contextmanager
def answering() -> Iterator[Broker]:
    """A broker while the block runs."""
    with mock_cluster.start_cluster(["t"]) as (library, cluster):
        for name, types in _FURTHER.items():
            getattr(library, name).argtypes = [*types, *([ctypes.c_void_p] if "push" in name else [])]
        yield Broker(library.rd_kafka_mock_cluster_bootstraps(cluster).decode(), cluster, library)
