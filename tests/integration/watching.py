"""Watches what is shown of a dagger, every second, beside what is true of it.

`Watching` knows from the files of the checkpoint when the last batch was committed, and from Kafka what
waits, so that it needs to believe nobody.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from confluent_kafka import Consumer, TopicPartition
from conftest import Stack
from daggers.v1 import gateway_pb2, gateway_pb2_grpc, telemetry_pb2
from tests.integration.bookings import Bookings, booking
from tests.integration.cli import Cli
from tests.integration.faults import header, of_type, records, until

TRIGGER_S = 1.0
OLD_S = 3 * TRIGGER_S + 10
SAMPLE_S = 1.0
POLLS_S = 2 * SAMPLE_S + 5  # two polls, and the slack of a busy machine


@dataclass(frozen=True)
class Sample:
    """The dagger as it was shown at one moment, and what was true."""

    at: float
    phase: str
    generation: int
    warnings: tuple[str, ...]
    degraded: str
    """What the gateway says of its own knowledge; empty when it knows."""
    waited: float
    """Seconds since a batch was committed, or since input has waited for the first one."""


@dataclass
class Watching:
    """Feeds a dagger, and samples what is shown of it, until its context ends."""

    stack: Stack
    name: str
    bookings: Bookings
    samples: list[Sample] = field(default_factory=list)
    fed_since: float = 0.0
    fed: int = 0
    """Records so far."""
    _done: threading.Event = field(default_factory=threading.Event)

    def feed(self) -> None:
        """A record every half second, for ever."""
        second = 0.0
        self.fed_since = time.time()
        while not self._done.wait(0.5):
            second += 0.5
            self.bookings.produce(booking(second))
            self.fed += 1

    def sample(self) -> None:
        """Ask the gateway every second, for ever."""
        with grpc.insecure_channel(self.stack.gateway) as channel:
            daggers = gateway_pb2_grpc.DaggerServiceStub(channel)
            while not self._done.wait(SAMPLE_S):
                try:
                    answer, call = daggers.GetDagger.with_call(
                        gateway_pb2.GetDaggerRequest(name=self.name), timeout=10, metadata=self.stack.bearer
                    )
                except grpc.RpcError:
                    continue  # a gateway that does not answer claims nothing
                shown, now = answer.dagger, time.time()
                self.samples.append(
                    Sample(
                        now,
                        gateway_pb2.Phase.Name(shown.phase),
                        shown.generation,
                        tuple(shown.warnings),
                        dict(call.trailing_metadata()).get("x-daggers-degraded", ""),
                        now - max(self.committed(), self.fed_since),
                    )
                )

    def committed(self) -> float:
        """When a batch was committed last, by the checkpoint's own files."""
        newest = 0.0
        for file in self.stack.state_dir.glob(f"checkpoints/{self.name}-*/**/commits/[0-9]*"):
            with suppress(FileNotFoundError):  # Spark removes old ones
                newest = max(newest, file.stat().st_mtime)
        return newest

    def unread(self) -> int:
        """Records that wait in the topic: the lag that Kafka's own tools show of the dagger's group."""
        consumer = Consumer({"bootstrap.servers": self.stack.kafka, "group.id": f"daggers.{self.name}"})
        try:
            (at,) = consumer.committed([TopicPartition(self.bookings.name, 0)], timeout=30)
            _, end = consumer.get_watermark_offsets(at, timeout=30)
            return end - max(at.offset, 0)
        finally:
            consumer.close()

    def until(self, wanted: Callable[[Sample], bool], *, deadline_s: float = 120) -> Sample:
        """The first sample from now on that is as wanted."""
        begin = len(self.samples)
        until(lambda: any(map(wanted, self.samples[begin:])), deadline_s=deadline_s)
        return next(filter(wanted, self.samples[begin:]))

    def stop(self) -> None:
        """End both threads."""
        self._done.set()


@contextmanager
def watched(stack: Stack, cli: Cli, folder: Path, **changes: object) -> Iterator[Watching]:
    """A dagger that runs, is fed and watched."""
    bookings = Bookings(stack.kafka, cli)
    query = "SELECT order_number, city_id, rowtime AS window_timestamp FROM data_stream"
    name, file = bookings.dagger(folder, sql=query, trigger=f"{TRIGGER_S:g}s", **changes)
    watch = Watching(stack, name, bookings)
    threads = [threading.Thread(target=work) for work in (watch.feed, watch.sample)]
    for thread in threads:
        thread.start()
    try:
        cli("apply", "-f", file, "--wait")
        yield watch
    finally:
        watch.stop()
        for thread in threads:
            thread.join(30)
        cli("stop", name, "--now", "--wait")
        cli("delete", name, "--wait")


@contextmanager
def running(watch: Watching) -> Iterator[int]:
    """Around a fault: RUNNING before it and again after it. Gives the generation before."""
    before = watch.until(is_running).generation
    yield before
    watch.until(is_running)


def is_running(sample: Sample) -> bool:
    return sample.phase == "RUNNING" and sample.waited < OLD_S and not sample.degraded


def not_running(sample: Sample) -> bool:
    return sample.phase != "RUNNING"


def lies(watch: Watching) -> list[Sample]:
    """The samples that call it RUNNING though input waits and the last commit is old."""
    return [
        sample
        for sample in watch.samples
        if sample.phase == "RUNNING" and not sample.degraded and sample.waited > OLD_S
    ]


def heartbeats(stack: Stack, name: str) -> list[telemetry_pb2.Heartbeat]:
    """Every heartbeat of a dagger that stands in the topic."""
    return [
        telemetry_pb2.Heartbeat.FromString(record.value() or b"")
        for record in of_type(records(stack.kafka, "daggers.heartbeats"), telemetry_pb2.Heartbeat)
        if header(record, "ce_subject") == name
    ]
