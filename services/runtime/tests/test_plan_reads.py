"""What a plan says that an edited query reads again, beside what the launch after it decides."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from daggers.v1 import gateway_pb2, spec_pb2
from services.runtime.tests.launches import Dagger, whole
from tests.integration.bookings import COUNT_SQL, NOON, booking

from runtime import planreads
from runtime.errors import JobError
from runtime.source.offsets import Offsets, Partition
from runtime.source.planner.broker import Broker

pytestmark = pytest.mark.integration
BEGAN = int(time.time()) // 60 * 60 - 3600
CLOSED = datetime.fromtimestamp(BEGAN + 1000, UTC)
RECORDS = 1200
"""One a second."""
FUTURE_S = 300
"""By how much clocks may be ahead."""
EDITED = COUNT_SQL.replace("'COMPLETED'", "'DONE'")


class Edited(Dagger):
    """A dagger that was edited after it had read all records and closed windows up to `CLOSED`."""

    def stood(self, closed: datetime | None = CLOSED) -> None:
        """Write the records, and the checkpoint as Spark and a reader leave it."""
        for second in range(RECORDS):
            at = BEGAN + second
            self._producer.produce(self.topic, booking(at - NOON), timestamp=at * 1000)
        assert self._producer.flush(30) == 0
        broker = Broker({"bootstrap.servers": self.kafka}, "g")
        id_ = broker.topics([self.topic])[self.topic].id
        broker.close()
        path = self.checkpoints / "checkpoints" / "an-earlier-one"
        for log in ("commits", "offsets", "source-start"):
            (path / log).mkdir(parents=True)
        begun = Offsets({self.topic: id_}, {Partition(self.topic, 0): 0})
        (path / "source-start" / "s0.json").write_text(json.dumps(begun.as_json()))
        mark = 0 if closed is None else int(closed.timestamp() * 1000)
        end = json.dumps(begun.move_to({Partition(self.topic, 0): RECORDS}).as_json())
        (path / "offsets" / "4").write_text(f'v1\n{{"batchWatermarkMs":{mark}}}\n{end}\n-')
        (path / "commits" / "4").write_text("v1\n{}")

    def job(self) -> spec_pb2.JobSpec:
        """The launch after the edit."""
        self.sql = EDITED
        self.sinks = [spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink(limit=1)))]
        return whole(self.spec(self.folder))

    def lose(self, before: int) -> None:
        """Have Kafka delete the records before an offset, as retention does."""
        admin = AdminClient({"bootstrap.servers": self.kafka})
        for done in admin.delete_records([TopicPartition(self.topic, 0, before)]).values():
            done.result(30)


def offsets(found: gateway_pb2.PlannedReads) -> list[tuple[int, int, int]]:
    return [(range_.begin, range_.end, range_.first) for range_ in found.ranges]


def test_the_records_of_open_windows_are_counted_from_where_the_launch_will_begin(
    tmp_path: Path, kafka: str
) -> None:
    dagger = Edited(tmp_path, kafka)
    dagger.stood()
    before = sorted(tmp_path.rglob("*"))
    found = planreads.reads(dagger.job())
    begin = 1000 - 60 - FUTURE_S

    assert (offsets(found), found.records) == ([(begin, RECORDS, 0)], RECORDS - begin)
    assert found.records_since == RECORDS - (1000 - 60)  # one a second, by the time that is told
    assert found.closed.ToDatetime(UTC) == CLOSED
    assert found.since.ToDatetime(UTC) == found.whole_from.ToDatetime(UTC) == CLOSED - timedelta(minutes=1)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_kafka_has_deleted_of_open_windows_is_told_by_the_time_from_which_they_are_whole(
    tmp_path: Path, kafka: str
) -> None:
    dagger = Edited(tmp_path, kafka)
    dagger.stood()
    dagger.lose(1100)
    found = planreads.reads(dagger.job())

    assert (offsets(found), found.records, found.records_since) == ([(1100, RECORDS, 1100)], 100, 100)
    # The first record that is left may be late by the delay of a second.
    assert found.whole_from.ToDatetime(UTC) == CLOSED + timedelta(seconds=101, microseconds=1)


def test_before_a_window_was_closed_all_is_read_and_what_is_gone_is_counted(
    tmp_path: Path, kafka: str
) -> None:
    dagger = Edited(tmp_path, kafka)
    dagger.stood(closed=None)
    whole_ = planreads.reads(dagger.job())
    dagger.lose(7)
    found = planreads.reads(dagger.job())

    assert (offsets(whole_), whole_.missing, whole_.HasField("since")) == ([(0, RECORDS, 0)], 0, False)
    assert (offsets(found), found.missing, found.HasField("closed")) == ([(7, RECORDS, 7)], 7, False)


def test_without_a_checkpoint_it_begins_where_its_streams_say(tmp_path: Path, kafka: str) -> None:
    dagger = Edited(tmp_path, kafka)
    dagger.stood()
    dagger.checkpoints = tmp_path / "none"

    assert offsets(planreads.reads(dagger.job())) == [(0, RECORDS, 0)]


def test_a_checkpoint_that_takes_a_jvm_is_said(tmp_path: Path) -> None:
    with pytest.raises(JobError) as caught:
        planreads.standing("hdfs://there/checkpoints/d-1", "x")

    assert (caught.value.error.reason, planreads.standing(str(tmp_path), "x")) == (
        "CHECKPOINT_ELSEWHERE",
        None,
    )
