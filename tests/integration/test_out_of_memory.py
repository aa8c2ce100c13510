"""A driver whose heap is full, as the scheduler launches it."""

import os
import time
from pathlib import Path

import pytest
from daggers.v1 import events_pb2, spec_pb2
from services.runtime.tests.launches import DEADLINE_S, Dagger, whole
from tests.integration.bookings import booking

from fleet.decide.observation import Presence
from scheduler.__main__ import find_installation, find_java
from scheduler.drivers import command
from scheduler.drivers.process_table import Drivers

pytestmark = [pytest.mark.integration, pytest.mark.long]
# Each record keeps a megabyte until the window closes.
LARGE = """\
SELECT CollectArray(REPEAT('0123456789', 100000)) AS texts,
       TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
FROM data_stream GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND)"""


def test_a_driver_whose_heap_is_full_is_out_of_memory_and_says_what_to_do(tmp_path: Path, kafka: str) -> None:
    sinks = [spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink()))]
    dagger = Dagger(tmp_path, kafka, sql=LARGE, sinks=sinks)
    dagger.write(*(booking(1, order=str(number)) for number in range(800)))
    drivers = Drivers(tmp_path / "runs", host="here", python=str(find_installation().python))
    run_dir = drivers.run_dir(dagger.name, dagger.generation)
    job = whole(dagger.spec(run_dir))
    job.spec.driver_memory_mib = 450  # the least that a spec may say
    inherited = {"JAVA_HOME": str(find_java(None, os.environ))}  # noqa: TID251 - as the scheduler's root does
    environment = command.environment(job, "local[1]", find_installation(), inherited)

    handle = drivers.start(job, command.spark_submit(job, "local[1]", find_installation()), environment)
    try:
        end = time.monotonic() + 5 * DEADLINE_S
        while drivers.presence(handle) is not Presence.GONE and time.monotonic() < end:
            time.sleep(0.2)
        left = drivers.exit(handle)
    finally:
        drivers.kill(handle)

    assert (left.error.reason, left.error.domain) == ("OUT_OF_MEMORY", events_pb2.ERROR_DOMAIN_USER)
    assert left.error.detail.startswith("its heap of 480 MiB (driver_memory) was full: ")
    assert left.error.retryable
