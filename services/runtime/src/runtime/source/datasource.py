"""Serve a reader to Spark: a data source whose offsets a `Planner` plans and whose tasks executors run.

Spark starts it as a process of its own and asks, before each batch, how far the batch goes. Nothing is
decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from runtime import members
from runtime.source import quiet_shutdown
from runtime.source.offsets import Offsets
from runtime.source.plan import ReaderPlan
from runtime.source.planner.given import GivenPlanner
from runtime.source.planner.planner import Planner
from runtime.source.reader import task


def data_source(plan: ReaderPlan, schema: StructType) -> type[DataSource]:
    """Make a data source for Spark to register, for this reader alone.

    The plan travels inside the pickled class, not as options: Spark shows options in plans and in its UI.
    """

    class KafkaSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"daggers.{plan.name}"

        def schema(self) -> StructType:
            quiet_shutdown.expect()
            return schema

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
            quiet_shutdown.expect()
            return KafkaReader(plan)

    return KafkaSource


class KafkaReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the topics of one plan. Offsets are `Offsets` in their JSON form, partitions hold a `Task`."""

    def __init__(self, plan: ReaderPlan) -> None:
        self._plan = plan
        # Made on first use: Spark pickles readers that have planned nothing, and sends them to tasks.
        self._cached_planner: Planner | GivenPlanner | None = None

    @property
    def _planner(self) -> Planner | GivenPlanner:
        if self._cached_planner is None:
            members.work_for(Path(self._plan.run_dir))  # Spark gives a reader a thread of its own
            self._cached_planner = (Planner if self._plan.given is None else GivenPlanner)(self._plan)
        return self._cached_planner

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the start that the launch decided before the query: the same after a crash in the first
        batch.
        """
        return self._plan.start.as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Limit the records of a batch."""
        return ReadMaxRows(self._plan.max_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the end of the batch that begins at `start`."""
        max_rows: int | None = self._plan.max_rows
        match limit:
            case ReadMaxRows():
                max_rows = limit.max_rows
            case ReadAllAvailable():
                max_rows = None
        return self._planner.batch_end(Offsets.from_json(start), max_rows).as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the last known end of the topics, for the lag."""
        latest = self._planner.latest()
        return None if latest is None else latest.as_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take the present ends of the topics for their ends from here on."""
        self._planner.finish_here()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return an input partition for each task of a batch."""
        tasks = self._planner.tasks(Offsets.from_json(start), Offsets.from_json(end))
        return [InputPartition(one) for one in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task, in an executor."""
        return task.run(self._plan, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Take note that Spark has committed the batch that ends here."""
        self._planner.commit(Offsets.from_json(end))

    def stop(self) -> None:
        """Close the connections."""
        if self._cached_planner is not None:
            self._cached_planner.close()
