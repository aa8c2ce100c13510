"""The lines of driver.log: the JVM writes them in the layout that Python does, and no chatter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import scheduler
from chassis.lines import stamp_of

pytestmark = pytest.mark.integration

STREAMING = "org.apache.spark.sql.execution.streaming"
SAID = [
    (f"{STREAMING}.runtime.ProcessingTimeExecutor", "warn", "Current batch is falling behind."),
    (f"{STREAMING}.runtime.ProcessingTimeExecutor", "error", "gave up"),
    (f"{STREAMING}.state.HDFSBackedStateStoreProvider Id[ storeName=default ]", "warn",
     "The state does not exist. Note that this is normal for the first batch of starting query."),
    (f"{STREAMING}.state.HDFSBackedStateStoreProvider", "warn", "Error cleaning up files"),
    ("org.apache.spark.SparkContext", "info", "Running Spark"),
    ("org.apache.spark.SparkContext", "warn", "something is odd"),
]  # fmt: skip
PROGRAM = """
import sys
from pyspark.java_gateway import launch_gateway
gateway = launch_gateway()
for logger, level, message in {said!r}:
    getattr(gateway.jvm.org.slf4j.LoggerFactory.getLogger(logger), level)(message)
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait(60)
"""


def test_the_jvm_writes_warnings_in_the_layout_of_a_drivers_log_and_no_chatter(tmp_path: Path) -> None:
    log4j = Path(scheduler.__file__).with_name("log4j2.properties")
    options = f"--driver-java-options=-Dlog4j2.configurationFile={log4j.as_uri()}"
    environment = {
        **os.environ,  # noqa: TID251 - handed on
        "PYSPARK_SUBMIT_ARGS": f"--master local[1] {options} pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TZ": "America/New_York",
    }

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(said=SAID)],
        capture_output=True, text=True, check=True, timeout=120, cwd=tmp_path, env=environment,
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if stamp_of(line)]

    assert [line.partition("Z ")[2] for line in lines] == [
        "ERROR ProcessingTimeExecutor: gave up",
        "WARN HDFSBackedStateStoreProvider: Error cleaning up files",
        "WARN SparkContext: something is odd",
    ]
