"""Feeds bookings and the answers to them, in the order of their event time, for as long as it is let.

Event time is the feeder's own and stands still while the broker takes nothing: a step of half a second is
fed when the one before is acknowledged, so that no fault makes a record late. The producer is idempotent and
never gives up, so that it neither loses nor doubles one. What was fed is kept for the recount.
"""

import heapq
import random
import threading
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message, Producer
from tests.integration.bookings import booking

STEP_MS = 500
ASKED_A_STEP = 3
CITIES = 4
ANSWERED_SHARE, COMPLETED_SHARE = 0.7, 0.8
# Some answers come after the 10 s within which the join wants them.
ANSWER_MS = (1_000, 14_000)
ASKED_PARTITIONS = 2
# Behind everything, so that every window and join ends there; of a status that no query keeps.
CLOSING_MS = 3_600_000
CLOSING_STATUS = "UNKNOWN"
LONGEST_S = 300.0


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


@dataclass
class Fed:
    """What was fed, in order."""

    asked: list[Event] = field(default_factory=list)
    answered: list[Event] = field(default_factory=list)


class City:
    """The events of one step after the other, from a seed. Pure but for its own state."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._step = 0
        self._owed: list[tuple[int, str]] = []

    def step(self) -> Fed:
        """The events of the next half second."""
        begin, chance = self._step * STEP_MS, self._chance
        times = sorted(chance.sample(range(begin, begin + STEP_MS), ASKED_A_STEP))
        fed = Fed()
        for number, at_ms in enumerate(times):
            order = f"o-{self._step}-{number}"
            status = "COMPLETED" if chance.random() < COMPLETED_SHARE else "CANCELLED"
            fed.asked.append(Event(at_ms, order, chance.randint(1, CITIES), status))
            if chance.random() < ANSWERED_SHARE:
                heapq.heappush(self._owed, (at_ms + chance.randint(*ANSWER_MS), order))
        self._step += 1
        while self._owed and self._owed[0][0] < self._step * STEP_MS:
            at_ms, order = heapq.heappop(self._owed)
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
        self._topics = {"asked": asked, "answered": answered}
        self._city = City(seed)
        self._partitions = random.Random(seed)
        self._done = threading.Event()
        self._refused: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "acks": "all",
                "message.timeout.ms": 0,  # never
                "log_level": 0,
            }
        )

    def run(self) -> None:
        """Feed step by step."""
        while not self._done.wait(STEP_MS / 1000):
            step = self._city.step()
            for event in step.asked:
                self._produce("asked", event, self._partitions.randrange(ASKED_PARTITIONS))
            for event in step.answered:
                self._produce("answered", event, 0)
            self.fed.asked += step.asked
            self.fed.answered += step.answered
            while self._producer.flush(1):
                pass

    def close(self) -> Fed:
        """Stop, feed what closes every window, and give what was fed. The broker must be back by now."""
        self.stop()
        last = self._city.closing()
        for partition in range(ASKED_PARTITIONS):
            self._produce("asked", last, partition)
        self._produce("answered", last, 0)
        left = self._producer.flush(LONGEST_S)
        assert not left, f"the broker has not taken {left} records within {LONGEST_S:g} s"
        assert not self._refused, f"the broker refused a record: {self._refused[0].str()}"
        return self.fed

    def stop(self) -> None:
        """Stop feeding."""
        self._done.set()
        self.join(LONGEST_S)
        assert not self.is_alive(), f"the broker has not taken a step within {LONGEST_S:g} s"

    def _produce(self, stream: str, event: Event, partition: int) -> None:
        self._producer.produce(
            self._topics[stream], event.encoded(), partition=partition, on_delivery=self._delivered
        )

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._refused.append(error)
