"""Feeds bookings and the answers to them, in the order of their event time, for as long as it is let.

Event time is the clock's, and stands still while the broker takes nothing: a step of half a second is fed
when the one before is acknowledged, so that no fault makes a record late, and the next one is that of now. So
what is deleted where nothing is left, and was written before now, leaves out what nobody can know, no more.
The producer is idempotent and never gives up, and what the broker refuses is sent again unless it is in its
topic: a full disk can refuse a record that is written already. So none is lost or doubled. What was fed is
kept for the recount.

Bookings go to all partitions of all topics of their stream, of which there may be more as time goes on.
Answers go to a topic that is compacted: between them stand records of one key, of which few are kept.
"""

import heapq
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from tests.integration.bookings import NOON, booking

from kafkaclient.tail import READER, tail

STEP_MS = 500
ASKED_A_STEP = 3
CITIES = 4
ANSWERED_SHARE, COMPLETED_SHARE = 0.7, 0.8
# Some answers come after the 10 s within which the join wants them.
ANSWER_MS = (1_000, 14_000)
ASKED_PARTITIONS = 2
# Behind everything, so that every window and join ends there, and no record from the future; of a status that
# no query keeps.
CLOSING_MS = 60_000
CLOSING_STATUS = "UNKNOWN"
LONGEST_S = 300.0
# Of a partition, where a refused record is looked for: more than a step's.
LOOK_BACK = 1_000
# Less than the hour that a broker bears.
AHEAD_S = 50 * 60
# A broker ends a transaction by itself after this, where it was away when that was to be aborted.
TRANSACTION_S = 60
TRANSACTION_BEGINS_S = 20.0
DELETING_S = 10.0
# Of records that stand between those that count: all have one key.
COMPACTED = "compacted"
Target = tuple[str, int]
"""A topic and a partition."""


@dataclass(frozen=True)
class Event:
    """A booking as it was fed; `at_ms` is its event time in milliseconds after noon."""

    at_ms: int
    order: str
    city: int
    status: str

    def encoded(self) -> bytes:
        """As Protobuf."""
        return booking(self.at_ms / 1000, status=self.status, city_id=self.city, order=self.order)


@dataclass(frozen=True)
class Record:
    """An event on its way, and what to do with it once it is in its topic."""

    target: Target
    key: bytes
    value: bytes
    sent_ms: int
    taken: Callable[[Message], None]


@dataclass
class Fed:
    """What was fed, in order."""

    asked: list[Event] = field(default_factory=list)
    answered: list[Event] = field(default_factory=list)
    ahead: list[tuple[str, int, int]] = field(default_factory=list)
    """Topic, partition and offset of bookings of a producer whose clock runs ahead."""
    places: dict[Event, tuple[Target, int]] = field(default_factory=dict)
    """Where each booking stands: its partition, and the offset."""
    deleted: dict[Target, int] = field(default_factory=dict)
    """Up to which offset the records of a partition were deleted, whoever had read them."""

    def is_deleted(self, target: Target, offset: int) -> bool:
        """Whether what stood there is gone."""
        return offset < self.deleted.get(target, 0)

    def gone(self) -> list[Event]:
        """The bookings whose records were deleted."""
        return [event for event, place in self.places.items() if self.is_deleted(*place)]


