"""Footprints of launches: what they take of host and cluster, as the specification says. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from daggers.v1 import spec_pb2


class Footprint(NamedTuple):
    """Share of one launch, whatever its dagger is asked to be since."""

    cluster: str = ""
    """Name of the cluster that it runs on."""
    heap_mib: int = 0
    """Heap of its driver in MiB; 0 where the dagger did not say one."""
    executors: bytes = b""
    """Executors of the dagger, as an encoded message."""

    @classmethod
    def of(cls, spec: spec_pb2.DaggerSpec) -> Self:
        """Return the footprint of a launch of this specification."""
        executors = spec.executors.SerializeToString(deterministic=True)
        return cls(spec.cluster, spec.driver_memory_mib, executors)


NOTHING: Final = Footprint()
"""Footprint of a dagger before its first launch."""
