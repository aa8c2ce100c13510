"""The end of an executor is told by the status of its cluster, and never guessed from 137."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import psutil
import pytest
from services.runtime.tests.sessions import driver_session

from devstack.sparkcluster import is_executor
from runtime.spark.executor_ends import ExecutorEnd, ExecutorEnds, describe_cause, describe_ends

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def pod(code: int, *, reason: str, brief: str = "") -> str:
    """Build Spark's text of the end of a pod whose API gives these reasons."""
    api = f"The API gave the following brief reason: {brief}\n" if brief else ""
    return (
        f"\nThe executor with id 1 exited with exit code {code}(SIGKILL, possible container OOM).\n{api}\n"
        "The API gave the following container statuses:\n\n\t container name: spark-kubernetes-executor\n"
        f"\t container state: terminated\n\t exit code: {code}\n\t termination reason: {reason}\n"
    )


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (pod(137, reason="OOMKilled"), "killed for memory"),
        (pod(137, reason="Error"), "by whom is unknown"),
        (pod(137, reason="Error", brief="Evicted"), "evicted: its node was short"),
        (pod(-1, reason="Error", brief="Preempting"), "higher priority"),
        (pod(137, reason="Error", brief="Terminated"), "its node was shut down"),
        ("The executor with id 3 was deleted by a user or the framework.", "deleted: by a drain"),
        (
            "The executor with ID 4 (registered at 1796060933799 ms) was not found in the cluster at the"
            " polling time (1796060980367 ms) which is after the accepted detect delta time (30000 ms)"
            " configured by `spark.kubernetes.executor.missingPodDetectDelta`. The executor may have been"
            " deleted but the driver missed the deletion event. Marking this executor as failed.",
            "deleted: by a drain",
        ),
        (pod(52, reason="Error"), "its heap was full"),
        ("Command exited with code 137", "by whom is unknown"),
        ("Command exited with code 52", "its heap was full"),
        ("Container from a bad node: container_1 on host: n. Exit status: 137.", "by whom is unknown"),
        ("Container killed by YARN for exceeding physical memory limits. 2 of 1 GB", "killed for memory"),
        ("Worker shutting down", "Spark says: Worker shutting down"),
        ("worker lost: Not receiving heartbeat for 60 seconds", "with its worker"),
        ("Executor heartbeat timed out after 121 ms", "no heartbeat came"),
        ("", "does not say"),
    ],
)
def test_the_status_says_of_what_an_executor_ended(reason: str, cause: str) -> None:
    assert cause in describe_cause(reason)


def test_executors_that_ended_long_ago_are_not_told() -> None:
    ends = [ExecutorEnd(str(number), "Command exited with code 137", NOON) for number in (4, 5)]

    assert describe_ends(ends, NOON + timedelta(minutes=6)) == ""
    assert describe_ends(ends, NOON + timedelta(minutes=1)).startswith(
        "2 executors have ended, the last (number 5) at 12:00:00: killed by SIGKILL, by whom is unknown"
    )
    assert describe_ends(ends[:1], NOON).startswith("1 executor has ended")


@pytest.mark.integration
@pytest.mark.long
def test_an_executor_that_somebody_kills_is_read_from_spark() -> None:
    with driver_session("local-cluster[1,1,1024]") as session:
        first, reader = session.range(10).count(), ExecutorEnds(session)
        none = reader.read()
        for process in filter(is_executor, psutil.Process().children(recursive=True)):
            process.kill()
        end = time.monotonic() + 120
        while not (ends := reader.read()) and time.monotonic() < end:
            time.sleep(0.2)  # polling Spark's memory of it; bounded by the deadline
        again, later = session.range(10).count(), reader.read()

    assert (first, again, none) == (10, 10, [])
    assert later == ends
    assert [describe_cause(each.reason) for each in ends] == [
        "killed by SIGKILL, by whom is unknown: no status says that it was memory"
    ]
