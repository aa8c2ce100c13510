"""Helpers of test_two_launches.py and of its neighbours."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from daggers.v1 import telemetry_pb2
from pyspark.sql import SparkSession
from services.runtime.tests.launches import DEADLINE_S, Dagger, whole

from runtime.errors import explain
from runtime.launch.driver import Driver
from runtime.launch.launch import Launch
from runtime.spark import session as spark
from runtime.spark.jvm import JvmWatch

Beat = telemetry_pb2.Heartbeat


class Running:
    """A launch on a thread of its own. A context manager: it has ended afterwards."""

    def __init__(self, dagger: Dagger, session: SparkSession) -> None:
        dagger.generation += 1
        run_dir = dagger.folder / str(dagger.generation)
        run_dir.mkdir(parents=True)
        self.dagger, self.failure = dagger, ""
        self.launch = Launch(whole(dagger.spec(run_dir)), lambda: spark.another(session))
        self._thread = threading.Thread(target=self._run, name=dagger.name, daemon=True)

    @property
    def beat(self) -> Beat:
        """What it would tell now."""
        return self.launch.heartbeat.progress.beat

    def until(self, wanted: Callable[[Beat], object]) -> Beat:
        """Wait until it tells that."""
        end = time.monotonic() + DEADLINE_S
        while not wanted(beat := self.beat):
            assert self._thread.is_alive(), (self.failure, beat)
            assert time.monotonic() < end, beat
            time.sleep(0.1)
        return beat

    def join(self) -> str:
        """Wait for its end; the reason, empty for a drain."""
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        return self.failure

    def _run(self) -> None:
        try:
            Driver(self.launch, JvmWatch()).run()
        except Exception as failure:  # noqa: BLE001 - what it died of is what the test asks
            self.failure = explain(failure).reason

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        (self.launch.run_dir / "stop").touch()
        self.join()
