"""A dagger whose executors are pods of a real API server is exact over kills, and leaves nothing behind."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import Stack
from tests import kubernetes
from tests.integration.bookings import Bookings, booking, counted, recount, spread
from tests.integration.cli import Cli, at_least, runs
from tests.integration.faults import driver, halves, send, until
from tests.integration.standalone import register, scheduler_with
from tests.kubernetes import NAMESPACE, Kubernetes
from tests.maven import LackingError

from daggerspec import podlabels

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1500)]

SCHEDULER = "daggers-scheduler-0"
PROPERTIES = """\
spark.executor.instances 1
spark.executor.memory 512m
spark.executor.memoryOverhead 768m
spark.kubernetes.namespace {namespace}
spark.kubernetes.container.image none
spark.kubernetes.authenticate.oauthTokenFile {token}
spark.kubernetes.authenticate.caCertFile {authorities}
spark.kubernetes.driver.pod.name {scheduler}
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
"""


@pytest.fixture
def cluster(stack: Stack, cli: Cli, tmp_path: Path) -> Iterator[Kubernetes]:
    """Register a cluster whose Spark master is Kubernetes, with a pod in the place of the scheduler's."""
    with ExitStack() as servers:
        try:
            here = servers.enter_context(kubernetes.kubernetes(tmp_path / "kubernetes"))
        except LackingError as why:
            pytest.skip(f"no Kubernetes: {why}")
        spec = {"nodeName": "elsewhere", "containers": [{"name": "scheduler", "image": "none"}]}
        here.api.create("pods", {"metadata": {"name": SCHEDULER}, "spec": spec})
        ready = {"type": "Ready", "status": "True"}
        here.api.set_status(SCHEDULER, {"phase": "Running", "conditions": [ready]})
        properties = PROPERTIES.format(
            namespace=NAMESPACE, token=here.token, authorities=here.authorities, scheduler=SCHEDULER
        )
        servers.enter_context(scheduler_with(stack, tmp_path / "checkpoints", properties, tmp_path))
        register(cli, stack, "pods", f"k8s://{here.url}", tmp_path)
        yield here


def executors(cluster: Kubernetes) -> dict[str, dict[str, Any]]:
    """Find the pods of executors: metadata of each, by its name."""
    pods = (pod["metadata"] for pod in cluster.api.find("pods"))
    return {pod["name"]: pod for pod in pods if pod["name"] != SCHEDULER}


def test_a_dagger_on_kubernetes_counts_exactly_over_kills_of_an_executor_and_of_its_driver(
    stack: Stack, cli: Cli, tmp_path: Path, cluster: Kubernetes
) -> None:
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path, cluster="pods")
    # nothing in the second half of a window that a kill divides: a tick may close it meanwhile
    events = spread([*range(90), *range(120, 210), *range(240, 300)], cities=2)
    values = [booking(second, city_id=city) for second, city in events]

    cli("apply", "-f", file, "--wait", "--timeout", 180)
    before = cli("get", name)["generation"]
    bookings.write(values[:90])
    cli.rows(name, enough=at_least(2))
    owners = [owner["name"] for pod in executors(cluster).values() for owner in pod["ownerReferences"]]
    [pod] = executors(cluster)
    cluster.kubelet.executor(pod).kill()
    lost = cli.until(name, lambda dagger: "EXECUTORS_LOST" in str(dagger))
    bookings.write(values[90:180])
    cli.rows(name, enough=at_least(6))
    send(signal.SIGKILL, *halves(stack, name))
    bookings.write(values[180:])
    rows = cli.rows(name, enough=at_least(10))
    after = cli.until(name, runs)["generation"]
    until(lambda: generations(cluster) == {str(after)})
    until(lambda: len(driver(stack, name)) == 1)
    cli("delete", name, "--wait")
    until(lambda: not executors(cluster))

    assert counted(rows) == recount(events)
    assert after > before
    assert owners == [SCHEDULER]
    assert "killed by SIGKILL, by whom is unknown" in str(lost)
    assert cluster.api.names("configmaps") == []
    assert cluster.api.names("pods") == [SCHEDULER]
    assert driver(stack, name) == {}


def generations(cluster: Kubernetes) -> set[str]:
    """List the generations whose executors have pods."""
    return {pod["labels"][podlabels.GENERATION] for pod in executors(cluster).values()}
