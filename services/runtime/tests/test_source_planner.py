"""A planner works wherever it is asked, and keeps to its own launch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql.types import StructType
from services.runtime.tests.source_assignment import HERE, THERE, reader_plan
from services.runtime.tests.source_native import topic_of
from services.runtime.tests.source_ranges import send
from services.runtime.tests.streams import BEGIN, FILES, booking

from daggerspec import rundir
from runtime.source.datasource import data_source
from runtime.source.offsets import LostRecords, Offsets
from runtime.source.plan import BatchRule
from runtime.source.planner.assignment import LoggedBatch
from runtime.source.planner.pace import BatchPace
from runtime.source.planner.planner import Planner
from runtime.source.status import ReaderRegistry
from runtime.source.tasks import AdvanceWatermark, OffsetRange, ReadRanges
from runtime.source.watermark import Windows


def test_planners_of_two_launches_in_threads_of_one_process_do_not_mix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.source.planner.broker._TIMEOUT_S", 0.1)
    nowhere = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}
    one = replace(reader_plan(tmp_path / "one"), kafka=nowhere)
    other = replace(reader_plan(tmp_path / "other"), generation=2, until={HERE: 7, THERE: 5})
    with closing(Planner(one)) as away, closing(Planner(other)) as here, ThreadPoolExecutor(2) as threads:
        ends = threads.map(lambda planner: planner.batch_end(one.start, None).next, (away, here))
        found = list(ends)

    assert found == [one.start.next, other.until]
    assert not ReaderRegistry(tmp_path / "one").state().is_reachable()
    assert ReaderRegistry(tmp_path / "other").state().statuses == {}


@pytest.mark.long  # it waits for a Kafka that is not there
def test_a_shadow_commits_to_no_consumer_group_until_it_is_handed_over(tmp_path: Path) -> None:
    nowhere = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}
    plan = replace(reader_plan(tmp_path), kafka=nowhere, shadow=True)
    with closing(Planner(plan)) as planner:
        planner.commit(plan.start)
        before = "_broker" in vars(planner)  # made when it is needed
        (tmp_path / rundir.HANDED).write_text("0")
        planner.commit(plan.start)
        after = "_broker" in vars(planner)

    assert (before, after) == (False, True)


def test_readers_of_two_launches_have_sources_of_their_own(tmp_path: Path) -> None:
    plan = reader_plan(tmp_path)
    launches = [plan, replace(plan, generation=2), replace(plan, dagger="e"), replace(plan, key="s.1")]

    assert len({data_source(launch, StructType()).name() for launch in launches}) == len(launches)


def test_an_idle_advance_is_a_task_of_its_own_and_no_batch_is_without_a_task(tmp_path: Path) -> None:
    plan = replace(reader_plan(tmp_path), until={HERE: 7, THERE: 5})
    with closing(Planner(plan)) as planner:
        end = planner.batch_end(plan.start, None)
        advanced = end.move_to(end.next, idle_advance=99)
        read, idle, empty = (
            planner.tasks(*ends) for ends in ((plan.start, advanced), (end, advanced), (end, end))
        )

    ranges = (OffsetRange(HERE, "id-a", 5, 7),)
    assert read == [ReadRanges(ranges, end.planned, 2), AdvanceWatermark(99)]
    assert idle == [AdvanceWatermark(99)]
    assert empty == [ReadRanges((OffsetRange(HERE, "id-a", 7, 7),), end.planned, 2)]


GAP = LostRecords("a/0", 3, 1, 2, 7)


@pytest.mark.parametrize("drains", [False, True])
def test_what_is_missing_of_a_repeated_batch_is_told_though_no_records_follow(
    tmp_path: Path, drains: bool
) -> None:
    read = reader_plan(tmp_path).start
    planner = Planner(reader_plan(tmp_path))
    vars(planner)["_topics"] = SimpleNamespace(ends=lambda _: read.next)
    planner._noticed = (GAP,)
    if drains:
        planner.finish_here()
    told = planner._plan_end(read, None)

    assert (told.next, told.lost, told != read) == (read.next, (GAP,), True)
    planner.finish_here()
    assert planner.batch_end(told, None) == told


@pytest.mark.integration
@pytest.mark.parametrize("killed", [False, True], ids=["runs on", "is killed"])
@pytest.mark.parametrize("follows", [True, False], ids=["records follow", "none follow"])
def test_what_is_deleted_before_a_planned_batch_is_read_is_told_by_the_next_one(
    tmp_path: Path, kafka: str, follows: bool, killed: bool
) -> None:
    partition = topic_of(kafka)
    values = [booking(second) for second in range(12)]
    producer, admin = Producer({"bootstrap.servers": kafka}), AdminClient({"bootstrap.servers": kafka})

    def write(some: list[bytes]) -> None:
        for value in some:
            producer.produce(partition.topic, value, partition=0)
        producer.flush()

    def delete(until: int) -> None:
        for done in admin.delete_records([TopicPartition(*partition, until)]).values():
            done.result()

    plan = replace(
        reader_plan(tmp_path),
        kafka={"bootstrap.servers": kafka},
        topics=(partition.topic,),
        message="t.Booking",
        time_field="event_timestamp",
        descriptors=FILES.SerializeToString(),
        start=Offsets({}, {partition: 0}, reader="1/s.0"),
        read_until={str(partition): micros(-1)},
    )
    write(values[:8])
    with ExitStack() as launches:
        planner = launches.enter_context(closing(Planner(plan)))
        first = planner.batch_end(plan.start, None)
        delete(6)  # and nobody knows whether the batch was read before
        if killed:
            relaunch = replace(plan, generation=2, begun=LoggedBatch((first,)).find_begins(plan.start))
            planner = launches.enter_context(closing(Planner(relaunch)))
        if follows:
            write(values[8:10])
        second = planner.batch_end(first, None)
        write(values[10:])
        third = planner.batch_end(second, None)
        delete(8 + 2 * follows)  # the batch that had them is behind us
        last = planner.batch_end(third, None)

    (lost,) = second.lost
    assert (first.lost, third.lost, last.lost) == ((), second.lost, second.lost)
    assert lost[:4] == (str(partition), 6, micros(-1), micros(6) + 1)


def micros(second: float) -> int:
    """An event time of a booking."""
    return round((BEGIN.timestamp() + second) * 1_000_000)


@pytest.mark.integration
@pytest.mark.parametrize(
    "rule",
    [BatchRule(trigger=60_000), BatchRule(trigger=60_000, at_ends=True, longest_wait=90_000, records=10)],
    ids=["forwarding", "many wait"],
)
def test_records_that_wait_for_the_trigger_are_looked_at_once_a_second(
    tmp_path: Path, kafka: str, rule: BatchRule
) -> None:
    partition = topic_of(kafka)
    send(kafka, partition, range(20))
    windows = Windows(60_000, 60_000) if rule.at_ends else None
    plan = replace(
        reader_plan(tmp_path),
        kafka={"bootstrap.servers": kafka},
        topics=(partition.topic,),
        start=Offsets({}, {partition: 0}, reader="1/s.0"),
        batches=rule,
        windows=windows,
    )
    now, waits = 0, 0

    def wait(seconds: float) -> None:
        nonlocal now, waits
        now, waits = now + int(seconds * 1000), waits + 1

    with closing(Planner(plan)) as planner:
        pace = BatchPace(rule, windows, clock=lambda: now, wait=wait)
        assert pace.reads(planner)  # a new reader does at once
        while not pace.reads(planner):
            pass

    assert now == 60_000
    assert waits <= 60
