"""The index of what was set aside follows its topic."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaTimeoutError
from daggers.v1 import gateway_pb2
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError
from sqlmodel import Session, select
from tests.contracts.quarantine import QuarantineTopicContract, set_aside
from tests.proxy import Proxy, port_of

from api_gateway.quarantine.follower import QuarantineFollower, TopicUnreadable
from api_gateway.quarantine.index import QuarantineIndex
from api_gateway.quarantine.memory import MemoryQuarantine
from api_gateway.quarantine.reads import DaggerLife, QuarantineReads
from api_gateway.quarantine.topic import KafkaQuarantine, TopicReader
from api_gateway.state.database import Database
from api_gateway.state.tables import PartitionRow, QuarantineRow
from eventlog import topics
from eventlog.admin import ensure_topics
from kafkaclient import Connection

pb = gateway_pb2
BIG = 1 << 30
MINE = DaggerLife("mine", 0)
NOON = 1_700_000_000_000


class TestMemoryQuarantine(QuarantineTopicContract):
    @pytest.fixture
    def topic(self) -> MemoryQuarantine:
        return MemoryQuarantine()

    async def place(self, topic: Any, partition: int, record: tuple[Any, ...], *, time_ms: int) -> None:
        topic.place(partition, *record, time_ms=time_ms)


@pytest.mark.integration
class TestKafkaQuarantine(QuarantineTopicContract):
    @pytest.fixture
    async def topic(self, kafka: str) -> KafkaQuarantine:
        self.kafka, self.name = kafka, f"gateway-test-{uuid.uuid4().hex[:12]}"
        await ensure_topics(Connection(kafka), (topics.Topic(self.name, 2, {}),))
        return KafkaQuarantine(Connection(kafka), self.name)

    async def place(self, topic: Any, partition: int, record: tuple[Any, ...], *, time_ms: int) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self.kafka)
        await producer.start()
        key, headers, value = record
        await producer.send_and_wait(
            self.name, value, key=key, headers=headers, partition=partition, timestamp_ms=time_ms
        )
        await producer.stop()


async def read_something(reader: TopicReader) -> None:
    """Read until something comes."""
    while not await reader.read():
        pass


@pytest.mark.integration
async def test_a_reader_that_hears_nothing_of_what_is_written_says_so_and_is_opened_anew(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkaclient.replacing.PATIENCE_S", 2.0)
    name, broker = f"gateway-test-{uuid.uuid4().hex[:12]}", port_of(f"//{kafka}")
    await ensure_topics(Connection(kafka), (topics.Topic(name, 1, {}),))
    near = KafkaQuarantine(Connection(kafka), name)
    with Proxy(broker, kafka=True) as before, Proxy(broker, kafka=True) as after:
        after.cut()
        far = KafkaQuarantine(Connection(f"127.0.0.1:{before.port},127.0.0.1:{after.port}"), name)
        async with asyncio.timeout(60):
            async with far.open_reader() as reader:
                assert not await reader.read()
                before.cut()  # who knows the broker by this address asks at the other one never
                after.open()
                await near.append(0, b"d", [], b"written")
                with pytest.raises(KafkaConnectionError):
                    await read_something(reader)
            async with far.open_reader() as reader:
                read = await reader.read()

    assert [message.value for message in read] == [b"written"]


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    made = Database(database_url)
    yield made
    made.close()


@asynccontextmanager
async def following(topic: Any, database: Database) -> AsyncIterator[QuarantineFollower]:
    follower = QuarantineFollower(topic, QuarantineIndex(database))
    running = asyncio.create_task(follower.run())
    try:
        yield follower
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def settled(follower: QuarantineFollower) -> int:
    """As `caught_up`, once it does not fail."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await follower.wait_until_caught_up(20)
            except TopicUnreadable:
                await asyncio.sleep(0.01)


async def followed(topic: Any, database: Database) -> None:
    """The index, once it holds what the topic does."""
    async with following(topic, database) as follower:
        missing = await follower.wait_until_caught_up(20)
    assert missing == 0


def listed(database: Database, dagger: str = "mine", since: int = 0, limit: int = 1_000) -> list[int]:
    found, _ = QuarantineReads(database).page(DaggerLife(dagger, since), before=None, limit=limit, size=BIG)
    return [each.record.offset for each in found]


