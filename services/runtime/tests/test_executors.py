"""A driver without anything to compute with: a minute of it ends the driver, less does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from daggers.v1 import events_pb2

from daggerspec import exits
from runtime.errors import EXTERNAL, JobError
from runtime.spark.executors import Executors

MASTER = "spark://spark-master:7077"


def watched(
    counts: Sequence[int], every_s: float = 1.0, overload: str = ""
) -> tuple[float, events_pb2.DaggerError | None]:
    """When its end came, in seconds, and why, where it is asked so often and each look gives the next of
    these numbers; when there is no further look, and None.
    """
    clock, left = 0.0, list(counts)
    executors = Executors(MASTER, lambda: left.pop(0), lambda: clock, lambda: overload)
    while left:
        try:
            executors.check()
        except JobError as end:
            return clock, end.error
        clock += every_s
    return clock, None


def test_a_driver_without_executors_for_a_minute_ends_and_may_be_launched_again() -> None:
    seconds, error = watched([0] * 13)

    assert seconds == 60
    assert error is not None
    assert (error.domain, error.reason, error.retryable) == (EXTERNAL, exits.NO_EXECUTORS, True)
    assert MASTER in error.detail


def test_the_minute_begins_with_the_last_look_that_found_one() -> None:
    seconds, error = watched([1, 1, 1, *[0] * 13])

    assert (seconds, error is not None) == (75, True)


@pytest.mark.parametrize("counts", [[0] * 12, [*[0] * 12, 1, *[0] * 12], [2] * 60])
def test_one_that_waits_for_less_than_a_minute_goes_on(counts: list[int]) -> None:
    assert watched(counts)[1] is None


def test_a_process_that_slept_has_not_waited_longer() -> None:
    assert watched([0, 0, 1], every_s=3600)[1] is None


def test_where_the_host_is_overloaded_an_executor_may_take_five_minutes_to_start() -> None:
    seconds, error = watched([0] * 61, overload="tasks waited for a processor")

    assert (seconds, error is not None) == (300, True)
