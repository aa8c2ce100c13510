"""Passwords of Kafka that are replaced while rows are written: new ones are read, and no row is lost.

Sinks whose servers are our own in tests have theirs in their own files (`grep rotated`).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from daggers.v1 import spec_pb2
from services.runtime.tests.test_job_writing import Place, Rows
from services.runtime.tests.test_sink_contract import batch, target
from tests.integration.securedkafka import secured

from kafkaclient import Connection
from runtime import sinks
from runtime.errors import JobError
from runtime.launch import delivery, outages
from runtime.sinks import BatchRef, Target, kafka

pytestmark = pytest.mark.integration
DEADLINE_S = 60
SESSION_S = 1.0
"""So long a login by SCRAM is good for, as the broker says."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(outages, "LONGEST_PAUSE_S", 0.1)
    monkeypatch.setattr("runtime.sinks.kafka.DELIVERY_TIMEOUT_MS", 3_000)


@dataclass
class Told:
    """Everything that is logged, printed, or told of sinks."""

    caplog: pytest.LogCaptureFixture
    capfd: pytest.CaptureFixture[str]
    sinks: list[tuple[str, str]] = field(default_factory=list)
    """What was told of sinks that took no rows, and why."""

    @staticmethod
    def at(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Told:
        caplog.set_level("INFO")
        return Told(caplog, capfd)

    def once(self, place: Place, then: Callable[[], None]) -> threading.Thread:
        """Do something when a sink is first told to take no rows."""

        def wait() -> None:
            end = time.monotonic() + DEADLINE_S
            while not place.told:
                assert time.monotonic() < end, "no sink is told to take no rows"
                time.sleep(0.02)  # polling; bounded by the deadline
            self.sinks += place.told
            then()

        thread = threading.Thread(target=wait)
        thread.start()
        return thread

    def all(self) -> str:
        out, err = self.capfd.readouterr()
        return f"{self.caplog.text}{out}{err}{self.sinks}"


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Told:
    return Told.at(caplog, capfd)


def write(place: Place, number: int) -> int:
    """Write a batch of one row, whose value is its number; the jobs that it took."""
    rows = Rows([batch({(f"2026-01-01T12:{number:02}:00Z", "1"): number})])
    report, skipping = place.writing.write(rows, BatchRef("fingerprint", number, 7))
    assert (sum(report.written.values()), skipping) == (1, {})
    return rows.jobs


@dataclass(frozen=True)
class User:
    """Somebody who writes to a topic of the broker, and the file with the password."""

    connection: Connection
    name: str
    topic: str
    secret: Path
    admin: AdminClient
    """Kept: its end would end what it asks for."""

    def is_known_by(self, password: str) -> None:
        """From now on the broker takes this password, and no other."""
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        asked = [UserScramCredentialUpsertion(self.name, how, password.encode())]
        for done in self.admin.alter_user_scram_credentials(asked).values():
            done.result(DEADLINE_S)

    def has(self, password: str) -> None:
        self.secret.write_text(f"{password}\n")

    @property
    def target(self) -> Target:
        own = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(name="out"), kafka=self.connection.address())
        own.sink.kafka.topic = self.topic
        own.kafka.properties["sasl.mechanism"] = "SCRAM-SHA-256"
        own.kafka.properties["sasl.username"] = self.name
        own.kafka.secret_properties["sasl.password"].file = str(self.secret)
        return target("d", own)

    def read(self) -> list[int]:
        """The values of the rows, once for each that was written; which may be more than once."""
        how = {"group.id": self.topic, "enable.auto.commit": False}
        with closing(Consumer({**self.connection.librdkafka(), **how})) as consumer:
            whole = TopicPartition(self.topic, 0, 0)
            _, end = consumer.get_watermark_offsets(whole, DEADLINE_S)
            consumer.assign([whole])
            found = consumer.consume(end, DEADLINE_S)
            return sorted({json.loads(record.value() or b"")["n"] for record in found})


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with secured(tmp_path_factory.mktemp("secured")) as connection:
        yield connection
        kafka._client.cache_clear()  # what is kept would call for the broker for ever


@pytest.fixture
def user(broker: Connection, tmp_path: Path) -> User:
    """One with a password that the broker knows, and a topic."""
    name = uuid4().hex[:8]
    admin = AdminClient({**broker.librdkafka(), "log_level": 0})
    made = User(broker, f"writer-{name}", f"sink-{name}", tmp_path / "password", admin)
    for done in made.admin.create_topics([NewTopic(made.topic, 1, 1)]).values():
        done.result(DEADLINE_S)
    return made


@pytest.mark.long
@pytest.mark.parametrize("order", ["file first", "broker first"])
def test_a_password_of_kafka_that_is_replaced_is_read_again_and_no_row_is_lost(
    user: User, tmp_path: Path, told: Told, order: str
) -> None:
    old, new = (f"canary-{uuid4().hex}" for _ in range(2))
    user.is_known_by(old)
    user.has(old)
    until(lambda: takes_rows(user.target))  # the broker knows its users after a moment
    place = Place(tmp_path, user.target)
    jobs = [write(place, 0)]
    if order == "file first":
        user.has(new)
    user.is_known_by(new)
    later = told.once(place, lambda: user.has(new))
    time.sleep(2 * SESSION_S)  # what is logged in by the old one has to log in again
    jobs += [write(place, number) for number in (1, 2)]
    later.join(DEADLINE_S)

    assert (jobs[0], jobs[1] > 1, jobs[2]) == (1, True, 1)
    assert told.sinks == [("out", "SINK_DENIED")]
    assert user.read() == [0, 1, 2]
    assert [secret for secret in (old, new) if secret in told.all()] == []


@pytest.mark.long
def test_who_asks_whether_kafka_takes_rows_again_reads_the_password_that_it_has_then(user: User) -> None:
    """A driver keeps a producer of its own for that: of the last time that the sink was away."""
    user.is_known_by("first")
    user.has("first")
    until(lambda: takes_rows(user.target))
    user.is_known_by("second")
    time.sleep(2 * SESSION_S)
    until(lambda: not takes_rows(user.target))  # a connection that is being ended may answer once more
    user.has("second")

    until(lambda: takes_rows(user.target))


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)  # polling a broker; bounded by the deadline


def takes_rows(target: Target) -> bool:
    try:
        sinks.probe(target)
    except JobError:
        return False
    return True
