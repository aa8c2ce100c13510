"""Builds the jobs of processes that look at something for a caller, by the control topic.

A caller names clusters, sinks and daggers, or gives a specification; addresses, places of secrets, schemas
and checkpoints are those that this host has read or has itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

import grpc
from daggers.v1 import events_pb2, spec_pb2

from chassis.errors import ApiError
from daggerspec import sinks
from daggerspec.catalogue import Unresolved
from daggerspec.defaults import SINKS_TESTED
from fleet import Fleet
from fleet.fold import resolve
from fleet.fold.answers import missing
from fleet.fold.dagger import created
from fleet.fold.resolve import Registered
from scheduler.drivers import retention


def of_stream(fleet: Fleet, stream: spec_pb2.Stream, messages: list[str]) -> spec_pb2.JobSpec:
    """Build a job with where the topics of a stream are, and the messages that may be in them.

    Raises: ApiError.
    """
    cluster = fleet.clusters.get(stream.cluster)
    if cluster is None:
        raise _not_found("cluster", stream.cluster)
    job = spec_pb2.JobSpec(streams=[spec_pb2.ResolvedStream(stream=stream, kafka=cluster.value.kafka)])
    with _refusing_unresolved(message=stream.message):
        resolve.place_secrets(job, fleet)
        if messages:
            job.descriptors.CopyFrom(resolve.descriptors(fleet, messages))
    return job


def of_registered_sink(fleet: Fleet, name: str, egress: spec_pb2.Egress) -> spec_pb2.JobSpec:
    """Build a job with nothing but a registered sink, once for each place that teams write to by it.

    `egress` holds the connections to addresses that no administrator registered. Raises: ApiError.
    """
    registered = Registered(fleet).sink(name)
    kind = sinks.kind_of(registered.sink) if registered else None
    if registered is None or kind is None:
        raise _not_found("sink", name)
    team = next(iter(registered.teams), "")
    job = spec_pb2.JobSpec(dagger=SINKS_TESTED, spec=spec_pb2.DaggerSpec(team=team))
    own = [address.team for address in registered.by_team]
    shared = [team for team in registered.teams if team not in own] or [""] * (not registered.teams)
    for team in (*shared[:1], *own):  # all others write where the first of them does
        spec = spec_pb2.DaggerSpec(team=team)
        sink = spec_pb2.Sink(registered=name, name=f"{name} for {team}" if team in own else name)
        getattr(sink, kind).SetInParent()
        with _refusing_unresolved():
            resolved = resolve.sink(fleet, SINKS_TESTED, spec, sink)
            if resolved.HasField("egress"):
                resolved.egress.CopyFrom(egress)
            resolve.place_secrets(resolved, fleet)
        job.spec.sinks.append(sink)
        job.sinks.append(resolved)
    return job


def of_spec(
    fleet: Fleet,
    name: str,
    spec: spec_pb2.DaggerSpec,
    *,
    now: datetime,
    generation: int = 1,
    egress: spec_pb2.Egress | None = None,
) -> spec_pb2.JobSpec:
    """Build the launch of a dagger that need not be there, without checkpoint and platform.

    `egress` as in `of_registered_sink`. Raises: ApiError.
    """
    request = events_pb2.DaggerRequested(name=name, spec=spec)
    with _refusing_unresolved():
        return resolve.job(
            fleet,
            created(request, fleet.sequence, now),
            generation,
            platform=spec_pb2.KafkaAddress(),
            checkpoint_root="",
            run_dir="",
            egress=egress,
        )


def of_next_launch(
    fleet: Fleet,
    name: str,
    create_sequence: int,
    checkpoints: str,
    *,
    platform: spec_pb2.KafkaAddress | None = None,
    spec: spec_pb2.DaggerSpec | None = None,
) -> spec_pb2.JobSpec:
    """Build the launch that would follow of a dagger. Raises: ApiError.

    `create_sequence`: the dagger that is meant, of those that had the name. `checkpoints`: the root of all
    daggers' checkpoints. `spec`: what it would be, in place of what it is.
    """
    dagger = fleet.living(name)
    if dagger is None or dagger.create_sequence != create_sequence:
        raise _not_found("dagger", name)
    with _refusing_unresolved():
        return resolve.job(
            fleet,
            dagger if spec is None else replace(dagger, spec=spec),
            max(dagger.generation, 1),
            platform=platform or spec_pb2.KafkaAddress(),
            checkpoint_root=retention.checkpoint_root(checkpoints, dagger),
            run_dir="",
        )


def _not_found(kind: str, name: str) -> ApiError:
    refusal = missing(kind, name)
    return ApiError(grpc.StatusCode.NOT_FOUND, refusal.reason, refusal.detail, refusal.metadata)


@contextmanager
def _refusing_unresolved(**metadata: str) -> Iterator[None]:
    """Turn what cannot be resolved inside the block into a caller's refusal. Raises: ApiError."""
    try:
        yield
    except Unresolved as error:
        code = grpc.StatusCode.FAILED_PRECONDITION
        raise ApiError(code, error.reason, error.detail, metadata) from error
