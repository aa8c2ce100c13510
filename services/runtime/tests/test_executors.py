"""A driver without anything to compute with: a minute of it ends the driver, less does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from daggers.v1 import events_pb2
from pyspark import SparkConf

from daggerspec import exits
from runtime.errors import EXTERNAL, JobError
from runtime.spark import master_page
from runtime.spark.executors import Executors, RequestedShare, asked_cores
from runtime.spark.master_page import MasterState

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


def page(free: int, *applications: tuple[str, str, int], workers: int = 2) -> MasterState:
    """Build the state of a master of so many workers of two cores."""
    frees = [free, *[0] * workers][:workers]
    living = [{"state": "ALIVE", "cores": 2, "coresfree": each} for each in frees]
    return master_page.parse(
        {
            "status": "ALIVE",
            "workers": [{"state": "DEAD", "cores": 8, "coresfree": 8}, *living],
            "activeapps": [{"id": id_, "name": name, "cores": cores} for id_, name, cores in applications],
        }
    )


def waiting(looks: Sequence[MasterState | None]) -> list[str]:
    """List what a driver without executors waits for at each look; "ended" where that ends it."""
    clock, left, texts = 0.0, list(looks), []
    share = RequestedShare("app-1", 2, 1, 1024)
    executors = Executors(MASTER, lambda: 0, lambda: clock, lambda: "", share=share, look=lambda: left.pop(0))
    while left:
        try:
            executors.check()
            texts.append(executors.waiting)
        except JobError:
            return [*texts, "ended"]
        clock += 5
    return texts


OTHERS = ("app-0", "daggers.orders_by_city.17", 3), ("app-9", "Spark shell", 1)
OWN = ("app-1", "daggers.completed_bookings.21", 0)


def test_a_driver_that_its_master_knows_waits_and_says_who_has_the_cores() -> None:
    texts = waiting([page(0, *OTHERS, OWN)] * 30)

    assert texts[:1] == [""]
    assert set(texts[1:]) == {
        f"it waits for executors: it asks Spark master {MASTER} for 2 cores, in executors of 1 core and 1,024"
        " MiB; 0 of the 4 cores of its 2 workers are free: orders_by_city has 3, Spark shell has 1"
    }


def test_a_master_without_workers_and_one_without_memory_are_told_apart() -> None:
    assert waiting([page(0, OWN, workers=0)] * 4)[-1].endswith("and the master has no worker")
    assert waiting([page(2, OWN)] * 4)[-1].endswith(
        "2 of the 4 cores of its 2 workers are free: no worker has that much memory and that many cores free"
        " at once"
    )


def test_a_driver_whose_executors_do_not_come_up_ends_after_a_minute_though_it_has_cores() -> None:
    assert waiting([page(0, (*OWN[:2], 2))] * 30) == [*[""] * 12, "ended"]


def test_one_page_that_is_not_read_ends_no_driver_that_waits_in_the_queue() -> None:
    texts = waiting([*[page(0, *OTHERS, OWN)] * 20, None, *[page(0, *OTHERS, OWN)] * 5])

    assert [bool(text) for text in texts[1:]] == [
        *[True] * 20,
        False,
        *[True] * 5,
    ]
    assert "ended" not in texts


def test_the_page_of_a_master_that_stands_by_says_nothing() -> None:
    with pytest.raises(ValueError, match="STANDBY"):
        master_page.parse({"status": "STANDBY", "workers": [], "activeapps": []})


def test_a_driver_that_its_master_does_not_know_ends_within_half_a_minute() -> None:
    assert waiting([page(4)] * 30) == ["", "", "", "", "ended"]


def test_where_the_page_does_not_answer_a_minute_ends_the_driver_as_before() -> None:
    assert waiting([None] * 30) == [*[""] * 12, "ended"]


@pytest.mark.parametrize(
    ("settings", "cores"),
    [
        ({"spark.cores.max": "6", "spark.executor.cores": "2"}, 6),
        ({"spark.executor.instances": "3", "spark.executor.cores": "2"}, 6),
        ({"spark.executor.instances": "3"}, 3),
        ({"spark.executor.cores": "2"}, 0),
        ({"spark.cores.max": "6", "spark.dynamicAllocation.enabled": "true"}, 0),
    ],
)
def test_a_driver_knows_its_cores_where_they_stay_as_many(settings: dict[str, str], cores: int) -> None:
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))

    assert asked_cores(conf) == cores
