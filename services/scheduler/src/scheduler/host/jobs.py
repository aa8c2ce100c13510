"""Builds the jobs of host operations and previews from the control topic.

A caller names clusters, sinks and daggers, or gives a specification; addresses, secret references and schemas
are those of the control topic, checkpoints those of this host. All functions raise ApiError: NOT_FOUND for a
name that is not there, FAILED_PRECONDITION for a reference that cannot be resolved.
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
from daggerspec.catalogue import UnresolvedName
from daggerspec.defaults import SINKS_TESTED
from fleet import Fleet
from fleet.fold import resolve
from fleet.fold.answers import missing
from fleet.fold.dagger import create_dagger
from fleet.fold.resolve import FleetCatalogue
from scheduler.drivers import retention


def build_stream_job(fleet: Fleet, stream: spec_pb2.Stream, messages: list[str]) -> spec_pb2.JobSpec:
    """Build a job with the Kafka address of a stream, and the descriptors of `messages`.

    Raises: ApiError.
    """
    cluster = fleet.clusters.get(stream.cluster)
    if cluster is None:
        raise _build_not_found_error("cluster", stream.cluster)
    job = spec_pb2.JobSpec(streams=[spec_pb2.ResolvedStream(stream=stream, kafka=cluster.value.kafka)])
    with _refusing_unresolved(message=stream.message):
        resolve.place_secrets(job, fleet)
        if messages:
            job.descriptors.CopyFrom(resolve.descriptors(fleet, messages))
    return job


def build_sink_job(fleet: Fleet, name: str, egress: spec_pb2.Egress) -> spec_pb2.JobSpec:
    """Build a job with a registered sink only, once for each address that teams write to by it.

    egress: limits on connections to addresses that no administrator registered. Raises: ApiError.
    """
    registered = FleetCatalogue(fleet).sink(name)
    kind = sinks.kind_of(registered.sink) if registered else None
    if registered is None or kind is None:
        raise _build_not_found_error("sink", name)
    team = next(iter(registered.teams), "")
    job = spec_pb2.JobSpec(dagger=SINKS_TESTED, spec=spec_pb2.DaggerSpec(team=team))
    teams_with_address = [address.team for address in registered.by_team]
    shared = [team for team in registered.teams if team not in teams_with_address] or [""] * (
        not registered.teams
    )
    for team in (*shared[:1], *teams_with_address):  # all others write to the address of the first
        spec = spec_pb2.DaggerSpec(team=team)
        sink = spec_pb2.Sink(
            registered=name, name=f"{name} for {team}" if team in teams_with_address else name
        )
        getattr(sink, kind).SetInParent()
        with _refusing_unresolved():
            resolved = resolve.sink(fleet, SINKS_TESTED, spec, sink)
            if resolved.HasField("egress"):
                resolved.egress.CopyFrom(egress)
            resolve.place_secrets(resolved, fleet)
        job.spec.sinks.append(sink)
        job.sinks.append(resolved)
    return job


def build_spec_job(
    fleet: Fleet,
    name: str,
    spec: spec_pb2.DaggerSpec,
    *,
    now: datetime,
    generation: int = 1,
    egress: spec_pb2.Egress | None = None,
) -> spec_pb2.JobSpec:
    """Build the launch job of a dagger that need not exist, without checkpoint and platform.

    egress: limits on connections to addresses that no administrator registered. Raises: ApiError.
    """
    request = events_pb2.DaggerRequested(name=name, spec=spec)
    with _refusing_unresolved():
        return resolve.job(
            fleet,
            create_dagger(request, fleet.sequence, now),
            generation,
            platform=spec_pb2.KafkaAddress(),
            checkpoint_root="",
            run_dir="",
            egress=egress,
        )


def build_launch_job(
    fleet: Fleet,
    name: str,
    create_sequence: int,
    checkpoints: str,
    *,
    platform: spec_pb2.KafkaAddress | None = None,
    spec: spec_pb2.DaggerSpec | None = None,
) -> spec_pb2.JobSpec:
    """Build the job of a dagger's next launch. Raises: ApiError.

    create_sequence: tells the dagger from deleted ones of its name. checkpoints: root of all daggers'
    checkpoints. spec: replaces the dagger's own, for the plan of an edit.
    """
    dagger = fleet.living(name)
    if dagger is None or dagger.create_sequence != create_sequence:
        raise _build_not_found_error("dagger", name)
    with _refusing_unresolved():
        return resolve.job(
            fleet,
            dagger if spec is None else replace(dagger, spec=spec),
            max(dagger.generation, 1),
            platform=platform or spec_pb2.KafkaAddress(),
            checkpoint_root=retention.checkpoint_root(checkpoints, dagger),
            run_dir="",
        )


def _build_not_found_error(kind: str, name: str) -> ApiError:
    refusal = missing(kind, name)
    return ApiError(grpc.StatusCode.NOT_FOUND, refusal.reason, refusal.detail, refusal.metadata)


@contextmanager
def _refusing_unresolved(**metadata: str) -> Iterator[None]:
    """Turn UnresolvedName inside the block into ApiError (FAILED_PRECONDITION) with `metadata`."""
    try:
        yield
    except UnresolvedName as error:
        code = grpc.StatusCode.FAILED_PRECONDITION
        raise ApiError(code, error.reason, error.detail, metadata) from error
