"""Predict what becomes of a dagger's state at an edit that moves it to another cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import executors
from daggerspec.master import parse
from fleet import Fleet

_DIVIDED: Final = (
    "; its state is divided anew at the start, from {} into {}, one for each core: that takes seconds, and"
    " loses nothing"
)
_UNDIVIDED: Final = (
    "; its state is in memory and stays in {}, so that it computes on as many cores, where {} would use all:"
    " with `state: disk` in the same edit its open windows are read again once, and divided from then on"
)
_TOO_MANY: Final = (
    "; its state is in memory and stays in {}, where {} would do: each of them costs milliseconds in a batch"
)
_NOT_SHARED: Final = (
    "CHECKPOINTS_NOT_SHARED: executors of cluster {} are on other hosts, cannot reach checkpoints on a disk"
    " of the scheduler, and it would not start: set DAGGERS_SCHEDULER_CHECKPOINT_ROOT to a place that all"
    " of them see first"
)


def describe_division(
    before: spec_pb2.DaggerSpec, after: spec_pb2.DaggerSpec, fleet: Fleet, *, on_disk: bool
) -> str:
    """Describe how the next driver divides the state that it goes on with, or what is lost where it cannot.

    The rest of a sentence; empty where there are as many cores as before. on_disk: Spark divides no other.
    """
    old, new = (_partitions(spec, fleet) for spec in (before, after))
    if old == new or not (old and new):
        return ""
    text = _DIVIDED if on_disk else _UNDIVIDED if old < new else _TOO_MANY
    return text.format(*map(_count, (old, new)))


def warn_of_unshared_checkpoints(spec: spec_pb2.DaggerSpec, fleet: Fleet) -> Iterator[str]:
    """Yield a warning where each host has its checkpoints to itself, and the cluster is elsewhere."""
    cluster = _cluster(spec, fleet)
    master = parse(cluster.spark_master)
    hosts = [one for one in fleet.standings.values() if one.registered is not None and not one.is_gone]
    is_far = master is not None and not master.on_loopback
    if is_far and hosts and not any(one.shares_checkpoints for one in hosts):
        yield _NOT_SHARED.format(cluster.name)


def _partitions(spec: spec_pb2.DaggerSpec, fleet: Fleet) -> int:
    """Return the number of partitions of a dagger's state; 0 where its cluster has no Spark."""
    cluster = _cluster(spec, fleet)
    return executors.partitions(spec, cluster) if cluster.spark_master else 0


def _cluster(spec: spec_pb2.DaggerSpec, fleet: Fleet) -> spec_pb2.Cluster:
    entry = fleet.clusters.get(spec.cluster)
    return spec_pb2.Cluster() if entry is None else entry.value


def _count(partitions: int) -> str:
    return f"{partitions:,} partition{'s' if partitions > 1 else ''}"
