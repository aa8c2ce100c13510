"""`daggers log` against a real broker: a topic as a file, and a file as the same topic again."""

from __future__ import annotations

import asyncio
import json
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from confluent_kafka import Producer
from conftest import DAGGERS
from daggers.v1 import events_pb2

from cli.__main__ import run
from eventlog import Draft, LogDamaged, Record, topics
from eventlog.admin import ensure_topics
from eventlog.copying import RestoreRefused, read_messages, restore
from eventlog.export import ExportEntry
from eventlog.kafka import KafkaLog
from eventlog.testing import START
from kafkaclient import Connection

pytestmark = pytest.mark.integration
Log = Callable[..., tuple[int, Any]]


def fresh_topic() -> str:
    return f"cli-log-test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def log(kafka: str, capsys: pytest.CaptureFixture[str]) -> Log:
    """Runs `daggers log …`; answers the exit code and the JSON document."""

    def ran(*words: object) -> tuple[int, Any]:
        code = run(["log", *map(str, words), "--kafka", kafka, "-o", "json"])
        return code, json.loads(capsys.readouterr().out)

    return ran


def fill(kafka: str, topic: str, count: int, *, first: int = 0) -> list[Record]:
    """Append that many records to a topic; everything that is in it then."""

    async def filling() -> list[Record]:
        async with KafkaLog(Connection(kafka), topic) as opened:
            for number in range(first, first + count):
                event = events_pb2.StartRequested(name=f"d{number}")
                await opened.append(Draft(f"id-{number}", "/test", f"d{number}", START, event))
            return [record async for record in opened.replay()]

    return asyncio.run(filling())


def content(kafka: str, topic: str) -> list[ExportEntry]:
    async def reading() -> list[ExportEntry]:
        return [entry async for entry in read_messages(Connection(kafka), topic)]

    return asyncio.run(reading())


def administer(kafka: str, act: Callable[[AIOKafkaAdminClient], Any]) -> None:
    async def acting() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
        await admin.start()
        try:
            await act(admin)
        finally:
            await admin.close()

    asyncio.run(acting())


@pytest.fixture
def source(kafka: str) -> str:
    """A topic of five records, one of which cannot be read."""
    topic = fresh_topic()
    fill(kafka, topic, 4)
    producer = Producer({"bootstrap.servers": kafka})
    headers: list[tuple[str, str | bytes | None]] = [("x", None), ("ce_subject", b"d9"), ("x", b"\xff")]
    producer.produce(topic, value=None, key=b"\x00", headers=headers, timestamp=7)
    producer.flush(30)
    return topic


@pytest.fixture
def file(log: Log, source: str, tmp_path: Path) -> Path:
    """That topic, exported."""
    exported = tmp_path / "log.jsonl"
    log("export", exported, "--topic", source)
    return exported


def test_a_restored_topic_holds_every_message_at_its_sequence(
    kafka: str, log: Log, source: str, file: Path
) -> None:
    target = fresh_topic()

    code, document = log("restore", file, "--topic", target)

    assert (code, document) == (0, {"topic": target, "kept": 0, "written": 5, "dry_run": False})
    assert content(kafka, target) == content(kafka, source)
    assert len(content(kafka, source)) == 5


def test_an_export_says_what_it_holds_and_what_cannot_be_read(log: Log, source: str, tmp_path: Path) -> None:
    code, document = log("export", tmp_path / "log.jsonl", "--topic", source)

    (finding,) = document.pop("findings")
    assert code == 0
    assert document == {
        "file": str(tmp_path / "log.jsonl"), "topic": source, "records": 5, "last": 4, "missing": 0,
    }  # fmt: skip
    assert (finding["code"], "sequence 4" in finding["message"]) == ("UNREADABLE", True)
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def test_an_export_to_standard_output_is_the_file_and_nothing_else(
    source: str, file: Path, kafka: str
) -> None:
    command = [DAGGERS, "log", "export", "-", "--topic", source, "--kafka", kafka]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    refused = subprocess.run([*command, "-o", "json"], capture_output=True, check=False, timeout=60)

    assert done.stdout == file.read_bytes()
    assert f"5 records of {source} are written" in done.stderr.decode()
    assert (refused.returncode, b"standard output: name a file" in refused.stderr) == (2, True)


