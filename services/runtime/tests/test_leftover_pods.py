"""A launch removes pods that nobody needs, and none that a driver may be using."""

from __future__ import annotations

import pytest
from daggers.v1 import spec_pb2

from daggerspec import podlabels
from runtime.spark.leftover_pods import ExecutorPod, choose_leftovers


def labels(generation: int, root: str = "/checkpoints/daily-3") -> dict[str, str]:
    """Return the labels of a launch's pods."""
    job = spec_pb2.JobSpec(dagger="daily", generation=generation, checkpoint_root=root)
    return podlabels.of_launch(job)


OWN = labels(10)


@pytest.mark.parametrize(
    ("generation", "phase", "is_leftover"),
    [
        (9, "Failed", True),
        (9, "Running", True),  # it computes for a driver that may not write any more
        (9, "Pending", True),  # it would begin for nobody
        (10, "Running", False),
        (10, "Failed", False),  # Spark reads of what it ended, and deletes it
        (11, "Running", False),  # a shadow's
        (100, "Pending", False),  # numbers, not texts
    ],
)
def test_pods_of_earlier_launches_of_the_same_dagger_are_leftovers(
    generation: int, phase: str, is_leftover: bool
) -> None:
    pod = ExecutorPod("pod", labels(generation), phase)

    assert choose_leftovers([pod], OWN) == ["pod"] * is_leftover


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_of_other_daggers_are_leftovers_once_they_have_ended(phase: str) -> None:
    pods = [
        ExecutorPod("runs", labels(1, "/checkpoints/other-4"), "Running"),
        ExecutorPod("waits", labels(1, "/checkpoints/other-4"), "Pending"),
        ExecutorPod("ended", labels(1, "/checkpoints/other-4"), phase),
        ExecutorPod("of-an-older-dagger-of-that-name", labels(70, "/checkpoints/daily-1"), phase),
    ]

    assert choose_leftovers(pods, OWN) == ["ended", "of-an-older-dagger-of-that-name"]


def test_a_pod_that_two_selections_find_is_removed_once() -> None:
    pod = ExecutorPod("pod", labels(9), "Failed")

    assert choose_leftovers([pod, pod], OWN) == ["pod"]


def test_daggers_with_leases_in_other_places_have_other_labels() -> None:
    job = spec_pb2.JobSpec(dagger="daily", generation=10, checkpoint_root="/checkpoints/daily-3")
    elsewhere = spec_pb2.JobSpec()
    elsewhere.CopyFrom(job)
    elsewhere.platform.bootstrap_servers = "other:9092"

    digests = {podlabels.of_launch(each)[podlabels.LEASE] for each in (job, elsewhere)}

    assert len(digests | {labels(10, "/checkpoints/daily-4")[podlabels.LEASE]}) == 3
