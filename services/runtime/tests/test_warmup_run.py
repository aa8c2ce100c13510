"""A warm-up run without Spark: a spec that a driver accepts, and the Kafka that nobody else hears of."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from daggers.v1 import spec_pb2, telemetry_pb2

from runtime.clients import mock_cluster
from runtime.errors import JobError
from runtime.launch import planned, warmup_run
from runtime.source.offsets import Partition
from runtime.source.planner.broker import Broker


def test_the_dagger_of_a_warm_up_is_one_that_a_driver_takes_and_aggregates_in_its_readers(
    tmp_path: Path,
) -> None:
    made = warmup_run.job(tmp_path, "127.0.0.1:9092", 1)

    plan = planned.check_spec(made)

    assert plan.partial_aggregation is not None
    assert [column.name for column in plan.columns][:3] == ["tag_dagger", "beats", "records"]
    assert not plan.warnings


def test_the_mock_cluster_answers_all_that_a_planner_and_a_reader_ask(tmp_path: Path) -> None:
    with mock_cluster.run_cluster(["beats"]) as address:
        warmup_run._write(spec_pb2.KafkaAddress(bootstrap_servers=address))
        broker = Broker({"bootstrap.servers": address}, "g")
        topic = broker.topics(["beats"])["beats"]
        [partition] = topic.partitions
        first, end = broker.first([partition]), broker.end([partition])
        [sample] = broker.samples({partition: 0}, 1)[partition]
        broker.close()

    assert (topic.leaderless, partition, first) == ((), Partition("beats", 0), {partition: 0})
    assert end == {partition: warmup_run._MINUTES * warmup_run._DAGGERS}
    assert telemetry_pb2.Heartbeat.FromString(sample.value() or b"").dagger == "dagger-0"


def test_the_mock_cluster_is_gone_behind_it() -> None:
    with mock_cluster.run_cluster(["beats"]) as address:
        pass
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "log_level": 0})

    with pytest.raises(KafkaException, match=r"_TRANSPORT|_TIMED_OUT|_ALL_BROKERS_DOWN"):
        consumer.get_watermark_offsets(TopicPartition("beats", 0), 1)
    consumer.close()


def test_a_librdkafka_without_a_mock_cluster_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mock_cluster._FUNCTIONS, "rd_kafka_of_nobody", ((), None))

    with pytest.raises(JobError, match="has no mock cluster"), mock_cluster.run_cluster([]):
        pass
