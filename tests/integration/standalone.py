"""How a Spark cluster is registered with the stack."""

from pathlib import Path

from conftest import Stack
from tests.integration.cli import Cli


def register(cli: Cli, stack: Stack, name: str, spark_master: str, folder: Path, *more: object) -> None:
    """Register a cluster of the stack's Kafka and InfluxDB with this Spark master, and more flags."""
    token = folder / "token"
    token.write_text(stack.influx["token"])
    cli(
        "cluster", "register", name, "--kafka", stack.kafka, "--spark-master", spark_master, *more,
        "--influx-url", stack.influx["url"], "--influx-org", stack.influx["org"],
        "--influx-bucket", stack.influx["bucket"], "--influx-token-file", token,
    )  # fmt: skip
