"""Feeds a city's events into Kafka at the pace they happen, and keeps what it fed for the recount."""

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from daggers.v1 import spec_pb2

from cli.errors import RefusedError
from devstack.demo.city import TICK_S, Booking, City, Ping
from devstack.demo.encoding import BOOKING, PING, Encoder, utc
from devstack.demo.recount import WINDOW_S
from kafkaclient import Connection

PARTITIONS = 2
BROKEN_EVERY_TICKS = 15
FUTURE_TICK = 30
FUTURE = timedelta(days=1)
LATE_SECONDS = (2.0, 3.5, 5.0, 6.5, 8.0)
FLUSH_S = 30.0


@dataclass
class FedEvents:
    """Events that were fed and must be counted, and how many records must not be, by topic."""

    bookings: list[Booking] = field(default_factory=list)
    pings: list[Ping] = field(default_factory=list)
    broken: Counter[str] = field(default_factory=Counter)
    future: Counter[str] = field(default_factory=Counter)
    late: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Topics:
    """Destination of events."""

    bookings: str = "booking-log"
    pings: str = "driver-ping-log"


class Feeder(threading.Thread):
    """Feeds from `start` on, until `stop()`; second 0 of the city is `start`, the beginning of a window.

    Very late events are fed only when `feed_late()` was called, which must not be before the first window has
    closed everywhere: until then nobody can tell whether they are late.
    """

    def __init__(
        self, bootstrap_servers: str, topics: Topics, schema: spec_pb2.Schema, *, start: datetime, seed: int
    ) -> None:
        super().__init__(name="feeder", daemon=True)
        self.topics = topics
        self.start_time = start
        self.fed = FedEvents()
        self.error: str | None = None
        self._city = City(seed)
        self._chance = random.Random(seed + 1)  # noqa: S311 - a simulation wants to be repeatable
        self._encoder = Encoder.of(schema, start)
        self._done = threading.Event()
        self._late_wanted = threading.Event()
        self._producer = Producer(
            Connection(bootstrap_servers).librdkafka() | {"linger.ms": 20, "log_level": 0}
        )

    def run(self) -> None:
        """Feed tick by tick; a tick that is overdue is fed at once."""
        number = 0
        while not self._done.is_set():
            due = self.start_time + timedelta(seconds=number * TICK_S)
            if self._done.wait(max(0.0, (due - datetime.now(UTC)).total_seconds())):
                break
            self._tick(number)
            number += 1
        if self._producer.flush(FLUSH_S):
            self.error = f"Kafka did not take all events within {FLUSH_S:.0f} s"

    def feed_late(self) -> None:
        """Feed the very late events, once: the first window has closed."""
        if self.is_alive():
            self._late_wanted.set()
        else:
            self._feed_late()

    def stop(self) -> None:
        """Stop feeding and wait until the broker has everything. Raises RefusedError if it has not."""
        self._done.set()
        self.join()
        if self._late_wanted.is_set():
            self._feed_late()
        if self.error:
            raise RefusedError(self.error, reason="FEED_FAILED")

    def _tick(self, number: int) -> None:
        for event in self._city.tick(number):
            self._feed(event)
        if number % BROKEN_EVERY_TICKS == BROKEN_EVERY_TICKS - 1:
            self._feed_broken(number * TICK_S)
        if number == FUTURE_TICK:
            ahead = self._city.completed_booking(number * TICK_S + FUTURE.total_seconds())
            self._produce(self.topics.bookings, ahead.order_number, self._encoder.booking(ahead))
            self.fed.future[self.topics.bookings] += 1
        if self._late_wanted.is_set():
            self._feed_late()
        self._producer.poll(0)

    def _feed(self, event: Booking | Ping) -> None:
        if isinstance(event, Booking):
            self._produce(self.topics.bookings, event.order_number, self._encoder.booking(event))
            self.fed.bookings.append(event)
        else:
            self._produce(self.topics.pings, event.driver_id, self._encoder.ping(event))
            self.fed.pings.append(event)

    def _feed_broken(self, second: float) -> None:
        booking = self._encoder.booking(self._city.booking(second))
        ping = self._encoder.ping(self._city.ping(second))
        topics = ((self.topics.bookings, booking, BOOKING), (self.topics.pings, ping, PING))
        for topic, whole, kind in topics:
            self._produce(topic, "", self._encoder.truncate(whole, kind, self._chance))
            self.fed.broken[topic] += 1

    def _feed_late(self) -> None:
        if self.fed.late:
            return
        for second in LATE_SECONDS:
            booking, ping = self._city.completed_booking(second), self._city.ping(second)
            self._produce(self.topics.bookings, booking.order_number, self._encoder.booking(booking))
            self._produce(self.topics.pings, ping.driver_id, self._encoder.ping(ping))
        self.fed.late.update({self.topics.bookings: len(LATE_SECONDS), self.topics.pings: len(LATE_SECONDS)})
        self._producer.flush(FLUSH_S)

    def _produce(self, topic: str, key: str, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key or None, on_delivery=self._check_delivery)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _check_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.error = f"an event for {message.topic()} was not taken: {error.str()}"


def create_topics(bootstrap_servers: str, topics: Topics) -> None:
    """Create the topics that are not there yet."""
    admin = AdminClient(Connection(bootstrap_servers).librdkafka() | {"log_level": 0})
    there = admin.list_topics(timeout=30).topics
    missing = [name for name in (topics.bookings, topics.pings) if name not in there]
    if missing:
        for created in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in missing]).values():
            created.result(30)


def next_window() -> datetime:
    """Return the beginning of the next window: events from there on fill whole windows."""
    return utc((int(time.time()) // WINDOW_S + 1) * WINDOW_S)