def test_a_restored_topic_is_a_log_that_goes_on(kafka: str, log: Log, file: Path) -> None:
    target = fresh_topic()
    log("restore", file, "--topic", target)

    records = fill(kafka, target, 1, first=5)

    assert [record.sequence for record in records] == [0, 1, 2, 3, 4, 5]


def test_a_topic_that_lost_its_end_is_completed(kafka: str, log: Log, source: str, file: Path) -> None:
    target = fresh_topic()
    fill(kafka, target, 3)

    done = log("restore", file, "--topic", target)
    again = log("restore", file, "--topic", target)

    assert done == (0, {"topic": target, "kept": 3, "written": 2, "dry_run": False})
    assert again == (0, {"topic": target, "kept": 5, "written": 0, "dry_run": False})
    assert [each.value for each in content(kafka, target)] == [each.value for each in content(kafka, source)]


def other_record(kafka: str, topic: str) -> None:
    fill(kafka, topic, 2, first=1)


def longer(kafka: str, topic: str) -> None:
    fill(kafka, topic, 0)
    producer = Producer({"bootstrap.servers": kafka})
    for entry in content(kafka, topic.removeprefix("longer-")):
        producer.produce(topic, entry.value, entry.key, headers=list(entry.headers))
    producer.produce(topic, b"one more")
    producer.flush(30)


def beginning_lost(kafka: str, topic: str) -> None:
    fill(kafka, topic, 4)
    administer(
        kafka,
        lambda admin: admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=2)}),
    )


def emptied(kafka: str, topic: str) -> None:
    fill(kafka, topic, 4)
    administer(
        kafka,
        lambda admin: admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=4)}),
    )


def compacted(kafka: str, topic: str) -> None:
    config = {**topics.log_topic(topic).config, "cleanup.policy": "compact"}
    asyncio.run(ensure_topics(Connection(kafka), (topics.Topic(topic, 1, config),)))


def partitioned(kafka: str, topic: str) -> None:
    asyncio.run(ensure_topics(Connection(kafka), (topics.Topic(topic, 2, topics.log_topic(topic).config),)))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (other_record, "another record at sequence 0"),
        (longer, "goes on behind sequence 4"),
        (beginning_lost, "begins at sequence 2"),
        (emptied, "is empty but goes on at sequence 4"),
        (compacted, "cleanup.policy is compact, not delete"),
        (partitioned, "has 2 partitions, not one"),
    ],
)
def test_a_topic_that_cannot_become_the_file_is_refused_and_left_as_it_is(
    kafka: str, log: Log, source: str, file: Path, spoil: Callable[[str, str], None], why: str
) -> None:
    target = f"longer-{source}" if spoil is longer else fresh_topic()
    spoil(kafka, target)
    before = content(kafka, target)

    code, document = log("restore", file, "--topic", target)

    assert (code, document["error"]["reason"]) == (1, "RESTORE_REFUSED")
    assert why in document["error"]["message"]
    assert content(kafka, target) == before


@pytest.mark.parametrize("spoil", [other_record, beginning_lost, emptied, compacted, partitioned])
def test_with_recreate_the_topic_is_written_anew_whatever_it_held(
    kafka: str, log: Log, source: str, file: Path, spoil: Callable[[str, str], None]
) -> None:
    target = fresh_topic()
    spoil(kafka, target)

    done = log("restore", file, "--topic", target, "--recreate")

    assert done == (0, {"topic": target, "kept": 0, "written": 5, "dry_run": False})
    assert content(kafka, target) == content(kafka, source)
    assert log("verify", "--topic", target)[0] == 0


def test_a_dry_run_says_what_would_be_written_and_writes_nothing(kafka: str, log: Log, file: Path) -> None:
    target, missing = fresh_topic(), fresh_topic()
    fill(kafka, target, 3)

    done = [log("restore", file, "--topic", topic, "--dry-run")[1] for topic in (target, missing)]

    assert [(each["kept"], each["written"]) for each in done] == [(3, 2), (0, 5)]
    assert len(content(kafka, target)) == 3
    assert log("verify", "--topic", missing)[1]["error"]["reason"] == "LOG_UNUSABLE"


