from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from daggers.v1 import events_pb2
from tests.proxy import Proxy, port_of

from eventlog import Draft, LogDamaged, LogError, LogUnavailable, Record, RecordTooLarge, topics
from eventlog.admin import ensure_topics
from eventlog.kafka import SILENCE_S, KafkaLog
from eventlog.reader import Message, PartitionReader
from eventlog.tail import KafkaTail
from eventlog.testing import START, LogContract
from kafkaclient import Connection

pytestmark = pytest.mark.integration
EVER = datetime(2000, 1, 1, tzinfo=UTC)


def fresh_topic() -> str:
    return f"eventlog-test-{uuid.uuid4().hex[:12]}"


def draft(number: int) -> Draft:
    return Draft(f"id-{number}", "/test", "a_dagger", START, events_pb2.StartRequested(name="a_dagger"))


@pytest.fixture
async def log(kafka: str) -> AsyncIterator[KafkaLog]:
    async with KafkaLog(Connection(kafka), fresh_topic()) as opened:
        yield opened


@pytest.fixture
async def admin(kafka: str) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await client.start()
    yield client
    await client.close()


class TestKafkaLog(LogContract):
    @pytest.fixture
    async def log(self, kafka: str) -> AsyncIterator[KafkaLog]:
        async with KafkaLog(Connection(kafka), fresh_topic()) as opened:
            yield opened

    async def write_raw(self, log: KafkaLog, headers: list[tuple[str, bytes]], value: bytes) -> None:
        producer = AIOKafkaProducer(**log._connection.aiokafka())
        await producer.start()
        await producer.send_and_wait(log._topic, value, headers=headers, partition=0)
        await producer.stop()


