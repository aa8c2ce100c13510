"""Remove pods of executors on Kubernetes that a killed driver has left behind.

A driver that ends by itself deletes the pods of its executors. One that is killed deletes none: executors
notice it within seconds, and end, but their pods stay as objects, and one that has not begun yet would begin
for nobody. So each launch removes what earlier ones of its dagger left, and, on the way, pods of any dagger
that have ended: a driver that lives deletes its own within a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext

from chassis.logging import logger
from daggerspec import podlabels

_ENDED: Final = ("Succeeded", "Failed")
"""Phases of a pod in which nothing of it runs any more."""


@dataclass(frozen=True, slots=True)
class ExecutorPod:
    """A pod that some driver of Daggers has asked for."""

    name: str
    labels: Mapping[str, str]
    phase: str


def choose_leftovers(pods: Iterable[ExecutorPod], own: Mapping[str, str]) -> list[str]:
    """Choose the pods that nobody needs; return their names.

    own: labels of the launch that asks, which has the lease.
    """
    return sorted({pod.name for pod in pods if _is_leftover(pod, own)})


def sweep(context: SparkContext) -> None:
    """Remove leftover pods, where executors are pods. A launch that may not, or cannot, goes on without."""
    conf = context.getConf()
    labels = (podlabels.DAGGER, podlabels.GENERATION, podlabels.LEASE)
    own = {label: conf.get(podlabels.PROPERTY + label, "") for label in labels}
    keeps_ended = conf.get("spark.kubernetes.executor.deleteOnTermination", "true") != "true"
    if not all(own.values()) or keeps_ended:
        return
    try:
        client = context._jsc.sc().schedulerBackend().kubernetesClient()  # noqa: SLF001 - not in PySpark
        pods = client.pods().inNamespace(conf.get("spark.kubernetes.namespace", "default"))
        candidates = _read(pods.withLabelSelector(f"{podlabels.LEASE}={own[podlabels.LEASE]}"))
        for phase in _ENDED:
            candidates += _read(pods.withLabelSelector(podlabels.LEASE).withField("status.phase", phase))
        names = choose_leftovers(candidates, own)
        for name in names:
            pods.withName(name).delete()
    except Py4JError as problem:  # it is housekeeping, and the next launch tries again
        logger().warning("pods.sweep_failed", why=str(problem).partition("\n")[0])
        return
    if names:
        logger().info("pods.swept", pods=names)


def _is_leftover(pod: ExecutorPod, own: Mapping[str, str]) -> bool:
    """Tell whether nobody needs a pod: of an earlier launch under the same lease, which is fenced, or of
    another dagger, and ended. What a later launch has, a shadow, is that one's.
    """
    if pod.labels.get(podlabels.LEASE) != own[podlabels.LEASE]:
        return pod.phase in _ENDED
    generation = pod.labels.get(podlabels.GENERATION, "")
    return generation.isdecimal() and int(generation) < int(own[podlabels.GENERATION])


def _read(pods: Any) -> list[ExecutorPod]:
    """Read the pods that a selection of Spark's Kubernetes client finds. Raises: Py4JError."""
    items = pods.list().getItems()
    return [
        ExecutorPod(
            str(pod.getMetadata().getName()),
            dict(pod.getMetadata().getLabels()),
            str(pod.getStatus().getPhase()),
        )
        for pod in items
    ]
