"""A dagger on YARN with its checkpoint on HDFS is exact over a kill."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pyspark
import pytest
from conftest import Stack
from tests.integration.bookings import Bookings, booking, counted, recount, spread
from tests.integration.cli import Cli, at_least
from tests.integration.faults import driver, halves, send, until
from tests.integration.standalone import register, scheduler_with
from tests.maven import LackingError
from tests.yarn import yarn

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1500)]

PROPERTIES = """\
spark.executor.instances 1
spark.executor.memory 512m
spark.yarn.am.memory 512m
spark.yarn.jars local:{jars}/*
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
"""


@pytest.fixture
def on_yarn(stack: Stack, cli: Cli, tmp_path: Path) -> Iterator[str]:
    """Register a cluster whose Spark is YARN's; checkpoints are on its HDFS."""
    properties = PROPERTIES.format(jars=Path(pyspark.__file__).parent / "jars")
    with ExitStack() as servers:
        try:
            cluster = servers.enter_context(yarn(tmp_path / "yarn"))
        except LackingError as why:
            pytest.skip(f"no YARN: {why}")
        root = f"{cluster.hdfs}/daggers-{uuid4().hex[:8]}"
        conf_dir = str(cluster.conf_dir)
        servers.enter_context(scheduler_with(stack, root, properties, tmp_path, HADOOP_CONF_DIR=conf_dir))
        register(cli, stack, "yarn", "yarn", tmp_path)
        yield "yarn"


def test_a_dagger_on_yarn_with_its_checkpoint_on_hdfs_counts_exactly_over_a_kill(
    stack: Stack, cli: Cli, tmp_path: Path, on_yarn: str
) -> None:
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path, cluster=on_yarn)
    # nothing from 90 to 120: a tick may close that window while its first half waits for the kill
    events = spread([*range(90), *range(120, 180)], cities=2)
    values = [booking(second, city_id=city) for second, city in events]

    cli("apply", "-f", file, "--wait", "--timeout", 180)
    before = cli("get", name)["generation"]
    bookings.write(values[:90])
    cli.rows(name, enough=at_least(2))
    send(signal.SIGKILL, *halves(stack, name))
    bookings.write(values[90:])
    rows = cli.rows(name, enough=at_least(6))
    after = cli.until(name, lambda dagger: dagger["phase"] == "RUNNING")["generation"]
    until(lambda: len(driver(stack, name)) == 1)
    cli("delete", name, "--wait")

    assert counted(rows) == recount(events)
    assert after > before
    assert driver(stack, name) == {}
