"""Helpers of test_job_writing.py and of its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from daggers.v1 import spec_pb2
from pyspark.sql import Row
from services.runtime.tests.sink_contract import COUNTS, batch
from services.runtime.tests.spool_log import MemoryAddress, MemoryLog

from runtime.launch.lanes import Lanes
from runtime.launch.launch import Launch
from runtime.launch.writing import BatchWriter
from runtime.sinks import Target


@dataclass
class Rows:
    """Rows of one partition, written in this process: what Spark does with them in a worker."""

    batches: Sequence[pa.RecordBatch] = field(default_factory=lambda: [batch(COUNTS)])
    jobs: int = 0
    parts: int | None = None

    def repartition(self, parts: int) -> Rows:
        self.parts = parts
        return self

    def mapInArrow(self, write: Any, _: str) -> Rows:  # noqa: N802 - Spark's name
        self._write = write
        return self

    def collect(self) -> list[Row]:
        self.jobs += 1
        return [Row(**line) for report in self._write(iter(self.batches)) for line in report.to_pylist()]


class Place:
    """A launch with these sinks, without Spark."""

    def __init__(self, folder: Path, *targets: Target) -> None:
        platform = spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:1", properties={"log_level": "0"})
        spec = spec_pb2.JobSpec(
            dagger="d", generation=7, platform=platform, checkpoint_root=str(folder), run_dir=str(folder)
        )
        spec.sinks.extend(each.resolved for each in targets)
        self.launch = Launch(spec, lambda: pytest.fail("no session is needed"))
        self.launch.__dict__["functions"] = SimpleNamespace(counts=dict)
        self.launch.lease.take()
        self.left: list[str] = []
        lanes = Lanes(self.launch, targets, self._leave, find=MemoryLog.list_sinks, address=MemoryAddress)
        self.writing = BatchWriter(self.launch, targets, self._leave, lanes)

    def _leave(self, why: str) -> None:
        self.left.append(why)
        raise EndedError

    @property
    def told(self) -> list[tuple[str, str]]:
        """The sinks that are told to be in trouble, and why."""
        retrying = self.launch.heartbeat.progress.beat.retrying
        return [(retry.detail.partition(":")[0], retry.reason) for retry in retrying]


class EndedError(Exception):
    """The launch is over."""
