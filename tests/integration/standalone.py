"""A Spark standalone cluster of the wheel on loopback, and how it is registered with the stack."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import Stack
from tests.integration.cli import Cli

from devstack import ports
from devstack.sparkcluster import SparkCluster


@contextmanager
def standalone(folder: Path, *, workers: int = 1) -> Iterator[SparkCluster]:
    """A cluster of workers with one core each that ends with the context."""
    # never the usual ports: `make spark-cluster` may have them
    chosen = ports.choose(("master", "web"), {})
    cluster = SparkCluster(folder / "spark", workers, minutes=30, ports=chosen)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def register(cli: Cli, stack: Stack, name: str, spark_master: str, folder: Path, *more: object) -> None:
    """Register a cluster of the stack's Kafka and InfluxDB with this Spark master, and more flags."""
    token = folder / "token"
    token.write_text(stack.influx["token"])
    cli(
        "cluster", "register", name, "--kafka", stack.kafka, "--spark-master", spark_master, *more,
        "--influx-url", stack.influx["url"], "--influx-org", stack.influx["org"],
        "--influx-bucket", stack.influx["bucket"], "--influx-token-file", token,
    )  # fmt: skip
