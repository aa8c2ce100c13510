"""A client of librdkafka that forgot all brokers is replaced, and what it does goes on.

A broker without a lease answers Metadata with topics and no broker; librdkafka then asks nobody any more.
The proxy answers so for a moment, and honestly from then on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from services.runtime.tests.test_source_assignment import reader_plan
from services.runtime.tests.test_source_ranges import send
from tests.proxy import LOOPBACK, Proxy, port_of

from runtime.errors import TemporaryError
from runtime.source.offsets import Partition
from runtime.source.planner.broker import Broker
from runtime.source.reader.consumers import ConsumerCache
from runtime.source.reader.python_consumer import PythonConsumer
from runtime.source.records import Notice, Properties, Records
from runtime.source.tasks import OffsetRange

pytestmark = pytest.mark.integration
RECORDS = 50


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaclient.replacing.PATIENCE_S", 3.0)
    monkeypatch.setattr("kafkaclient.replacing._LOOK_AGAIN_S", 1.0)
    monkeypatch.setattr("runtime.source.planner.broker._TIMEOUT_S", 2.0)


@pytest.fixture
def partition(kafka: str) -> Partition:
    """A partition with a few records."""
    topic = f"stuck-{uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    partition = Partition(topic, 0)
    send(kafka, partition, range(RECORDS))
    return partition


@pytest.fixture
def way(kafka: str) -> Iterator[Proxy]:
    """To the broker."""
    with Proxy(port_of(f"//{kafka}"), kafka=True) as opened:
        yield opened


def test_a_planner_goes_on_once_its_broker_has_its_lease_again(way: Proxy, partition: Partition) -> None:
    with closing(Broker({"bootstrap.servers": f"{LOOPBACK}:{way.port}"}, "stuck")) as broker:
        before = broker.end([partition])
        stuck, end = broker._admin, time.monotonic() + 60
        way.end_lease()
        with suppress(TemporaryError):
            broker.topics([partition.topic])
        with suppress(TemporaryError):
            broker._learn_leaders([partition.topic])
        way.open()
        while time.monotonic() < end:
            try:
                after = broker.end([partition])
                break
            except TemporaryError:
                pass
        sample = broker.samples({partition: 0}, 3)

        fresh = broker._admin

    if fresh is stuck:
        pytest.skip("librdkafka found its brokers again by itself this time: nothing had to be replaced")
    assert (before, after) == ({partition: RECORDS}, {partition: RECORDS})
    assert [message.value() for message in sample[partition]] == [b"0", b"1", b"2"]


class Deaf(PythonConsumer):
    """A client that was given its partition and hears nothing of it any more after its first records."""

    def next(self, count: int, timeout_s: float) -> Records | Notice | None:
        if self.__dict__.setdefault("has_read", False):
            time.sleep(timeout_s)
            return None
        came = super().next(min(count, RECORDS // 2), timeout_s)
        self.__dict__["has_read"] = isinstance(came, Records)
        return came


def test_a_task_reads_on_by_another_client_where_its_own_hears_nothing(
    kafka: str, partition: Partition, tmp_path: Path
) -> None:
    opened: list[type[PythonConsumer]] = []

    def open_one(properties: Properties, wanted: Partition) -> PythonConsumer:
        opened.append(PythonConsumer if opened else Deaf)
        return opened[-1](properties, wanted)

    plan = replace(reader_plan(tmp_path), kafka={"bootstrap.servers": kafka})
    with closing(ConsumerCache(open_one)) as cache:
        read = list(cache.read(plan, OffsetRange(partition, "id", 0, RECORDS), 1))

    assert opened == [Deaf, PythonConsumer]
    assert [int(offset) for records in read for offset in records.offsets] == list(range(RECORDS))


def test_a_task_keeps_its_client_while_kafka_answers_nobody(
    kafka: str, partition: Partition, tmp_path: Path
) -> None:
    opened: list[type[PythonConsumer]] = []

    def open_one(properties: Properties, wanted: Partition) -> PythonConsumer:
        opened.append(PythonConsumer)
        return PythonConsumer(properties, wanted)

    with Proxy(port_of(f"//{kafka}"), kafka=True) as way, closing(ConsumerCache(open_one)) as cache:
        plan = replace(reader_plan(tmp_path), kafka={"bootstrap.servers": f"{LOOPBACK}:{way.port}"})
        way.cut()
        counted: list[int] = []
        threading.Timer(8, lambda: (counted.append(len(opened)), way.open())).start()
        read = list(cache.read(plan, OffsetRange(partition, "id", 0, RECORDS), 1))

    assert counted == [1]
    assert sum(len(records) for records in read) == RECORDS
