"""What a launch takes of its host and of its cluster, as the specification says that it runs. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from daggers.v1 import spec_pb2


class Footprint(NamedTuple):
    """What one launch takes, whatever its dagger is asked to be since."""

    cluster: str = ""
    """Name of the cluster that it runs on."""
    heap_mib: int = 0
    """Heap of its driver in MiB; 0 where the dagger did not say one."""
    executors: bytes = b""
    """What the dagger said of its executors, an encoded Executors."""

    @classmethod
    def of(cls, spec: spec_pb2.DaggerSpec) -> Self:
        """Return the footprint of a launch of this specification."""
        executors = spec.executors.SerializeToString(deterministic=True)
        return cls(spec.cluster, spec.driver_memory_mib, executors)


NOTHING: Final = Footprint()
"""What a dagger takes before its first launch."""
