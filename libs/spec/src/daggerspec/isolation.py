"""Isolation of daggers: whether one shares a driver's process with others, as its specification says. Pure.

What its heartbeats say of it is judged in `fleet.decide.packing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from daggers.v1 import access_pb2, spec_pb2

from daggerspec import secrets
from daggerspec.executors import has_executors
from daggerspec.violation import Violation

Isolation: TypeAlias = spec_pb2.Isolation.ValueType
AUTO_MEANS: Final = spec_pb2.ISOLATION_DEDICATED
"""Isolation of daggers with ISOLATION_AUTO: this alone says whether they share processes unasked."""
TAKES_ENVIRONMENT: Final = "it takes a secret from the environment, which is one for a whole process"
"""Reason of a dagger that shares no process, a clause."""
_VALUES: Final = frozenset(spec_pb2.Isolation.values())


def resolve(spec: spec_pb2.DaggerSpec, team: access_pb2.Team | None) -> Isolation:
    """Resolve what a dagger says, else what its team says, to DEDICATED or SHARED."""
    requested = find_requested(spec, team)
    is_auto = requested in (spec_pb2.ISOLATION_UNSPECIFIED, spec_pb2.ISOLATION_AUTO)
    return AUTO_MEANS if is_auto else requested


def find_requested(spec: spec_pb2.DaggerSpec, team: access_pb2.Team | None) -> Isolation:
    """Return what a dagger says, else what its team says."""
    return spec.isolation or (team.isolation if team is not None else spec_pb2.ISOLATION_UNSPECIFIED)


def explain_alone(spec: spec_pb2.DaggerSpec, cluster: spec_pb2.Cluster | None) -> str:
    """Explain why a dagger can share a process in no case, in one clause; empty where it can.

    cluster: its own; None where that is not known.
    """
    if spec.HasField("forward"):
        return "it forwards records, and has a JVM with both compilers for that"
    if spec.driver_memory_mib:
        return "its driver_memory is its own"
    if spec.state == spec_pb2.STATE_STORE_DISK:
        return "it keeps its state on disk"
    if cluster is not None and cluster.spark_master and has_executors(cluster):
        return f"it has executors of cluster {cluster.name}"
    if any(reference.env for reference in secrets.references(spec)):
        return TAKES_ENVIRONMENT
    return ""


def value_violations(path: str, value: Isolation) -> Iterator[Violation]:
    """Yield the violation of a value that no isolation has."""
    if value not in _VALUES:
        yield Violation(path, f"{value} is not an isolation", "UNKNOWN_ENUM_VALUE")


def violations(path: str, spec: spec_pb2.DaggerSpec, cluster: spec_pb2.Cluster | None) -> Iterator[Violation]:
    """Yield the violations of what a dagger says of its isolation."""
    yield from value_violations(path, spec.isolation)
    if spec.isolation == spec_pb2.ISOLATION_SHARED and (why := explain_alone(spec, cluster)):
        yield Violation(path, f"cannot be SHARED: {why}", "CANNOT_SHARE")
