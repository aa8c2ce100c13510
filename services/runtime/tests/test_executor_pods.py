"""Executors that are pods of a real API server: what ended one is told, and what others left is removed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from daggers.v1 import spec_pb2
from pyspark.sql import SparkSession
from services.runtime.tests.sessions import driver_session
from tests import kubernetes
from tests.kubernetes import NAMESPACE, Kubernetes
from tests.maven import LackingError

from daggerspec import podlabels
from runtime.spark import leftover_pods
from runtime.spark.executor_ends import ExecutorEnds, describe_cause

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1200)]

DEADLINE_S = 180.0
JOB = spec_pb2.JobSpec(dagger="daily", generation=10, checkpoint_root="/checkpoints/daily-3")
OTHER = spec_pb2.JobSpec(dagger="other", generation=1, checkpoint_root="/checkpoints/other-4")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """Start a Kubernetes."""
    with ExitStack() as servers:
        try:
            here = servers.enter_context(
                kubernetes.kubernetes(tmp_path_factory.mktemp("kubernetes") / "cluster")
            )
        except LackingError as why:
            pytest.skip(f"no Kubernetes: {why}")
        yield here


@pytest.fixture(scope="module")
def session(cluster: Kubernetes) -> Iterator[SparkSession]:
    """Start a driver with one executor, with the settings that its scheduler would give it."""
    labels = podlabels.of_launch(JOB).items()
    settings = [
        "spark.executor.instances=1",
        "spark.executor.memory=512m",
        f"spark.kubernetes.namespace={NAMESPACE}",
        "spark.kubernetes.container.image=none",
        f"spark.kubernetes.authenticate.oauthTokenFile={cluster.token}",
        f"spark.kubernetes.authenticate.caCertFile={cluster.authorities}",
        "spark.kubernetes.executor.disableConfigMap=true",
        "spark.driver.host=127.0.0.1",
        "spark.driver.bindAddress=127.0.0.1",
        *(f"{podlabels.PROPERTY}{name}={value}" for name, value in labels),
    ]
    with driver_session(f"k8s://{cluster.url}", *settings) as started:
        yield started


def running(cluster: Kubernetes, besides: set[str]) -> str:
    """Wait for an executor's pod that runs; return its name. besides: pods that do not count."""
    end = time.monotonic() + DEADLINE_S
    while True:
        for pod in cluster.api.find("pods"):
            name, labels = pod["metadata"]["name"], pod["metadata"].get("labels", {})
            if "spark-exec-id" in labels and pod["status"]["phase"] == "Running" and name not in besides:
                return str(name)
        assert time.monotonic() < end
        time.sleep(0.2)  # polling the API; bounded by the deadline


def test_what_ended_an_executor_is_told_by_the_status_of_its_pod(
    cluster: Kubernetes, session: SparkSession
) -> None:
    ends = {
        "killed by SIGKILL, by whom is unknown": lambda pod: cluster.kubelet.executor(pod).kill(),
        "killed for memory: its container had more than its limit": cluster.kubelet.exhaust,
        "evicted: its node was short": cluster.kubelet.evict,
        "deleted: by a drain of its node, or by somebody": cluster.api.evict,
    }
    reader = ExecutorEnds(session)
    causes, gone, counts = [], set[str](), [session.range(10).count()]

    for end in ends.values():
        pod = running(cluster, gone)
        end(pod)
        gone.add(pod)
        until = time.monotonic() + DEADLINE_S
        while len(found := reader.read()) < len(gone) and time.monotonic() < until:
            time.sleep(0.2)  # polling Spark's memory of it; bounded by the deadline
        causes.append(describe_cause(max(found, key=lambda each: each.time).reason))
        counts.append(session.range(10).count())

    assert [cause.startswith(start) for cause, start in zip(causes, ends, strict=True)] == [True] * 4, causes
    assert counts == [10] * 5
    assert cluster.api.names("configmaps") == []


def create(cluster: Kubernetes, name: str, job: spec_pb2.JobSpec, generation: int, phase: str) -> None:
    """Create a pod as a driver would have, on a node that nobody looks after."""
    labels = podlabels.of_launch(job) | {podlabels.GENERATION: str(generation)}
    spec = {"nodeName": "elsewhere", "containers": [{"name": "executor", "image": "none"}]}
    cluster.api.create("pods", {"metadata": {"name": name, "labels": labels}, "spec": spec})
    cluster.api.set_status(name, {"phase": phase})


def test_a_launch_removes_what_others_left_and_nothing_else(
    cluster: Kubernetes, session: SparkSession
) -> None:
    own = running(cluster, set())
    create(cluster, "own-older-runs", JOB, 9, "Running")
    create(cluster, "own-older-ended", JOB, 8, "Failed")
    create(cluster, "own-shadow", JOB, 11, "Running")
    create(cluster, "other-runs", OTHER, 1, "Running")
    create(cluster, "other-ended", OTHER, 1, "Succeeded")

    leftover_pods.sweep(session.sparkContext)
    pods = {pod["metadata"]["name"]: pod for pod in cluster.api.find("pods")}
    present = {name for name, pod in pods.items() if "deletionTimestamp" not in pod["metadata"]}

    assert present & {own, "own-shadow", "other-runs"} == {own, "own-shadow", "other-runs"}
    assert present & {"own-older-runs", "own-older-ended", "other-ended"} == set()
