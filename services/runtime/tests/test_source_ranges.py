"""Ranges of a real topic are read exactly, over gaps that transactions leave, by consumers that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from services.runtime.tests.source_assignment import reader_plan
from services.runtime.tests.source_native import topic_of
from services.runtime.tests.source_ranges import send, send_in_transactions
from tests.proxy import LOOPBACK, Proxy, port_of

from runtime.errors import JobError, TemporaryError
from runtime.source.datasource import KafkaReader
from runtime.source.offsets import Offsets, Partition
from runtime.source.planner.broker import Broker
from runtime.source.planner.topic_metadata import TopicMetadata
from runtime.source.reader.consumers import ConsumerCache, Open
from runtime.source.reader.python_consumer import PythonConsumer
from runtime.source.records import LIMITS, Properties
from runtime.source.tasks import OffsetRange, group_ranges

pytestmark = pytest.mark.integration


@pytest.fixture
def partition(kafka: str) -> Partition:
    """The one partition of a fresh topic."""
    topic = f"ranges-{uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    return Partition(topic, 0)


@pytest.fixture
def broker(kafka: str) -> Iterator[Broker]:
    asked = Broker({"bootstrap.servers": kafka}, "ranges")
    yield asked
    asked.close()


@contextmanager
def closing_reader(reader: KafkaReader) -> Iterator[None]:
    """Its connections end."""
    try:
        yield
    finally:
        reader.stop()


class Watched(PythonConsumer):
    """A consumer that says whether it is closed."""

    closed = False

    def close(self) -> None:
        super().close()
        self.closed = True


def read(consumers: ConsumerCache, kafka: str, partition: Partition, start: int, end: int) -> list[int]:
    what = OffsetRange(partition, "id", start, end)
    plan = replace(reader_plan(Path()), kafka={"bootstrap.servers": kafka})
    chunks = consumers.read(plan, what, 1)
    return [int(value) for chunk in chunks for value in chunk.values.to_pylist()]


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], []),
        ([25, 25, 25, 25], [[25, 25, 25, 25]]),
        ([20_000, 20_000], [[20_000], [20_000]]),
        ([6_000, 6_000, 1, 20_000, 3], [[6_000], [6_000, 1], [20_000], [3]]),
    ],
)
def test_small_ranges_share_a_task_and_none_is_lost(sizes: list[int], groups: list[list[int]]) -> None:
    ranges = [OffsetRange(Partition("t", at), "id", 7, 7 + size) for at, size in enumerate(sizes)]

    tasks = group_ranges(ranges)

    assert [one for group in tasks for one in group] == ranges
    assert [[one.end - one.start for one in group] for group in tasks] == groups


@pytest.mark.parametrize(
    ("sizes", "slots", "groups"),
    [
        ([], 2, []),
        ([500_001, 500_000, 499_999, 500_000], 2, [1_000_000, 1_000_000]),
        ([900_000, 200_000, 300_000, 300_000], 2, [900_000, 800_000]),
        ([20_000, 20_000], 8, [20_000, 20_000]),
        ([6_000, 6_000, 1, 20_000, 3], 2, [20_000, 12_004]),
    ],
)
def test_there_are_no_more_tasks_than_run_at_once(sizes: list[int], slots: int, groups: list[int]) -> None:
    ranges = [OffsetRange(Partition("t", at), "id", 7, 7 + size) for at, size in enumerate(sizes)]

    tasks = group_ranges(ranges, slots)

    assert sorted((one for group in tasks for one in group), key=lambda one: one.partition) == ranges
    assert [sum(one.end - one.start for one in group) for group in tasks] == groups


def test_ranges_one_after_the_other_give_every_record_once(kafka: str, partition: Partition) -> None:
    send(kafka, partition, range(100))
    consumers = ConsumerCache()

    numbers = [
        n for start in range(0, 100, 7) for n in read(consumers, kafka, partition, start, min(start + 7, 100))
    ]

    assert numbers == list(range(100))


def opening(opened: list[Watched]) -> Open:
    """Opens consumers, and keeps account of them."""

    def open_(properties: Properties, which: Partition) -> Watched:
        opened.append(Watched(properties, which))
        return opened[-1]

    return open_


def test_a_worker_keeps_the_consumers_of_one_preview_only(kafka: str, partition: Partition) -> None:
    count = LIMITS.records  # of fewer the consumer is shared
    send(kafka, partition, range(count))
    opened = list[Watched]()
    what, plan = (
        OffsetRange(partition, "id", 0, count),
        replace(reader_plan(Path()), kafka={"bootstrap.servers": kafka}),
    )
    with closing(ConsumerCache(opening(opened))) as consumers:
        for generation in (1, 2):
            for key in ("a", "b"):
                preview = replace(plan, generation=generation, key=key, range_end={partition: count})
                assert sum(len(chunk) for chunk in consumers.read(preview, what, 1)) == count
        previews = [each.closed for each in opened]
        dagger = replace(plan, generation=3)
        assert sum(len(chunk) for chunk in consumers.read(dagger, what, 1)) == count
        beside = [each.closed for each in opened]

    assert previews == [True, True, False, False]
    assert beside == [True, True, False, False, False]
    assert all(each.closed for each in opened)


def test_small_ranges_of_all_launches_and_partitions_are_read_by_one_consumer_of_the_cluster(
    kafka: str, partition: Partition
) -> None:
    other = topic_of(kafka)
    for which, first in ((partition, 0), (other, 100)):
        send(kafka, which, range(first, first + 20))
    opened = list[Watched]()
    plan = replace(reader_plan(Path()), kafka={"bootstrap.servers": kafka})
    with closing(ConsumerCache(opening(opened))) as consumers:
        read = [
            [int(value) for chunk in consumers.read(who, OffsetRange(which, "id", start, start + 5), 1)
             for value in chunk.values.to_pylist()]
            for start in (0, 5, 10)
            for which in (partition, other)
            for who in (replace(plan, dagger="one"), replace(plan, dagger="other", group="another"))
        ]  # fmt: skip
        user = replace(plan, kafka={**plan.kafka, "client.id": "another"})
        assert sum(len(chunk) for chunk in consumers.read(user, OffsetRange(other, "id", 0, 5), 1)) == 5

    expected = [
        [*range(first + start, first + start + 5)] for start in (0, 5, 10) for first in (0, 0, 100, 100)
    ]
    assert read == expected
    assert len(opened) == 2
    assert all(each.closed for each in opened)


def test_a_range_is_read_again_from_its_start(kafka: str, partition: Partition) -> None:
    send(kafka, partition, range(20))
    consumers = ConsumerCache()

    assert [read(consumers, kafka, partition, a, b) for a, b in ((5, 15), (5, 15), (0, 3), (18, 20))] == [
        list(range(5, 15)), list(range(5, 15)), [0, 1, 2], [18, 19],
    ]  # fmt: skip


def test_a_range_of_a_transactional_topic_ends_by_position(
    kafka: str, partition: Partition, broker: Broker
) -> None:
    send_in_transactions(kafka, partition, range(10))
    end = broker.end([partition])[partition]
    consumers = ConsumerCache()

    one_by_one = [n for at in range(end) for n in read(consumers, kafka, partition, at, at + 1)]

    assert (end, one_by_one, read(consumers, kafka, partition, 0, end)) == (
        20,
        [0, 2, 4, 6, 8],
        [0, 2, 4, 6, 8],
    )


def test_the_end_of_a_topic_is_before_an_open_transaction(
    kafka: str, partition: Partition, broker: Broker
) -> None:
    send(kafka, partition, range(3))
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": uuid4().hex})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(partition.topic, b"99", partition=0)
    producer.flush()
    end = broker.end([partition])
    producer.abort_transaction()

    assert end == {partition: 3}


def test_samples_are_the_records_from_an_offset_on(kafka: str, partition: Partition, broker: Broker) -> None:
    send(kafka, partition, range(10))

    sampled = [broker.samples({partition: at}, 3)[partition] for at in (4, 8, 10)]

    assert [[int(m.value() or b"") for m in sample] for sample in sampled] == [[4, 5, 6], [8, 9], []]


def test_offsets_beyond_the_end_of_a_topic_end_the_job(
    kafka: str, partition: Partition, broker: Broker
) -> None:
    send(kafka, partition, range(3))
    id_ = broker.topics([partition.topic])[partition.topic].id
    metadata = TopicMetadata(broker, [partition.topic])

    with pytest.raises(JobError) as caught:
        metadata.ends(Offsets({partition.topic: id_}, {partition: 5}))

    assert caught.value.error.reason == "TOPIC_TRUNCATED"


def test_a_topic_of_another_id_ends_the_job(kafka: str, partition: Partition, broker: Broker) -> None:
    send(kafka, partition, range(3))

    with pytest.raises(JobError) as caught:
        TopicMetadata(broker, [partition.topic]).ends(Offsets({partition.topic: "another"}, {partition: 1}))

    assert (caught.value.error.reason, caught.value.error.retryable) == ("TOPIC_RECREATED", False)


def test_a_batch_of_an_earlier_launch_is_not_read_from_a_topic_that_was_made_anew(
    kafka: str, partition: Partition, tmp_path: Path
) -> None:
    send(kafka, partition, range(9))
    start = Offsets({partition.topic: "another"}, {partition: 2}, reader="0/s.0")
    plan = replace(
        reader_plan(tmp_path), topics=(partition.topic,), kafka={"bootstrap.servers": kafka}, start=start
    )
    reader = KafkaReader(plan)

    with closing_reader(reader), pytest.raises(JobError, match="TOPIC_RECREATED"):
        reader.partitions(start.as_json(), start.move_to({partition: 5}).as_json())


def test_a_batch_of_an_earlier_launch_waits_for_no_kafka(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.source.planner.broker._TIMEOUT_S", 0.1)
    nowhere = KafkaReader(replace(reader_plan(tmp_path), kafka={"bootstrap.servers": "127.0.0.1:1"}))
    start = Offsets({"a": "id-a", "b": "id-b"}, {Partition("a", 0): 5}, reader="1/s.0")

    with closing_reader(nowhere):
        assert len(nowhere.partitions(start.as_json(), start.move_to({Partition("a", 0): 9}).as_json())) == 1


def test_a_topic_that_is_not_there_is_named(broker: Broker) -> None:
    with pytest.raises(JobError, match=r"TOPIC_MISSING.*'not-there'") as caught:
        broker.topics(["not-there"])

    assert caught.value.error.retryable


def test_a_topic_that_is_new_can_be_asked_for_its_offsets(kafka: str, broker: Broker) -> None:
    """For a moment after it was made its leaders say that they are not: once in five of these."""
    admin = AdminClient({"bootstrap.servers": kafka})
    for _ in range(20):
        topic = f"ranges-{uuid4().hex[:12]}"
        admin.create_topics([NewTopic(topic, 8, 1)])[topic].result()
        partitions = [Partition(topic, number) for number in range(8)]

        assert broker.first(partitions) == dict.fromkeys(partitions, 0)


def test_a_leader_that_does_not_answer_in_time_is_no_offset(
    kafka: str, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that took librdkafka's answer for one had its topic truncated, and failed for good."""
    with (
        Proxy(port_of(f"//{kafka}"), kafka=True) as way,
        closing(Broker({"bootstrap.servers": f"{LOOPBACK}:{way.port}"}, "ranges")) as broker,
    ):
        before = broker.end([partition])  # where the leader is, is known from here on
        with monkeypatch.context() as impatient, way.slowed(1.0):
            impatient.setattr("runtime.source.planner.broker._TIMEOUT_S", 0.1)
            with pytest.raises(TemporaryError, match="KAFKA_UNREACHABLE"):
                broker.end([partition])

        assert before == broker.end([partition]) == {partition: 0}
