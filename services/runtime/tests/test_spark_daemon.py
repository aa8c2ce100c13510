"""What workers leave behind is collected: most of it after each task, the rest after some."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from pyspark import daemon

from runtime.spark.daemon import Collector


class _Cycle:
    def __init__(self) -> None:
        self.me = self


def test_what_a_task_left_behind_is_collected_after_it() -> None:
    left = weakref.ref(_Cycle())

    Collector().collect()

    assert left() is None


def test_what_outlived_its_task_is_collected_later() -> None:
    collector, kept = Collector(), _Cycle()
    for _ in range(2):
        collector.collect()
    left = weakref.ref(kept)
    del kept
    collector.collect()

    soon = left() is None
    for _ in range(20):
        collector.collect()

    assert (soon, left()) == (False, None)


def test_the_collector_stands_in_for_pythons_in_pysparks_daemon() -> None:
    asked: Any = daemon

    assert asked.gc is gc
