"""The launch that would follow of a dagger, for processes that look at what it would read."""

from __future__ import annotations

from dataclasses import replace

import grpc
from daggers.v1 import spec_pb2

from chassis.errors import ApiError
from daggerspec.catalogue import Unresolved
from fleet import Fleet
from fleet.fold import resolve
from fleet.fold.answers import missing
from scheduler.drivers import retention


def job_of(
    fleet: Fleet,
    name: str,
    create_sequence: int,
    checkpoints: str,
    *,
    platform: spec_pb2.KafkaAddress | None = None,
    spec: spec_pb2.DaggerSpec | None = None,
) -> spec_pb2.JobSpec:
    """What a driver would be told. Raises: ApiError.

    `create_sequence`: the dagger that is meant, of those that had the name. `checkpoints`: the root of all
    daggers' checkpoints. `spec`: what it would be, in place of what it is.
    """
    dagger = fleet.living(name)
    if dagger is None or dagger.create_sequence != create_sequence:
        refused = missing("dagger", name)
        raise ApiError(grpc.StatusCode.NOT_FOUND, refused.reason, refused.detail, refused.metadata)
    try:
        return resolve.job(
            fleet,
            dagger if spec is None else replace(dagger, spec=spec),
            max(dagger.generation, 1),
            platform=platform or spec_pb2.KafkaAddress(),
            checkpoint_root=retention.checkpoint_root(checkpoints, dagger),
            run_dir="",
        )
    except Unresolved as error:
        code = grpc.StatusCode.FAILED_PRECONDITION
        raise ApiError(code, error.reason, error.detail, {}) from error
