"""Labels of executors' pods on Kubernetes, by which a driver finds what an earlier one left behind. Pure."""

from __future__ import annotations

import hashlib
from typing import Final

from daggers.v1 import spec_pb2

DAGGER: Final = "daggers/dagger"
"""Name of the dagger, for people."""
GENERATION: Final = "daggers/generation"
"""Generation of the driver that asked for the pod."""
LEASE: Final = "daggers/lease"
"""Digest of what drivers of one dagger have in common, and no other dagger has: the place of its lease."""
PROPERTY: Final = "spark.kubernetes.executor.label."
"""Prefix of Spark's property of a label, before its name."""
_DIGITS: Final = 16


def of_launch(job: spec_pb2.JobSpec) -> dict[str, str]:
    """Return the labels of the pods of a launch."""
    place = f"{job.platform.bootstrap_servers} {job.checkpoint_root}"
    digest = hashlib.sha256(place.encode()).hexdigest()[:_DIGITS]
    return {DAGGER: job.dagger, GENERATION: str(job.generation), LEASE: digest}
