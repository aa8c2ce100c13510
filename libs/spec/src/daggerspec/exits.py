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
"""The exit code of a JVM that was started to exit when its heap is full."""

OUT_OF_MEMORY: Final = "OUT_OF_MEMORY"
NO_EXECUTORS: Final = "NO_EXECUTORS"
"""Its Spark cluster gives it nothing to compute with."""
LOST: Final = "DRIVER_LOST"
"""The reason of a driver that left no exit code."""
KILLED: Final = "KILLED"
"""The reason of a driver that a signal ended, and that left no word."""
ENDED_WITH_DEPLOYMENT: Final = "ENDED_WITH_DEPLOYMENT"
"""The reason of a driver that its deployment ended: a container or a machine that was started anew, or a
stack that was taken down. Such an end is no attempt, and the next launch waits for nothing.
"""
PROCESS_LOST: Final = "PROCESS_LOST"
"""The reason of a launch that died with the process that it shared, and that was computing nothing then."""
NOT_THE_DRIVERS: Final = frozenset({ENDED_WITH_DEPLOYMENT, NO_EXECUTORS, PROCESS_LOST})
"""Reasons of ends that say nothing about a driver, but about what it stands on: they are no restart loop."""

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
    """Build the error of a full heap; `heap_mib` is its size, 0 if it is unknown."""
    size = f" of {heap_mib} MiB" if heap_mib else ""
    return events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_USER,
        reason=OUT_OF_MEMORY,
        detail=f"its heap{size} (driver_memory) was full: give it a larger driver_memory, keep its windows on"
        " disk (state: disk), shorten them, or group by less",
        retryable=True,
    )


def killed_for_memory() -> events_pb2.DaggerError:
    """Build the error of a driver of which the kernel has killed a process for memory, by its own count."""
    return events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_USER,
        reason=OUT_OF_MEMORY,
        detail="the kernel killed its driver for memory, by its own count: let its control group have"
        " more, run fewer drivers there, or give this one less driver_memory",
        retryable=True,
    )


def left_no_word(exited: events_pb2.Exited) -> bool:
    """Return whether a driver ended without an error of its own: cleanly, or killed before it wrote one."""
    return not exited.HasField("error") or exited.error.reason in (LOST, KILLED, PROCESS_LOST)


def is_deployments(error: events_pb2.DaggerError | None) -> bool:
    """Return whether an end was caused by the deployment, not by the driver."""
    return error is not None and error.reason == ENDED_WITH_DEPLOYMENT


def code(error: events_pb2.DaggerError) -> int:
    """Return the exit code of a driver that ends with an error."""
    if error.reason == MEANINGS[FENCED].reason:
        return FENCED
    return _CODES.get(error.domain, INTERNAL)
