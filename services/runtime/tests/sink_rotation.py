"""Helpers of test_sink_rotation.py and of its neighbours."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from daggers.v1 import spec_pb2
from services.runtime.tests.job_writing import Place, Rows
from services.runtime.tests.sink_contract import batch, target

from kafkaclient import Connection
from runtime.sinks import BatchRef, Target

DEADLINE_S = 60


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
