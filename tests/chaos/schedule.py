"""Which faults come when: a pure function of the seed and the minutes, the same on every machine."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

PROCESSES = ("kafka", "influxdb", "gateway", "scheduler", "alert-receiver", "health-monitor")
DAGGERS = ("chaos-tumble", "chaos-hop", "chaos-forward", "chaos-join", "chaos-union")
SPARE = "_spare"
HALVES = ("jvm", "python", "both")
SERVERS = ("kafka", "influxdb")
# Not InfluxDB's, see NOT_OURS in run.py.
DISKS = ("kafka", "checkpoints", "runs")
HOSTS = ("east", "west")
_DRIVERS = tuple(f"{dagger}/{half}" for dagger in (*DAGGERS, SPARE) for half in HALVES)
# What can be hit by each kind of fault.
KINDS = {
    "process killed": PROCESSES,
    "process stopped": PROCESSES,
    "driver killed": _DRIVERS,
    "driver stopped": _DRIVERS,
    "disk full": DISKS,
    "disk out of inodes": DISKS,
    "disk read-only": DISKS,
    "connections cut": SERVERS,
    "connections slowed": SERVERS,
    "clock jumped": ("services",),
    "restart asked for": DAGGERS,
    "producer ahead": ("producer/0", "producer/1"),
    "partition behind": ("partition/0", "partition/1"),
    "transaction open": ("transaction/0", "transaction/1"),
    "records deleted": ("deleted/0", "deleted/1"),
    "topic added": ("stream",),
}
# The same of a run with hosts of their own. A mount is of a host alone: theirs stay as they are.
OF_HOSTS = {kind: targets for kind, targets in KINDS.items() if kind != "disk read-only"} | {
    "host killed": HOSTS,
    "agent killed": HOSTS,
    "agent stopped": HOSTS,
}
# Seconds: what lies between the end of a round and the next, and how long a round lasts. The longest is more
# than the 60 s after which a driver gives up a lease that it cannot look at.
GAP_S = (3.0, 8.0)
LASTS_S = {3: 5, 6: 5, 10: 4, 15: 3, 25: 2, 70: 1}
LONGEST_PART = 6
TOGETHER = {1: 4, 2: 4, 3: 2}
DELAYS_S = (0.05, 0.2, 1.0)
JUMPS_S = (-3600.0, -30.0, 30.0, 3600.0)
# Beyond the round: a host that is back soon says so by its boot id, another is given up after 120 s.
AWAY_S = (0.0, 160.0)
Card = TypeVar("Card")


@dataclass(frozen=True)
class Fault:
    """One fault.

    target: process, dagger/half, disk, server behind a proxy, dagger, stream, or the number of a partition of
        bookings behind producer/, partition/, transaction/ or deleted/.
    amount: seconds of delay, or that the clock jumps by, or that a host is away beyond the round; 0 for the
        other kinds.
    """

    kind: str
    target: str
    amount: float = 0.0


@dataclass(frozen=True)
class Round:
    """Faults that begin together, `at_s` seconds after the start, and end together, `lasts_s` later."""

    at_s: float
    lasts_s: float
    faults: tuple[Fault, ...]


class Deck(Generic[Card]):
    """Deals every card once, in random order, before it deals any for another time."""

    def __init__(self, cards: Sequence[Card], chance: random.Random) -> None:
        self._cards, self._chance = tuple(cards), chance
        self._left: list[Card] = []

    def deal(self) -> Card:
        """The next card."""
        if not self._left:
            self._left = self._chance.sample(self._cards, len(self._cards))
        return self._left.pop()

    def take_back(self, card: Card) -> None:
        """A card that could not be used now: the last of those that are left."""
        self._left.insert(0, card)


def schedule(seed: int, minutes: float, hosts: int = 1) -> list[Round]:
    """The rounds of a run. Every kind comes before any comes again, and so does every target of a kind."""
    return list(_rounds(random.Random(seed), minutes * 60, KINDS if hosts == 1 else OF_HOSTS))


def _rounds(chance: random.Random, end_s: float, may_hit: Mapping[str, tuple[str, ...]]) -> Iterator[Round]:
    kinds = Deck(tuple(may_hit), chance)
    targets = {kind: Deck(found, chance) for kind, found in may_hit.items()}
    at_s = 0.0
    while True:
        at_s += chance.uniform(*GAP_S)
        lasts_s = min(float(_weighted(chance, LASTS_S)), end_s / LONGEST_PART)
        if at_s + lasts_s > end_s:
            return
        faults: dict[str, Fault] = {}  # by what they hit: nothing is hit twice at once
        for _ in range(_weighted(chance, TOGETHER)):
            kind = kinds.deal()
            target = targets[kind].deal()
            hit = target.partition("/")[0]
            if hit in faults:
                targets[kind].take_back(target)
            else:
                faults[hit] = Fault(kind, target, _amount(chance, kind))
        yield Round(round(at_s, 1), round(lasts_s, 1), tuple(faults.values()))
        at_s += lasts_s


def _amount(chance: random.Random, kind: str) -> float:
    amounts = {"connections slowed": DELAYS_S, "clock jumped": JUMPS_S, "host killed": AWAY_S}
    return chance.choice(amounts.get(kind, (0.0,)))


def _weighted(chance: random.Random, weights: dict[int, int]) -> int:
    return chance.choices(tuple(weights), tuple(weights.values()))[0]
