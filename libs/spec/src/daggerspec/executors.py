"""Executors that a dagger takes of its cluster: defaults, rules and bounds. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec.limits import MAX_DRIVER_MEMORY_MIB, MIN_DRIVER_MEMORY_MIB
from daggerspec.master import Manager, parse
from daggerspec.violation import Violation

CORES: Final = 1
"""Cores of an executor."""
MEMORY_MIB: Final = 1024
"""Heap of an executor."""
CORES_MAX: Final = 2
"""Cores of all executors of a dagger: nobody takes all of a cluster by saying nothing."""
MAX_CORES: Final = 10_000
"""More cores than that are a mistake."""
LOCAL_PARTITIONS: Final = 1
"""Partitions of the state of a dagger without executors: each costs milliseconds in every batch."""
WEB_PORT: Final = 8080
"""Port of a standalone master's pages, unless it is started with another."""
_BOUNDED: Final = (("count", "executors"), ("cores", "cores an executor"), ("memory_mib", "MiB an executor"))


@dataclass(frozen=True, slots=True)
class ExecutorShare:
    """Executors that a dagger takes."""

    count: int
    cores: int
    """Of each."""
    memory_mib: int
    """Heap of each."""

    @property
    def cores_max(self) -> int:
        """Cores of all."""
        return self.count * self.cores


def has_executors(cluster: spec_pb2.Cluster) -> bool:
    """Tell whether daggers of a cluster have executors of their own: its master is not local."""
    master = parse(cluster.spark_master)
    return master is not None and not master.is_local


def web_urls(cluster: spec_pb2.Cluster) -> tuple[str, ...]:
    """Return the URLs of the pages of a cluster's standalone masters; none for another kind of master."""
    master = parse(cluster.spark_master)
    if master is None or master.manager is not Manager.STANDALONE:
        return ()
    if cluster.spark_web_url:
        return (cluster.spark_web_url.rstrip("/"),)
    return tuple(f"http://{server.rpartition(':')[0]}:{WEB_PORT}" for server in master.servers)


def resolve(own: spec_pb2.Executors, default: spec_pb2.Executors) -> ExecutorShare:
    """Resolve what a dagger takes: what it says, else what its cluster says, else the defaults here."""
    cores = own.cores or default.cores or CORES
    memory_mib = own.memory_mib or default.memory_mib or MEMORY_MIB
    bound = own.cores_max or (0 if own.count else default.cores_max)
    count = own.count or (0 if own.cores_max else default.count)
    return ExecutorShare(count or max((bound or CORES_MAX) // cores, 1), cores, memory_mib)


def partitions(spec: spec_pb2.DaggerSpec, cluster: spec_pb2.Cluster) -> int:
    """Return the number of partitions that the state of a dagger has on a cluster: one for each core.

    An administrator's properties file may say otherwise, which only the driver knows.
    """
    if not has_executors(cluster):
        return LOCAL_PARTITIONS
    return resolve(spec.executors, cluster.executors).cores_max


def fill(spec: spec_pb2.DaggerSpec, cluster: spec_pb2.Cluster) -> None:
    """Fill in what a dagger takes, where it or its cluster says something of it."""
    if has_executors(cluster) and (spec.HasField("executors") or cluster.HasField("executors")):
        share = resolve(spec.executors, cluster.executors)
        filled = spec_pb2.Executors(count=share.count, cores=share.cores, memory_mib=share.memory_mib)
        spec.executors.CopyFrom(filled)


def cluster_violations(path: str, cluster: spec_pb2.Cluster) -> Iterator[Violation]:
    """Yield the violations of a cluster's defaults and bounds."""
    for name in ("executors", "executor_limits"):
        if cluster.HasField(name):
            yield from _plain(f"{path}.{name}", getattr(cluster, name))
    if (cluster.HasField("executors") or cluster.HasField("executor_limits")) and not has_executors(cluster):
        problem = f"has no meaning for Spark master {cluster.spark_master or 'none'!r}: it has no executors"
        name = "executors" if cluster.HasField("executors") else "executor_limits"
        yield Violation(f"{path}.{name}", problem, "NO_EXECUTORS_THERE")
        return
    yield from _over_bounds(f"{path}.executors", cluster.executors, spec_pb2.Executors(), cluster)


def violations(path: str, own: spec_pb2.Executors, cluster: spec_pb2.Cluster | None) -> Iterator[Violation]:
    """Yield the violations of what a dagger says of the executors of its cluster; where that is not
    registered, or has no Spark, those that show without it.
    """
    yield from _plain(path, own)
    if cluster is None or not cluster.spark_master:
        return
    if not has_executors(cluster):
        problem = (
            f"has no meaning on cluster {cluster.name}: Spark master {cluster.spark_master!r} computes in the"
            " driver; leave it out, or take a cluster with executors"
        )
        yield Violation(path, problem, "NO_EXECUTORS_THERE")
        return
    yield from _over_bounds(path, own, cluster.executors, cluster)


def _plain(path: str, own: spec_pb2.Executors) -> Iterator[Violation]:
    """Yield the violations that show without a cluster."""
    for name in ("count", "cores", "cores_max"):
        if getattr(own, name) > MAX_CORES:
            yield Violation(f"{path}.{name}", f"must not be more than {MAX_CORES:,}", "OUT_OF_RANGE")
    if own.memory_mib and not MIN_DRIVER_MEMORY_MIB <= own.memory_mib <= MAX_DRIVER_MEMORY_MIB:
        problem = f"must be from {MIN_DRIVER_MEMORY_MIB} to {MAX_DRIVER_MEMORY_MIB:,}: Spark refuses less"
        yield Violation(f"{path}.memory_mib", problem, "OUT_OF_RANGE")


def _over_bounds(
    path: str, own: spec_pb2.Executors, default: spec_pb2.Executors, cluster: spec_pb2.Cluster
) -> Iterator[Violation]:
    """Yield what is more than its own bound, or than a cluster gives one dagger."""
    share = resolve(own, default)
    if 0 < own.cores_max < share.cores_max:
        problem = (
            f"must be at least {share.cores_max:,}, for {share.count:,} executors of {share.cores:,} cores"
        )
        yield Violation(f"{path}.cores_max", problem, "OUT_OF_RANGE")
    for name, words in (*_BOUNDED, ("cores_max", "cores")):
        limit, takes = getattr(cluster.executor_limits, name), getattr(share, name)
        if limit and takes > limit:
            problem = (
                f"would be {takes:,} {words}, and cluster {cluster.name} gives a dagger {limit:,} at most"
            )
            yield Violation(f"{path}.{name}", problem, "EXECUTORS_OVER_LIMIT")