def filled(count: int = 40) -> MemoryQuarantine:
    topic = MemoryQuarantine()
    for number in range(count):
        dagger = "mine" if number % 4 == 0 else "other"
        topic.place(number // 4 % 2, *set_aside(dagger, number), time_ms=NOON + number)
    return topic


async def test_the_newest_records_of_a_dagger_are_listed_from_every_partition(database: Database) -> None:
    await followed(filled(), database)

    assert (listed(database, limit=3), listed(database, "nobody")) == ([36, 32, 28], [])


async def test_pages_end_where_the_next_begins_and_hold_every_record_once(database: Database) -> None:
    topic = MemoryQuarantine(3)
    for number in range(30):  # ten at each instant, in all partitions
        topic.place(number % 3, *set_aside("mine", number), time_ms=NOON + number // 10)
    await followed(topic, database)
    reads, before, pages = QuarantineReads(database), None, []
    while True:
        found, before = reads.page(MINE, before=before, limit=7, size=BIG)
        pages.append([each.record.offset for each in found])
        if before is None:
            break

    paged = [offset for page in pages for offset in page]
    assert [len(page) for page in pages] == [7, 7, 7, 7, 2]
    assert (paged, sorted(paged)) == (listed(database), list(range(30)))


async def test_a_page_is_cut_where_it_is_as_large_as_an_answer_may_be(database: Database) -> None:
    topic = MemoryQuarantine(1)
    for number in range(5):
        topic.place(0, *set_aside("mine", number, value=b"x" * 1_000), time_ms=NOON + number)
    await followed(topic, database)
    reads = QuarantineReads(database)

    found, behind = reads.page(MINE, before=None, limit=5, size=2_500)
    one, _ = reads.page(MINE, before=None, limit=5, size=10)

    assert ([each.record.offset for each in found], behind, len(one)) == ([4, 3], (NOON + 3, 3, 0), 1)


async def test_records_of_an_earlier_dagger_of_the_name_are_not_listed(database: Database) -> None:
    topic = MemoryQuarantine(1)
    for number, generation in enumerate((5, 9, 12)):
        topic.place(0, *set_aside("mine", number, generation=generation), time_ms=NOON + number)
    await followed(topic, database)

    assert listed(database, since=9) == [2]


async def test_what_is_no_record_of_a_dagger_is_read_over(database: Database) -> None:
    topic = MemoryQuarantine(1)
    topic.place(0, b"mine", [], b"by hand", time_ms=NOON)
    topic.place(0, *set_aside("Not a name\0", 1), time_ms=NOON)
    topic.place(0, *set_aside("mine", 2), time_ms=NOON)
    await followed(topic, database)

    assert listed(database) == [2]


async def test_retention_takes_rows_with_their_records(database: Database, monkeypatch: Any) -> None:
    monkeypatch.setattr("api_gateway.quarantine.index._STEP", 3)
    topic = filled()
    await followed(topic, database)
    topic.first = [10, 20]
    await followed(topic, database)

    with Session(database.engine) as session:
        held = sorted(session.exec(select(QuarantineRow.partition, QuarantineRow.offset)).all())

    assert held == [(0, offset) for offset in range(10, 20)]


async def test_a_topic_that_was_made_anew_is_read_from_its_first_record(database: Database) -> None:
    await followed(filled(), database)
    longer, shorter = filled(80), filled(12)
    for partition in longer.partitions:
        partition[:] = [replace(message, time_ms=message.time_ms + 1) for message in partition]

    await followed(longer, database)
    after_longer = listed(database)
    await followed(shorter, database)
    after_shorter = listed(database)

    assert (after_longer, after_shorter) == (list(range(76, -1, -4)), [8, 4, 0])


async def test_tables_of_other_code_are_made_anew_from_the_topic(database: Database) -> None:
    await followed(filled(), database)
    with Session(database.engine) as session:
        for row in session.exec(select(PartitionRow)):
            row.shape = "of another time"
            session.add(row)
        session.commit()

    await followed(filled(), database)

    assert listed(database) == list(range(36, -1, -4))


class Closing(MemoryQuarantine):
    """A topic whose readers take their time to answer and to close, and answer nobody from then on."""

    @asynccontextmanager
    async def open_reader(self) -> AsyncIterator[Any]:
        async with super().open_reader() as reader:
            bounds, closing = reader.bounds, asyncio.Event()

            async def slowly() -> Any:
                await asyncio.sleep(0.03)
                if closing.is_set():
                    raise KafkaTimeoutError
                return await bounds()

            reader.bounds = slowly
            try:
                yield reader
            finally:
                closing.set()
                await asyncio.sleep(0.05)


async def test_who_asks_while_the_topic_is_opened_anew_is_answered(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api_gateway.quarantine.follower._SESSION_S", 0.1)
    async with following(Closing(), database) as follower:

        async def asks(after_s: float) -> int:
            await asyncio.sleep(after_s)
            return await follower.wait_until_caught_up(20)

        missing = await asyncio.gather(*(asks(number / 100) for number in range(100)))

    assert missing == [0] * 100


async def test_two_gateways_of_one_database_hold_every_record_once(database: Database) -> None:
    topic = filled(400)
    QuarantineIndex(database).prepare()
    async with following(topic, database) as one, following(topic, database) as two:
        missing = [await settled(one), await settled(two)]

    assert missing == [0, 0]
    assert listed(database) == list(range(396, -1, -4))


async def test_an_index_whose_database_fails_goes_on_when_it_is_back(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api_gateway.quarantine.follower._RETRY_S", 0.01)
    write, failures = QuarantineIndex.write, iter([True, True])

    def failing(index: QuarantineIndex, messages: Any) -> None:
        if next(failures, False):
            raise OperationalError("COMMIT", {}, Exception("it does not answer"))
        write(index, messages)

    monkeypatch.setattr(QuarantineIndex, "write", failing)
    async with following(filled(), database) as follower:
        missing = await settled(follower)

    assert missing == 0
    assert listed(database) == list(range(36, -1, -4))


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from(["mine", "other"]), st.integers(0, 3)), max_size=40
    ),
    st.sets(st.integers(0, 40)),
)
@settings(max_examples=settings.default.max_examples // 2)
def test_an_index_that_was_stopped_anywhere_is_that_of_one_look(
    records: list[tuple[int, str, int]], cuts: set[int]
) -> None:
    async def kept(stops: set[int], folder: str) -> Any:
        topic, database = MemoryQuarantine(), Database(f"sqlite:///{folder}/{len(stops)}.db")
        for number, (partition, dagger, late) in enumerate(records):
            topic.place(partition, *set_aside(dagger, number), time_ms=NOON + number - late)
            if number in stops:
                await followed(topic, database)
        await followed(topic, database)
        with Session(database.engine) as session:
            rows = [tuple(row.model_dump().values()) for row in session.exec(select(QuarantineRow))]
        found = sorted(rows), listed(database)
        database.close()
        return found

    with tempfile.TemporaryDirectory() as folder:
        stopped, whole = asyncio.run(kept(cuts | {99}, folder)), asyncio.run(kept(set(), folder))

    assert stopped == whole
