"""With what a driver exits, and what each code means where the driver could say no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from daggers.v1 import events_pb2

USER: Final = 64
EXTERNAL: Final = 69
INTERNAL: Final = 70
FENCED: Final = 75
HEAP_FULL: Final = 3
"""What a JVM ends with that was told to exit when its heap is full."""

OUT_OF_MEMORY: Final = "OUT_OF_MEMORY"
NO_EXECUTORS: Final = "NO_EXECUTORS"
"""Its Spark cluster gives it nothing to compute with."""

MEANINGS: Final[Mapping[int, events_pb2.DaggerError]] = {
    USER: events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_USER,
        reason="USER_ERROR",
        detail="the dagger cannot run as it is written; its log says why",
    ),
    EXTERNAL: events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_EXTERNAL,
        reason="EXTERNAL_ERROR",
        detail="Kafka, Spark or a sink failed; its log says how",
        retryable=True,
    ),
    INTERNAL: events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_INTERNAL,
        reason="INTERNAL_ERROR",
        detail="its driver failed; its log says how",
        retryable=True,
    ),
    # Not retryable: a newer generation runs already.
    FENCED: events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_INTERNAL, reason="FENCED", detail="a newer generation holds its lease"
    ),
}
_CODES: Final = {
    events_pb2.ERROR_DOMAIN_USER: USER,
    events_pb2.ERROR_DOMAIN_EXTERNAL: EXTERNAL,
    events_pb2.ERROR_DOMAIN_INTERNAL: INTERNAL,
}


def heap_full(heap_mib: int = 0) -> events_pb2.DaggerError:
    """What a full heap is called, by whoever sees it; `heap_mib` is its size, 0 when it is not known."""
    size = f" of {heap_mib} MiB" if heap_mib else ""
    return events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_USER,
        reason=OUT_OF_MEMORY,
        detail=f"its heap{size} (driver_memory) was full: give it a larger driver_memory, keep its windows on"
        " disk (state: disk), shorten them, or group by less",
        retryable=True,
    )


def code(error: events_pb2.DaggerError) -> int:
    """The exit code of a driver that ends with an error."""
    if error.reason == MEANINGS[FENCED].reason:
        return FENCED
    return _CODES.get(error.domain, INTERNAL)