class City:
    """The events of one step after the other, from a seed. Pure but for its own state."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._step = 0
        self._due: list[tuple[int, str]] = []

    @property
    def now_ms(self) -> int:
        """The event time that the next step begins at."""
        return self._step * STEP_MS

    def step(self, now_ms: int = 0) -> Fed:
        """Return the events of the next half second, or of that of `now_ms` if it is later."""
        self._step = max(self._step, now_ms // STEP_MS)
        begin, chance = self._step * STEP_MS, self._chance
        times = sorted(chance.sample(range(begin, begin + STEP_MS), ASKED_A_STEP))
        fed = Fed()
        for number, at_ms in enumerate(times):
            order = f"o-{self._step}-{number}"
            status = "COMPLETED" if chance.random() < COMPLETED_SHARE else "CANCELLED"
            fed.asked.append(Event(at_ms, order, chance.randint(1, CITIES), status))
            if chance.random() < ANSWERED_SHARE:
                heapq.heappush(self._due, (at_ms + chance.randint(*ANSWER_MS), order))
        self._step += 1
        while self._due and self._due[0][0] < self._step * STEP_MS:
            at_ms, order = heapq.heappop(self._due)
            fed.answered.append(Event(at_ms, order, chance.randint(1, CITIES), "COMPLETED"))
        return fed

    def closing(self) -> Event:
        """What comes last in every partition."""
        return Event(self._step * STEP_MS + CLOSING_MS, "", 1, CLOSING_STATUS)


class Feeder(threading.Thread):
    """Feeds until `close`: a step every half second, or as soon as the broker has taken the one before."""

    def __init__(self, bootstrap_servers: str, asked: str, answered: str, seed: int) -> None:
        super().__init__(name="feeder", daemon=True)
        self.fed = Fed()
        self.targets: list[Target] = []
        """Where bookings go."""
        self._answered = (answered, 0)
        self._city = City(seed)
        self._chance = random.Random(seed)
        self._stepping = threading.Lock()
        self._ordering = threading.Lock()
        self._done = threading.Event()
        self._refused: list[Record] = []
        self._delayed: dict[Target, list[Record]] = {}
        self._bootstrap_servers = bootstrap_servers
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "acks": "all",
                "message.timeout.ms": 0,  # never
                "log_level": 0,
            }
        )
        self.reach(asked)

    def reach(self, topic: str) -> None:
        """Bookings go to this topic, too."""
        self.targets += [(topic, partition) for partition in range(ASKED_PARTITIONS)]

    def run(self) -> None:
        """Feed step by step."""
        while not self._done.wait(STEP_MS / 1000):
            with self._stepping:
                self._step()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Between two steps; event time stands still."""
        with self._stepping:
            yield

    @contextmanager
    def delayed(self, target: Target) -> Iterator[None]:
        """What goes into this partition is sent when the context ends, in its order."""
        # Not between two steps: one may not end before Kafka is back, and that may be after this.
        with self._ordering:
            self._delayed[target] = []
        try:
            yield
        finally:
            with self._ordering:
                for record in self._delayed.pop(target):
                    self.send(record)

    def delete(self, target: Target) -> int:
        """Delete all records of a partition, as a retention does that is too short; up to which offset.

        Each is in its topic before: a record that was refused is looked for there. Raises: TimeoutError when
        the broker does not take the last ones, KafkaException.
        """
        end = time.monotonic() + DELETING_S
        if not self._stepping.acquire(timeout=DELETING_S):
            raise TimeoutError("a step is not taken")
        try:
            while self.flush():
                if time.monotonic() > end:
                    raise TimeoutError("the last records are not taken")
            admin = AdminClient({"bootstrap.servers": self._bootstrap_servers, "log_level": 0})
            (done,) = admin.delete_records(
                [TopicPartition(*target, OFFSET_END)], request_timeout=DELETING_S
            ).values()
            until: int = done.result(DELETING_S).low_watermark
            self.fed.deleted[target] = until
        finally:
            self._stepping.release()
        return until

    def begin_transaction(self, target: Target) -> Callable[[], None]:
        """Write a booking of now in a transaction that stays open; gives what aborts it.

        Raises: KafkaException.
        """
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "transactional.id": f"chaos-{uuid4().hex[:8]}",
                "transaction.timeout.ms": TRANSACTION_S * 1000,
                "log_level": 0,
            }
        )
        producer.init_transactions(TRANSACTION_BEGINS_S)
        producer.begin_transaction()
        topic, partition = target
        value = Event(self._city.now_ms, "aborted", 1, "COMPLETED").encoded()
        producer.produce(topic, value, key=b"aborted", partition=partition)
        producer.flush(TRANSACTION_BEGINS_S)

        def abort() -> None:
            with suppress(KafkaException):
                producer.abort_transaction(TRANSACTION_BEGINS_S)

        return abort

    def send_ahead(self, target: Target) -> None:
        """A booking of a producer whose clock runs ahead: its event time and its Kafka time, both."""
        now_s = time.time() + AHEAD_S
        event = Event(round((now_s - NOON) * 1000), "ahead", 1, "COMPLETED")
        self.send_booking(target, event, sent_ms=round(now_s * 1000), taken=self._ahead)

    def close(self) -> Fed:
        """Stop, feed what closes every window, and give what was fed. The broker must be back by now."""
        self.stop()
        last = self._city.closing()
        for target in [*self.targets, self._answered]:
            self.send_booking(target, last)
        deadline = time.monotonic() + LONGEST_S
        while left := self.flush():
            assert time.monotonic() < deadline, f"the broker has not taken {left} records in {LONGEST_S:g} s"
        return self.fed

    def stop(self) -> None:
        """Stop feeding."""
        self._done.set()
        self.join(LONGEST_S)
        assert not self.is_alive(), f"the broker has not taken a step within {LONGEST_S:g} s"

    def _step(self) -> None:
        step = self._city.step(round((time.time() - NOON) * 1000))
        for event in step.asked:
            self.send_booking(self._chance.choice(self.targets), event, taken=partial(self._placed, event))
        for event in step.answered:
            self.send_booking(self._answered, event)
        between = Event(min(event.at_ms for event in step.asked), "", 1, CLOSING_STATUS)
        self.send_booking(self._answered, between, key=COMPACTED)
        self.fed.asked += step.asked
        self.fed.answered += step.answered
        while self.flush():
            pass

    def flush(self) -> int:
        """How many records are not in their topics yet, after a second at most and one more try."""
        left = self._producer.flush(1)
        refused, self._refused = self._refused, []
        for record in refused:
            try:
                kept = self._kept(record)
            except (KafkaException, TimeoutError):
                self._refused.append(record)
                continue
            if kept is None:
                self.send(record)
            else:
                record.taken(kept)
        return left + len(refused)

    def _kept(self, record: Record) -> Message | None:
        """The record, if its topic has it."""
        topic, partition = record.target
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "group.id": "chaos-feeder",
                "isolation.level": "read_uncommitted",  # else an open transaction hides what is in its topic
                **READER,
            }
        )
        try:
            return next(
                (
                    message
                    for message in tail(consumer, topic, LOOK_BACK)
                    if (message.partition(), message.key(), message.value())
                    == (partition, record.key, record.value)
                ),
                None,
            )
        finally:
            consumer.close()

    def send_booking(
        self,
        target: Target,
        event: Event,
        *,
        key: str = "",
        sent_ms: int = 0,
        taken: Callable[[Message], None] = lambda _: None,
    ) -> None:
        """On its way to its topic, or among those that wait while its partition is delayed."""
        named = key or f"{event.order}-{event.at_ms}"
        record = Record(target, named.encode(), event.encoded(), sent_ms, taken)
        with self._ordering:
            if target in self._delayed:
                self._delayed[target].append(record)
            else:
                self.send(record)

    def send(self, record: Record) -> None:
        """On its way to its topic."""

        def answer(error: KafkaError | None, message: Message) -> None:
            if error is None:
                record.taken(message)
            else:
                self._refused.append(record)

        topic, partition = record.target
        self._producer.produce(
            topic,
            record.value,
            key=record.key,
            partition=partition,
            timestamp=record.sent_ms,
            on_delivery=answer,
        )

    def _placed(self, event: Event, message: Message) -> None:
        target = str(message.topic()), int(message.partition() or 0)
        self.fed.places[event] = target, int(message.offset() or 0)

    def _ahead(self, message: Message) -> None:
        self.fed.ahead.append(
            (str(message.topic()), int(message.partition() or 0), int(message.offset() or 0))
        )
