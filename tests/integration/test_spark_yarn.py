"""A dagger on YARN with its checkpoint on HDFS is exact over a kill, where there is a cluster to try it on.

`DAGGERS_YARN_CONF_DIR` in the environment names the cluster's configuration, and `DAGGERS_HDFS` the HDFS, as
hdfs://namenode:8020. Its nodes have this virtual environment at this path: one on this machine will do.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pyspark
import pytest
from conftest import Stack
from tests.integration.bookings import Bookings, booking, counted, recount, spread
from tests.integration.cli import Cli, at_least
from tests.integration.faults import driver, halves, kill, send, until, up
from tests.integration.standalone import register

pytestmark = [pytest.mark.integration, pytest.mark.long]

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
    """A cluster whose Spark is YARN's; the scheduler is told where that is, and where checkpoints go."""
    where = os.environ.get("DAGGERS_YARN_CONF_DIR", "")  # noqa: TID251 - an option of whoever runs the tests
    hdfs = os.environ.get("DAGGERS_HDFS", "")  # noqa: TID251 - as above
    if not (where and hdfs):
        pytest.skip("DAGGERS_YARN_CONF_DIR and DAGGERS_HDFS name no YARN with its HDFS")
    properties = tmp_path / "spark.properties"
    properties.write_text(PROPERTIES.format(jars=Path(pyspark.__file__).parent / "jars"))
    kill(stack, "scheduler")
    told = {
        "HADOOP_CONF_DIR": where,
        "DAGGERS_SCHEDULER_CHECKPOINT_ROOT": f"{hdfs}/daggers-{uuid4().hex[:8]}",
        "DAGGERS_SCHEDULER_SPARK_PROPERTIES_FILE": str(properties),
    }
    up(stack, told)
    register(cli, stack, "yarn", "yarn", tmp_path)
    yield "yarn"
    kill(stack, "scheduler")
    up(stack)


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