async def test_the_topic_is_created_with_one_partition_and_kept_forever(
    kafka: str, admin: AIOKafkaAdminClient
) -> None:
    topic = fresh_topic()
    async with KafkaLog(Connection(kafka), topic):
        (described,) = await admin.describe_topics([topic])
        config: dict[str, str] = {}
        async with asyncio.timeout(30):
            while not config:  # the broker that answers may not know a new topic's settings yet
                (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
                config = {entry[0]: entry[1] for entry in answer.resources[0][4]}

    kept = (config["cleanup.policy"], config["retention.ms"], config["retention.bytes"])

    assert (len(described["partitions"]), kept) == (1, ("delete", "-1", "-1"))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_a_topic_that_its_brokers_compress_is_read(
    kafka: str, admin: AIOKafkaAdminClient, codec: str
) -> None:
    topic = fresh_topic()
    await admin.create_topics([NewTopic(topic, 1, 1, topic_configs={"compression.type": codec})])
    async with KafkaLog(Connection(kafka), topic) as log:
        for number in range(3):
            await log.append(draft(number))
        async with aclosing(log.replay()) as records:
            found = [record.id async for record in records]

    assert found == ["id-0", "id-1", "id-2"]


async def test_an_existing_topic_is_used_as_it_is(kafka: str) -> None:
    topic = fresh_topic()
    async with KafkaLog(Connection(kafka), topic) as first:
        await first.append(draft(0))
    async with KafkaLog(Connection(kafka), topic) as second:
        end = await second.end()

    assert end == 0


async def test_all_topics_are_created_once_and_asking_again_is_fine(
    kafka: str, admin: AIOKafkaAdminClient
) -> None:
    wanted = (topics.log_topic(fresh_topic()), topics.Topic(fresh_topic(), 3, {"retention.ms": "1000"}))
    await ensure_topics(Connection(kafka), wanted)
    await ensure_topics(Connection(kafka), wanted)

    described = await admin.describe_topics([topic.name for topic in wanted])

    assert {t["topic"]: len(t["partitions"]) for t in described} == {wanted[0].name: 1, wanted[1].name: 3}


async def test_a_topic_name_kafka_refuses_is_an_error_that_names_it(kafka: str) -> None:
    with pytest.raises(LogError, match=r"refuses to create topic no/slash"):
        await ensure_topics(Connection(kafka), (topics.log_topic("no/slash"),))


async def _collect(records: AsyncIterator[Record], ids: set[str]) -> None:
    async for record in records:
        ids.add(record.id)


async def _exhaust(records: AsyncIterator[Record]) -> None:
    async for _ in records:
        pass


# A reader may have looked already while the topic was still shorter than in the end, or have read on in it.
@pytest.mark.parametrize(
    ("others", "why"),
    [(0, "lost records"), (2, "lost records|ends at 1"), (5, "lost records|another record at sequence [02]")],
)
async def test_a_reader_whose_topic_is_made_anew_is_told_of_the_damage_however_long_it_is(
    log: KafkaLog, admin: AIOKafkaAdminClient, kafka: str, others: int, why: str
) -> None:
    for number in range(3):
        await log.append(draft(number))
    following = log.follow()
    for _ in range(3):
        await anext(following)
    await admin.delete_topics([log._topic])
    followed_on: set[str] = set()
    reading = asyncio.ensure_future(_collect(following, followed_on))
    async with asyncio.timeout(60):
        while log._topic in await admin.list_topics():
            pass
        async with KafkaLog(Connection(kafka), log._topic) as other:
            for number in range(others):
                await other.append(draft(number if others == 2 else number + 100))

        with pytest.raises(LogDamaged, match=why):
            await reading

    assert followed_on == set()


async def _swap(reader: PartitionReader, log: KafkaLog, admin: AIOKafkaAdminClient, kafka: str) -> None:
    """Make the log's topic anew, with five other records, without its reader seeing it meanwhile."""
    # or it may see the other topic while that is still empty
    reader._consumer.pause(reader._partition)
    await admin.delete_topics([log._topic])
    while log._topic in await admin.list_topics():
        pass
    async with KafkaLog(Connection(kafka), log._topic) as other:
        for number in range(5):
            await other.append(draft(number + 100))
    reader._consumer.resume(reader._partition)


@pytest.mark.parametrize(
    ("waiting", "followed_on"),
    [
        pytest.param(False, {"id-103", "id-104"}, id="between two reads"),
        pytest.param(True, set(), id="while it waits for records"),
    ],
)
async def test_a_topic_that_is_made_anew_is_damage_though_its_records_follow_on(
    log: KafkaLog,
    admin: AIOKafkaAdminClient,
    kafka: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    waiting: bool,
    followed_on: set[str],
) -> None:
    read, swapped = PartitionReader.read, asyncio.Event()
    ids: set[str] = set()

    async def read_and_swap(reader: PartitionReader) -> list[Message]:
        if waiting and not swapped.is_set():
            swapped.set()
            await _swap(reader, log, admin, kafka)
            await asyncio.sleep(2 * SILENCE_S)  # as long as people take at least
        messages = await read(reader)
        looked_again = [message.offset for message in messages] == [2]
        if looked_again and not swapped.is_set():
            swapped.set()
            await _swap(reader, log, admin, kafka)
        return messages

    for number in range(3):
        await log.append(draft(number))
    following = log.follow()
    for _ in range(3):
        await anext(following)
    monkeypatch.setattr(PartitionReader, "read", read_and_swap)

    async with asyncio.timeout(60):
        with pytest.raises(LogDamaged, match=r"another record at sequence [02]"):
            await _collect(following, ids)

    assert ids == followed_on


async def test_a_log_whose_first_records_were_deleted_is_damaged(
    log: KafkaLog, admin: AIOKafkaAdminClient
) -> None:
    for number in range(3):
        await log.append(draft(number))
    await admin.delete_records({TopicPartition(log._topic, 0): RecordsToDelete(before_offset=2)})

    with pytest.raises(LogDamaged, match="begins at 2"):
        await anext(log.replay())


async def test_another_cluster_behind_the_same_address_is_damage(log: KafkaLog) -> None:
    await log.append(draft(0))
    log._cluster_id = "another"

    with pytest.raises(LogDamaged, match="is now Kafka cluster"):
        await anext(log.replay())


async def test_a_record_beyond_the_limit_is_refused_and_not_written(log: KafkaLog) -> None:
    huge = Draft("huge", "/test", "a", START, events_pb2.StartRequested(name="x" * 2_000_000))
    with pytest.raises(RecordTooLarge):
        await log.append(huge)

    end = await log.end()

    assert end == -1


async def test_the_log_works_again_with_a_new_producer_after_one_was_given_up(log: KafkaLog) -> None:
    await log.append(draft(0))
    assert log._producer is not None
    await log._give_up(log._producer)
    await log.append(draft(0))

    replayed = [record.id async for record in log.replay()]

    assert replayed == ["id-0", "id-0"]


async def test_no_broker_is_unavailable(unused_tcp_port: int) -> None:
    with pytest.raises(LogUnavailable, match=f"127.0.0.1:{unused_tcp_port}"):
        async with KafkaLog(Connection(f"127.0.0.1:{unused_tcp_port}"), "any"):
            pass


async def test_a_replay_that_kafka_leaves_in_the_middle_says_so(
    kafka: str, log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventlog.reader._FETCH_BYTES", 1)  # a record at a time
    monkeypatch.setattr("eventlog.reader.REQUEST_TIMEOUT_MS", 6_000)
    for number in range(5):
        await log.append(draft(number))
    with Proxy(port_of(f"//{kafka}"), kafka=True) as way:
        async with KafkaLog(Connection(f"127.0.0.1:{way.port}"), log._topic) as far, asyncio.timeout(60):
            replaying = far.replay()
            await anext(replaying)
            way.cut()
            with pytest.raises(LogUnavailable):
                await _exhaust(replaying)


async def test_a_tail_goes_on_where_it_was_once_kafka_is_back(kafka: str, log: KafkaLog) -> None:
    await log.append(draft(0))
    with Proxy(port_of(f"//{kafka}"), kafka=True) as way:
        tail = KafkaTail(Connection(f"127.0.0.1:{way.port}"), log._topic)
        async with asyncio.timeout(60), aclosing(tail.follow(EVER)) as arrivals:
            first = await anext(arrivals)
            coming = asyncio.ensure_future(anext(arrivals))
            way.cut()
            way.touched.clear()
            await log.append(draft(1))
            tried_again = await asyncio.to_thread(way.touched.wait, 30)
            heard_meanwhile = coming.done()
            way.open()
            second = await coming

    assert (tried_again, heard_meanwhile) == (True, False)
    assert [(each.record.id, each.past) for each in (first, second)] == [("id-0", True), ("id-1", False)]


async def test_a_tail_begins_with_what_came_since_then(kafka: str, log: KafkaLog) -> None:
    await log.append(draft(0))
    tail = KafkaTail(Connection(kafka), log._topic)
    async with asyncio.timeout(60), aclosing(tail.follow(datetime.now(UTC) + timedelta(hours=1))) as arrivals:
        coming = asyncio.ensure_future(anext(arrivals))
        number = 0
        while not coming.done():  # what was there is passed; of what comes, the first that is read
            number += 1
            await log.append(draft(number))
            await asyncio.wait({coming}, timeout=0.5)

    assert not coming.result().past
    assert coming.result().record.id != "id-0"


async def test_a_tail_without_a_broker_says_so(unused_tcp_port: int) -> None:
    with pytest.raises(LogUnavailable, match=f"127.0.0.1:{unused_tcp_port}"):
        await anext(KafkaTail(Connection(f"127.0.0.1:{unused_tcp_port}"), "any").follow(EVER))
