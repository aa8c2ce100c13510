"""A client of librdkafka that is answered no more beside a broker that answers others is replaced.

One way to it: a broker without a lease answers Metadata with topics and no broker; librdkafka then most often
asks nobody any more. The other one, for sure: a proxy that drops what the clients are answered that it has.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic
from daggers.v1 import telemetry_pb2
from services.runtime.tests.sink_contract import records
from services.runtime.tests.source_assignment import reader_plan
from services.runtime.tests.source_ranges import send
from tests.proxy import LOOPBACK, Proxy, port_of

from daggerspec.topics import QUARANTINE
from kafkaclient.replacing import answers
from runtime.clients.quarantine import Quarantine
from runtime.errors import TemporaryError
from runtime.source.offsets import Partition
from runtime.source.planner.broker import Broker
from runtime.source.reader.consumers import ConsumerCache
from runtime.source.reader.python_consumer import PythonConsumer
from runtime.source.records import Notice, Properties, Records
from runtime.source.tasks import OffsetRange

pytestmark = pytest.mark.integration
RECORDS = 50


def is_answered(way: Proxy, properties: Mapping[str, str]) -> bool:
    """Whether a fresh client is answered: who is there already stays deaf, whoever comes now does not."""
    way.hear_new_ones()
    return answers(properties)


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


def end_of(broker: Broker, partition: Partition) -> dict[Partition, int]:
    """Where it ends, asked again and again for a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(TemporaryError):
            return broker.end([partition])
    raise AssertionError("the planner was not answered for a minute")


def samples_of(broker: Broker, partition: Partition, offset: int) -> list[bytes | None]:
    """The first three records from there on, asked for again and again for a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(TemporaryError):
            return [message.value() for message in broker.samples({partition: offset}, 3)[partition]]
    raise AssertionError("the planner was given no record for a minute")


def sampler_of(broker: Broker) -> Consumer:
    """Return the consumer that rests after a sample."""
    [resting] = broker._samplers._resting
    return resting.current


def test_a_planner_whose_clients_are_stuck_reads_on_by_fresh_ones(
    way: Proxy, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("broker", "samplers"):
        monkeypatch.setattr(f"runtime.source.planner.{module}.answers", partial(is_answered, way))
    with closing(Broker({"bootstrap.servers": f"{LOOPBACK}:{way.port}"}, "stuck")) as broker:
        before = broker.end([partition]), samples_of(broker, partition, 0)
        admin, consumer = broker._admin, sampler_of(broker)
        way.deafen()
        after = end_of(broker, partition)
        way.deafen()
        sample = samples_of(broker, partition, 10)

        replaced = broker._admin is not admin, sampler_of(broker) is not consumer

    assert (before, after) == (({partition: RECORDS}, [b"0", b"1", b"2"]), {partition: RECORDS})
    assert (sample, replaced) == ([b"10", b"11", b"12"], (True, True))


def test_a_planner_goes_on_once_its_broker_has_its_lease_again(way: Proxy, partition: Partition) -> None:
    """Whether librdkafka finds its brokers again by itself, which it does at times, or is replaced."""
    with closing(Broker({"bootstrap.servers": f"{LOOPBACK}:{way.port}"}, "stuck")) as broker:
        before = broker.end([partition])
        way.end_lease()
        with suppress(TemporaryError):
            broker.topics([partition.topic])
        with suppress(TemporaryError):
            broker._learn_leaders([partition.topic])
        way.open()
        after = end_of(broker, partition)
        sample = samples_of(broker, partition, 0)

    assert (before, after) == ({partition: RECORDS}, {partition: RECORDS})
    assert sample == [b"0", b"1", b"2"]


def test_a_stuck_client_of_the_quarantine_is_replaced_and_what_it_had_is_written(
    way: Proxy, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.clients.quarantine.answers", partial(is_answered, way))
    monkeypatch.setattr("runtime.clients.quarantine._SAY_S", 1.0)
    name, numbers = f"d{uuid4().hex[:8]}", range(3 * RECORDS)
    quarantine = Quarantine({"bootstrap.servers": f"{LOOPBACK}:{way.port}"}, patience_s=60)

    def put(numbers: range) -> None:
        for number in numbers:
            quarantine.put(telemetry_pb2.Quarantined(dagger=name, offset=number, reason="MALFORMED"), "here")

    put(numbers[:RECORDS])
    quarantine.flush()
    stuck = quarantine._producer
    way.deafen()
    put(numbers[RECORDS:])
    quarantine.flush()

    written = [
        telemetry_pb2.Quarantined.FromString(record.value() or b"")
        for record in records(kafka, QUARANTINE)
        if record.key() == name.encode()
    ]
    assert quarantine._producer is not stuck
    assert sorted({record.offset for record in written}) == [*numbers]
    assert len({record.id for record in written}) == len(numbers)


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
