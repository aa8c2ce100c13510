"""Predict whether a dagger can start on the cluster that an edit moves it to. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec.master import parse
from fleet import Fleet

_NOT_SHARED: Final = (
    "CHECKPOINTS_NOT_SHARED: executors of cluster {} are on other hosts, cannot reach checkpoints on a disk"
    " of the scheduler, and it would not start: set DAGGERS_SCHEDULER_CHECKPOINT_ROOT to a place that all"
    " of them see first"
)


def warn_of_unshared_checkpoints(spec: spec_pb2.DaggerSpec, fleet: Fleet) -> Iterator[str]:
    """Yield a warning where each host has its checkpoints to itself, and the cluster is elsewhere."""
    entry = fleet.clusters.get(spec.cluster)
    master = None if entry is None else parse(entry.value.spark_master)
    hosts = [one for one in fleet.standings.values() if one.registered is not None and not one.is_gone]
    is_far = master is not None and not master.on_loopback
    if is_far and hosts and not any(one.shares_checkpoints for one in hosts):
        yield _NOT_SHARED.format(spec.cluster)
