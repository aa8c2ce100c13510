"""The lines of driver.log: the JVM writes them in the layout that Python does, and no chatter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from daggers.v1 import spec_pb2

import scheduler
from chassis.lines import stamp_of
from scheduler.__main__ import find_installation, find_java
from scheduler.drivers import command

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
gateway.jvm.Thread.currentThread().setName("stream execution thread for prices [id = 1, runId = 2]")
gateway.jvm.org.slf4j.LoggerFactory.getLogger("a.b.Plan").warn("is odd, too")
gateway.jvm.Thread.currentThread().setName("Executor task launch worker for task 0.0 in stage 1.0 (TID 1)")
gateway.jvm.org.slf4j.MDC.put("mdc.dagger", "prices")
gateway.jvm.org.slf4j.LoggerFactory.getLogger("a.b.Task").warn("is odd as well")
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait(60)
"""


def test_the_jvm_writes_warnings_in_the_layout_of_a_drivers_log_and_no_chatter(tmp_path: Path) -> None:
    log4j = Path(scheduler.__file__).with_name("log4j2.properties")
    options = f"--driver-java-options=-Dlog4j2.configurationFile={log4j.as_uri()}"
    inherited = {"JAVA_HOME": str(find_java(None, os.environ))}  # noqa: TID251 - as the scheduler's root does
    here = find_installation()
    made = command.environment(spec_pb2.JobSpec(run_dir=str(tmp_path)), "local[1]", here, inherited)
    environment = {
        **os.environ,  # noqa: TID251 - handed on
        **{name: value for name, value in made.items() if name.endswith("JAVA_HOME")},
        "PYSPARK_SUBMIT_ARGS": f"--master local[1] {options} pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TZ": "America/New_York",
    }

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(said=SAID)],
        capture_output=True, text=True, check=True, timeout=120, cwd=tmp_path, env=environment,
    )  # fmt: skip
    lines = done.stderr.splitlines()

    assert all(map(stamp_of, lines)), done.stderr
    assert [line.partition("Z ")[2] for line in lines] == [
        "ERROR ProcessingTimeExecutor: gave up",
        "WARN HDFSBackedStateStoreProvider: Error cleaning up files",
        "WARN SparkContext: something is odd",
        "WARN Plan: dagger=prices is odd, too",
        "WARN Task: dagger=prices is odd as well",
    ]
