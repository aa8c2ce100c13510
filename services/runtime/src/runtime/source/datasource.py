"""The half of a reader that runs in the driver: decides what each batch reads.

Spark starts it as a process of its own and asks, before each batch, how far the batch goes. Kafka not
answering is not an error here: there is nothing new, and nothing ticks, until it answers again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaException, Message
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from runtime.decode.decoder import Decoder
from runtime.errors import TemporaryError
from runtime.source import quiet_shutdown as hangup
from runtime.source.offsets import Offsets, Partition, Positions
from runtime.source.plan import ReaderPlan
from runtime.source.planner import alignment
from runtime.source.planner.broker import Broker
from runtime.source.planner.idle import next_tick
from runtime.source.planner.record_samples import Glimpses
from runtime.source.planner.sampling import SAMPLE, UNIT, newest, together
from runtime.source.planner.topic_metadata import Survey
from runtime.source.reader import task as worker
from runtime.source.reader.ranges import Range, tasks
from runtime.source.reader.rows import event_times
from runtime.source.status import Word

_log = logging.getLogger(__name__)
# As how many records one counts before any was seen: 10 MiB.
_HEAVY = 10 * 2**20 / UNIT
# A batch of more than this part of what one may hold is worth a look at how heavy its records are.
_SMALL = 10


class RangePartition(InputPartition):
    """Ranges of offsets to read; see `worker.read_ranges`."""

    def __init__(self, ranges: Sequence[Range], planned_ms: int, siblings: int) -> None:
        super().__init__(None)
        self.ranges, self.planned_ms, self.siblings = ranges, planned_ms, siblings


class TickPartition(InputPartition):
    """A tick to emit: its event time in ms."""

    def __init__(self, time_ms: int) -> None:
        super().__init__(None)
        self.time_ms = time_ms


def data_source(plan: ReaderPlan, schema: StructType) -> type[DataSource]:
    """A data source for Spark to register, for this reader alone.

    The plan travels inside the pickled class, not as options: Spark shows options in plans and in its UI.
    """

    class KafkaSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"daggers.{plan.key}"

        def schema(self) -> StructType:
            hangup.expect()
            return schema

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
            hangup.expect()
            return KafkaReader(plan)

    return KafkaSource


class KafkaReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the topics of one plan. Offsets are `Offsets` in their JSON form."""

    def __init__(self, plan: ReaderPlan) -> None:
        self._plan = plan
        self._survey: Survey | None = None
        self._decoder: Decoder | None = None
        self._weight = _HEAVY
        self._word = plan.word
        self._asked = False
        self._begun = False
        self._busy_until: float | None = None
        self._ticked: int | None = None
        self._sampled: Positions | None = None
        self._target: Positions | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """What was decided before the query started: the same after a crash in the first batch."""
        return self._plan.start.as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """How many records a batch may have."""
        return ReadMaxRows(self._plan.max_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the batch that begins at `start` ends: at `start` itself when there is nothing to do."""
        self._asked = True
        here = self._here(start)
        try:
            return self._end_of_batch(here, limit).as_json()
        except TemporaryError as problem:
            if self._target is not None:
                # Nothing new would mean that all is read, and end the query.
                raise
            _log.warning("%s", problem.error.detail)
            self._say(silent=False, away=problem.error.detail)
            self._busy_until = time.monotonic()  # whoever writes could not, either: that is no silence
            return here.as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """The end of the topics as last seen, for the lag."""
        return None if self._survey is None else self._survey.as_offsets()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """From here on the topics end where they end now."""
        plan = self._plan
        self._target = self._surveyed().look(plan.start) if plan.until is None else plan.until

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Input partitions for the topic partitions with something to read; one for a tick.

        The first batch of a launch may have neither, and gets one that is empty: a worker is started for it.
        """
        here, there = self._here(start), Offsets.from_json(end)
        if not self._asked:
            self._recognise(there)
        ranges = [
            Range(partition, there.ids[partition.topic], here.next.get(partition, 0), offset)
            for partition, offset in sorted(there.next.items())
            if partition.topic not in self._plan.gone
        ]
        parts: list[InputPartition] = [
            RangePartition(some, there.planned, len(ranges))
            for some in tasks(one for one in ranges if one.end > one.start)
        ]
        if there.tick > here.tick:
            parts.append(TickPartition(there.tick))
        return parts or [RangePartition(ranges[:1], there.planned, len(ranges))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in an executor: the rows of one input partition."""
        if isinstance(partition, TickPartition):
            return worker.read_tick(self._plan, partition.time_ms)
        assert isinstance(partition, RangePartition)
        return worker.read_ranges(self._plan, partition.ranges, partition.planned_ms, partition.siblings)

    def commit(self, end: dict[str, Any]) -> None:
        """Tells Kafka's own tools how far the dagger is; the truth is Spark's checkpoint."""
        try:
            self._surveyed().broker.commit(self._here(end).next)
        except KafkaException as problem:
            _log.warning("the consumer group %s is not committed: %s", self._plan.group, problem)

    def stop(self) -> None:
        """Ends the connections."""
        if self._survey is not None:
            self._survey.broker.close()

    def _here(self, start: dict[str, Any]) -> Offsets:
        """Where this reader stands: at its own start, if another's offsets stood at its place."""
        told = Offsets.from_json(start)
        return told if told.reader == self._plan.start.reader else self._plan.start

    def _recognise(self, there: Offsets) -> None:
        """Makes sure that the topics are still those that a batch of an earlier launch was to read up to
        `there`: others have other records at its offsets. Raises `JobError`; waits for no Kafka, workers do.
        """
        held = [topic for topic in self._plan.topics if topic not in self._plan.gone]
        try:
            Survey(self._surveyed().broker, held).look(there.only(held))
        except TemporaryError as problem:
            _log.warning("%s", problem.error.detail)

    def _surveyed(self) -> Survey:
        if self._survey is None:
            self._survey = Survey(Broker(self._plan.kafka, self._plan.group), self._plan.topics)
        return self._survey

    def _end_of_batch(self, here: Offsets, limit: ReadLimit) -> Offsets:
        if (until := self._plan.until) is not None:
            return here if here.next == until else here.moved(until, planned=int(time.time() * 1000))
        survey = self._surveyed()
        end = survey.look(here)
        self._say(away="")
        if self._target is not None:
            end = {p: min(offset, self._target.get(p, 0)) for p, offset in end.items()}
        start = {partition: here.next.get(partition, 0) for partition in end}
        if all(start[partition] >= end[partition] for partition in end):
            return self._tick(here) if self._begun or self._target is not None else self._rehearsal(here)
        self._begun = True
        self._busy_until = time.monotonic()
        expired = survey.expired(start)
        if expired:
            self._say(warnings=tuple(dict.fromkeys((*self._word.warnings, *expired))))
        self._say(silent=False)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._plan.max_rows
        until = end if isinstance(limit, ReadAllAvailable) else self._aligned(start, end, rows)
        return here.moved(until, planned=int(time.time() * 1000))

    def _rehearsal(self, here: Offsets) -> Offsets:
        """The end of a batch without records, which a launch that finds nothing to read begins with.

        The first batch of a driver is slow: its code is compiled, its workers start. So it comes before the
        driver is called running, and not when the first record has waited for it.
        """
        self._begun = True
        return here.moved(here.next, planned=max(int(time.time() * 1000), here.planned + 1))

    def _aligned(self, start: Positions, end: Positions, rows: int) -> Positions:
        """The end of a batch of about `rows` records; see `alignment`."""
        offsets = sum(end[partition] - start[partition] for partition in end)
        if offsets * max(self._weight, _SMALL) <= rows:
            return end
        glimpses = Glimpses(self._surveyed().broker, self._timed)
        heads = {p: offset for p, offset in start.items() if offset < end[p]}
        self._weight = glimpses.weight(heads)
        if offsets * self._weight <= rows:
            return end
        broker = self._surveyed().broker
        if alignment.follows_event_time(glimpses.lags(heads), self._plan.delay):
            return alignment.aligned(
                start,
                end,
                rows,
                glimpses.by_kafka_time,
                lambda horizon, from_, _: broker.first_at(horizon, from_),
            )
        return alignment.aligned(
            start,
            end,
            rows,
            glimpses.by_event_time,
            lambda horizon, from_, until: alignment.search(horizon, from_, until, glimpses.by_event_time),
        )

    def _samples(self, at: Positions) -> dict[Partition, list[tuple[Message, int]]]:
        """The next few records from these offsets on that have an event time, with that time in us."""
        messages = self._surveyed().broker.samples(at, SAMPLE)
        return {partition: list(self._timed(some)) for partition, some in messages.items()}

    def _timed(self, messages: Sequence[Message]) -> Iterator[tuple[Message, int]]:
        """The messages that have an event time, with that time in us."""
        if self._decoder is None:
            self._decoder = Decoder(self._plan.descriptor, (), self._plan.time_field)
        return event_times(messages, self._decoder, int(time.time() * 1000), self._plan.tolerance)

    def _tick(self, here: Offsets) -> Offsets:
        """These offsets, or with a tick if one is owed; everything has been read."""
        now = time.monotonic()
        if self._busy_until is None:
            self._busy_until = now
        plan = self._plan
        silent = plan.idle_timeout > 0 and now - self._busy_until >= plan.idle_timeout / 1000
        if not silent or plan.windows is None or self._target is not None:
            self._say(silent=False)
            return here
        self._learn_newest(here)
        self._say(silent=True)
        clocks = plan.board.clocks()
        own = clocks.pop(plan.key)
        if self._ticked is not None:
            own = own.after(self._ticked)
        idle_until = int(time.time() * 1000) - plan.idle_timeout
        tick = next_tick(own, list(clocks.values()), plan.windows, idle_until)
        if tick is None:
            return here
        self._ticked = tick
        # After a restart Spark has forgotten this reader's watermark: the same tick again must be a new
        # offset.
        return here.moved(here.next, tick=max(tick, here.tick + 1), planned=int(time.time() * 1000))

    def _learn_newest(self, here: Offsets) -> None:
        """Once in each silence: how new what has been read is, whoever has read it."""
        if self._sampled == here.next:
            return
        glimpses = Glimpses(self._surveyed().broker, self._timed)
        walks = {partition: newest(0, offset) for partition, offset in here.next.items() if offset}
        times = [time for time in together(walks, glimpses.by_event_time).values() if time is not None]
        self._sampled = here.next
        self._say(data=max(times, default=None))

    def _say(self, **news: Any) -> None:
        """Tells the board what is new, if it is."""
        word = Word(**{name: news.get(name, getattr(self._word, name)) for name in Word.__slots__})
        if word != self._word:
            self._word = word
            self._plan.board.say(self._plan.key, word)