def test_a_damaged_file_is_refused_before_anything_is_written(kafka: str, log: Log, file: Path) -> None:
    target = fresh_topic()
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-2]))

    restored, verified = log("restore", file, "--topic", target), log("verify", file)

    assert (restored[0], restored[1]["error"]["reason"]) == (1, "EXPORT_DAMAGED")
    assert verified == restored
    assert log("verify", "--topic", target)[1]["error"]["reason"] == "LOG_UNUSABLE"


def test_a_file_with_gaps_is_restored_only_when_the_loss_is_accepted(
    kafka: str, log: Log, tmp_path: Path
) -> None:
    topic, target, file = fresh_topic(), fresh_topic(), tmp_path / "log.jsonl"
    fill(kafka, topic, 2)
    asyncio.run(transaction(kafka, topic))  # its mark takes a sequence and is no message
    fill_behind(kafka, topic)
    exported = log("export", file, "--topic", topic)[1]

    refused = log("restore", file, "--topic", target)
    done = log("restore", file, "--topic", target, "--fill-gaps")

    assert (exported["records"], exported["missing"]) == (4, 1)
    assert refused[1]["error"]["reason"] == "RECORDS_MISSING"
    assert "sequences 3 to 3 hold nothing" in refused[1]["error"]["findings"][0]["message"]
    assert (done[0], done[1]["written"]) == (0, 5)
    filled = content(kafka, target)
    assert [event for event in filled if event.sequence != 3] == content(kafka, topic)
    assert [event.sequence for event in filled] == [0, 1, 2, 3, 4]


def test_a_log_with_a_gap_is_damaged_and_names_it(kafka: str, log: Log) -> None:
    topic = fresh_topic()
    fill(kafka, topic, 1)
    asyncio.run(transaction(kafka, topic))
    fill_behind(kafka, topic)

    async def replay() -> list[int]:
        async with KafkaLog(Connection(kafka), topic) as opened:
            return [record.sequence async for record in opened.replay()]

    with pytest.raises(LogDamaged, match="nothing between sequences 1 and 3"):
        asyncio.run(replay())
    assert log("verify", "--topic", topic)[1]["error"]["reason"] == "LOG_DAMAGED"


def test_a_restore_beside_another_writer_is_refused(kafka: str, file: Path) -> None:
    target, producer = fresh_topic(), Producer({"bootstrap.servers": kafka})

    def entries() -> Iterator[ExportEntry]:
        for number in range(3):
            if number == 1:  # compared already, not yet written
                producer.produce(target, b"a gateway that nobody stopped")
                producer.flush(30)
            yield ExportEntry(number, 1, b"k", (), b"v")

    with pytest.raises(RestoreRefused, match="somebody else writes"):
        asyncio.run(restore(Connection(kafka), target, entries))


def test_an_export_never_replaces_a_file(log: Log, source: str, file: Path) -> None:
    before = file.read_bytes()

    code, document = log("export", file, "--topic", source)

    assert (code, document["error"]["reason"]) == (1, "FILE_EXISTS")
    assert file.read_bytes() == before


def test_an_export_leaves_what_another_one_writes(log: Log, source: str, tmp_path: Path) -> None:
    part = tmp_path / "control.jsonl.part"
    part.write_text("half")

    code, document = log("export", tmp_path / "control.jsonl", "--topic", source)

    assert (code, document["error"]["reason"]) == (1, "FILE_EXISTS")
    assert part.read_text() == "half"


def test_a_kafka_that_does_not_answer_ends_with_code_3_in_one_line(
    unused_tcp_port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"127.0.0.1:{unused_tcp_port}"

    code = run(["log", "export", str(tmp_path / "log.jsonl"), "--kafka", address])

    said = capsys.readouterr()
    assert (code, said.out) == (3, "")
    assert said.err.splitlines() == [f"error: Kafka at {address} does not answer: KafkaConnectionError"]
    assert list(tmp_path.iterdir()) == []


async def transaction(kafka: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=kafka) as consumer:
        before = (await consumer.end_offsets([partition]))[partition]
        producer = AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=uuid.uuid4().hex)
        await producer.start()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"in a transaction", partition=0)
        await producer.stop()
        async with asyncio.timeout(30):  # the broker answers a commit before it writes the mark
            while (await consumer.end_offsets([partition]))[partition] < before + 2:
                pass


def fill_behind(kafka: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(topic, b"behind")
    producer.flush(30)
