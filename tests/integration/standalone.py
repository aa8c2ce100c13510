"""How a Spark cluster is registered with the stack, and what its scheduler has to know of one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import Stack
from tests.integration.cli import Cli
from tests.integration.faults import kill, up


def register(cli: Cli, stack: Stack, name: str, spark_master: str, folder: Path, *more: object) -> None:
    """Register a cluster of the stack's Kafka and InfluxDB with this Spark master, and more flags."""
    token = folder / "token"
    token.write_text(stack.influx["token"])
    cli(
        "cluster", "register", name, "--kafka", stack.kafka, "--spark-master", spark_master, *more,
        "--influx-url", stack.influx["url"], "--influx-org", stack.influx["org"],
        "--influx-bucket", stack.influx["bucket"], "--influx-token-file", token,
    )  # fmt: skip


@contextmanager
def scheduler_with(
    stack: Stack, checkpoint_root: str | Path, properties: str, folder: Path, **variables: str
) -> Iterator[None]:
    """Run the stack's scheduler with a checkpoint root, Spark properties and variables; then as before.

    folder: for the file of the properties.
    """
    file = folder / "spark.properties"
    file.write_text(properties)
    kill(stack, "scheduler")
    up(stack, variables | {
        "DAGGERS_SCHEDULER_CHECKPOINT_ROOT": str(checkpoint_root),
        "DAGGERS_SCHEDULER_SPARK_PROPERTIES_FILE": str(file),
    })  # fmt: skip
    try:
        yield
    finally:
        kill(stack, "scheduler")
        up(stack)
