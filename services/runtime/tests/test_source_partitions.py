"""Partitions on a real broker and a real Spark: who is behind is waited for, and nobody waits for ever."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from services.runtime.tests.streams import BEGIN, WINDOWS, Feed, Job, booking, windows
from tests import broker
from tests.proxy import Proxy
from tests.standstill import serving, standing_still

from runtime.source.watermark import Windows

pytestmark = pytest.mark.integration


def rows(count: int) -> Callable[[Job], bool]:
    """Whether so many were read."""
    return lambda job: job.total(lambda c: c.rows) >= count


def test_what_is_in_order_in_a_partition_that_is_far_behind_is_never_late(
    feed: Feed, run: Callable[..., Job]
) -> None:
    feed.create(partitions=3)
    ahead, behind = [i / 2 for i in range(200)], [float(i) for i in range(100)]
    disordered = [second - (i % 3) for i, second in enumerate(behind)]  # by the delay, 2 s
    job = run(feed.resolved()).start()
    feed.send(map(booking, ahead), 0)
    job.until(rows(200))
    for done, part in enumerate((slice(0, 40), slice(40, 80), slice(80, 100)), 1):
        feed.send(map(booking, behind[part]), 1)
        feed.send(map(booking, disordered[part]), 2)
        job.until(rows(200 + 2 * (0, 40, 80, 100)[done]))
    job.until(lambda job: len(job.rows) == 9)

    everything = windows([*ahead, *behind, *(s for s in disordered)])
    assert {at: n for at, n in everything.items() if at in job.rows} == dict(job.rows)
    assert job.total(lambda c: c.late) == 0


def test_a_topic_of_a_stream_waits_for_another_and_a_silent_partition_for_nobody(
    feed: Feed, run: Callable[..., Job]
) -> None:
    """The second partition never has a record, the second topic is behind, then both are idle."""
    feed.create(partitions=2)
    other = feed.beside()
    both = feed.resolved(idle_timeout={"seconds": 3})
    both.stream.topics.append(other.topic)
    feed.send(map(booking, range(60)), 0)
    other.send(map(booking, range(12)), 0)
    job = run(both).start()
    job.until(rows(72))
    early = dict(job.rows)
    job.until(lambda job: len(job.rows) == 6)

    expected = windows([*range(60), *range(12)])
    assert {at: n for at, n in expected.items() if at in early} == early
    assert (dict(job.rows), job.total(lambda c: c.late)) == (dict(expected), 0)


def test_a_worker_reads_a_topic_of_fifty_partitions(feed: Feed, run: Callable[..., Job]) -> None:
    feed.create(partitions=50)
    for partition in range(50):
        feed.send([booking(partition / 10)], partition)
    job = run(feed.resolved()).start().until(rows(50))
    for partition in range(50):
        feed.send([booking(20 + partition / 10)], partition)
    job.until(lambda job: len(job.rows) == 1)

    assert (dict(job.rows), job.total(lambda c: c.late)) == ({BEGIN: 50}, 0)


@pytest.mark.parametrize("ends", ["committed", pytest.param("aborted", marks=pytest.mark.long)])
def test_an_open_transaction_is_not_the_end_of_its_partition(
    feed: Feed, run: Callable[..., Job], ends: str
) -> None:
    feed.create(partitions=2)
    producer = Producer({"bootstrap.servers": feed.kafka, "transactional.id": feed.topic})
    producer.init_transactions()
    feed.send(map(booking, range(5)), 1)
    producer.begin_transaction()
    producer.produce(feed.topic, booking(6), partition=1)
    producer.flush()
    feed.send(map(booking, range(7, 12)), 1)  # nobody reads them before the transaction ends
    job = run(feed.resolved(idle_timeout={"seconds": 1})).start()
    feed.send(map(booking, range(40)), 0)

    def is_open(job: Job) -> bool:
        statuses = job.context.registry.state().statuses.values()
        return any(status.open_transactions for status in statuses)

    job.until(lambda job: rows(45)(job) and is_open(job))
    (open_,) = (status.open_transactions for status in job.context.registry.state().statuses.values())
    feed.send(map(booking, range(40, 60)), 0)
    job.until(rows(65))
    held = dict(job.rows)
    (producer.commit_transaction if ends == "committed" else producer.abort_transaction)()
    job.until(lambda job: len(job.rows) == 6)

    (where,) = open_
    seconds = [*range(60), *range(5), *range(7, 12), *([6] if ends == "committed" else [])]
    assert (where, open_[where].stable, open_[where].end) == (f"{feed.topic}/1", 5, 11)
    assert (held, job.rows, job.total(lambda c: c.late)) == ({}, windows(seconds), 0)
    assert not is_open(job)


@pytest.mark.parametrize("partitions", [1, 2])
def test_nobody_waits_for_a_partition_whose_records_cannot_be_used(
    feed: Feed, run: Callable[..., Job], partitions: int
) -> None:
    """Its producer's clock is years ahead, and it never falls silent."""
    feed.create(partitions=partitions)
    job = run(feed.resolved(idle_timeout={"seconds": 2})).start()
    feed.send(map(booking, range(25)), 0)
    job.until(rows(25))
    ended = threading.Event()

    def send() -> None:
        while not ended.wait(0.2):
            feed.send([booking(1e9)], partitions - 1)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        job.until(lambda job: len(job.rows) == 3)
    finally:
        ended.set()
        sender.join()

    assert (job.rows, job.total(lambda c: c.late)) == (windows([*range(25)]), 0)


def test_after_a_restart_nothing_that_is_in_order_is_late_and_nothing_hangs(
    feed: Feed, run: Callable[..., Job]
) -> None:
    feed.create(partitions=2)
    first = run(feed.resolved()).start()
    feed.send(map(booking, range(60)), 0)
    feed.send(map(booking, range(25)), 1)
    first.until(lambda job: rows(85)(job) and len(job.rows) == 2)
    first.stop()
    second = run(feed.resolved(), generation=2).start()
    feed.send(map(booking, range(60, 70)), 0)
    second.until(rows(10))
    feed.send(map(booking, range(25, 73)), 1)
    second.until(rows(58))
    feed.send(map(booking, range(70, 73)), 0)
    second.until(lambda job: len(first.rows + job.rows) == 7)

    together = first.rows + second.rows
    assert (together, second.total(lambda c: c.late)) == (windows([*range(70)] * 2), 0)
    assert set(first.rows) & set(second.rows) == set()


def test_after_an_outage_nothing_is_late_that_comes_back_in_order(
    feed: Feed, run: Callable[..., Job]
) -> None:
    """Kafka is away for longer than a partition may be silent; one partition is back at once, one is not."""
    timeout_s = 4
    feed.create(partitions=2)
    with Proxy(int(feed.kafka.rpartition(":")[2]), kafka=True) as way:
        stream = feed.resolved(idle_timeout={"seconds": timeout_s})
        stream.kafka.bootstrap_servers = f"127.0.0.1:{way.port}"
        job = run(stream).start()
        for number in range(2):
            feed.send(map(booking, range(20)), number)
        job.until(rows(40))
        way.cut()
        job.until(lambda job: not job.context.registry.state().is_reachable())
        time.sleep(3 * timeout_s)
        way.open()
        feed.send(map(booking, range(20, 60)), 0)
        job.until(rows(80))
        time.sleep(timeout_s + 1)
        feed.send(map(booking, range(20, 60)), 1)
        job.until(rows(120))
        job.until(lambda job: sum(job.rows.values()) + job.total(lambda c: c.late) == 120)

    assert (job.rows, job.total(lambda c: c.late)) == (windows([*range(60)] * 2), 0)


TIMEOUT_S = 4
SECOND_MS = 1000
HOPPING, SESSIONS = Windows(10 * SECOND_MS, 5 * SECOND_MS), Windows(10 * SECOND_MS, 0)
PARTNERS = Windows(4 * SECOND_MS, 0)


def hops(seconds: Iterable[float]) -> Counter[datetime]:
    """How many of these event times fall into each window of ten seconds, of which one begins every five."""
    return Counter(BEGIN + timedelta(seconds=s // 5 * 5 - back) for s in seconds for back in (0, 5))


def sessions(seconds: Iterable[float]) -> Counter[datetime]:
    """How many of these event times are in each session, by its first; a gap of ten seconds ends one."""
    found: Counter[datetime] = Counter()
    first = last = -math.inf
    for second in sorted(seconds):
        first = second if second - last >= 10 else first
        last = second
        found[BEGIN + timedelta(seconds=first)] += 1
    return found


def pairs(seconds: Iterable[float]) -> Counter[datetime]:
    """How many of these are one to three seconds behind each, and ALONE where none is."""
    times = sorted(seconds)
    found: Counter[datetime] = Counter()
    for second in times:
        partners = sum(1 <= other - second <= 3 for other in times)
        found[BEGIN + timedelta(seconds=second)] += partners or ALONE
    return found


@dataclass(frozen=True)
class Kind:
    """A query, over one stream or over the same stream twice, and the right answer."""

    sql: str
    windows: Windows
    expected: Callable[[Iterable[float]], Counter[datetime]]
    streams: int = 1


ALONE = 1000
GROUPED = "SELECT {0}.start AS start, count(1) AS n FROM data_stream GROUP BY {0}, city"
JOINED = f"""
SELECT s0.rowtime AS start, IF(s1.rowtime IS NULL, {ALONE}, 1) AS n FROM s0 LEFT JOIN s1 ON s1.city = s0.city
AND s1.rowtime BETWEEN s0.rowtime + INTERVAL '1' SECOND AND s0.rowtime + INTERVAL '3' SECOND"""
KINDS = {
    "tumble": Kind(GROUPED.format("window(rowtime, '10 seconds')"), WINDOWS, windows),
    "hop": Kind(GROUPED.format("window(rowtime, '10 seconds', '5 seconds')"), HOPPING, hops),
    "session": Kind(GROUPED.format("session_window(rowtime, '10 seconds')"), SESSIONS, sessions),
    "join": Kind(JOINED, PARTNERS, pairs, streams=2),
}
OUTAGE_S = 20


class Outage:
    """A broker that is away for a while, and what is fed to it and read from it."""

    def __init__(self, feed: Feed, address: str) -> None:
        self.feed = feed.create(partitions=2)
        self._stream = feed.resolved(idle_timeout={"seconds": TIMEOUT_S})
        self._stream.kafka.bootstrap_servers = address

    def passes(
        self, run: Callable[..., Job], kind: str, away: Callable[[], AbstractContextManager[object]]
    ) -> tuple[Counter[datetime], Counter[datetime], int]:
        """What is written, what should be, how many rows are late. One partition is back after the other."""
        what = KINDS[kind]
        kept, twice = what.windows, 2 * what.streams
        before, after = [*range(20), *range(40, 45)], [*range(45, 60), *range(80, 85)]
        job = run(*[self._stream] * what.streams, windows=kept, late_for=(kept,)).start(what.sql)
        for number in range(2):
            self.feed.send(map(booking, before), number)
        job.until(rows(twice * len(before)))
        with away():
            job.until(lambda job: not job.context.registry.state().is_reachable())
            time.sleep(OUTAGE_S)
        self.feed.send(map(booking, after), 0)
        job.until(rows(twice * len(before) + what.streams * len(after)))
        time.sleep(TIMEOUT_S + 1)
        self.feed.send(map(booking, after), 1)
        everything = what.expected([*before, *after] * 2)
        job.until(lambda job: job.rows.total() + job.total(lambda c: c.late) >= everything.total())
        return job.rows, everything, job.total(lambda c: c.late)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_after_a_broker_stood_still_nothing_is_late_that_comes_back_in_order(
    feed: Feed, run: Callable[..., Job], kind: str
) -> None:
    pids = serving(int(feed.kafka.rpartition(":")[2]))

    found, expected, late = Outage(feed, feed.kafka).passes(run, kind, lambda: standing_still(pids))

    assert (found, late) == (expected, 0)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_after_a_network_was_cut_nothing_is_late_that_comes_back_in_order(
    feed: Feed, run: Callable[..., Job], kind: str
) -> None:
    with Proxy(int(feed.kafka.rpartition(":")[2]), kafka=True) as way:

        @contextmanager
        def cut() -> Iterator[None]:
            way.cut()
            yield
            way.open()

        found, expected, late = Outage(feed, f"127.0.0.1:{way.port}").passes(run, kind, cut)

    assert (found, late) == (expected, 0)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_after_a_broker_was_killed_nothing_is_late_that_comes_back_in_order(
    run: Callable[..., Job], tmp_path: Path, kind: str
) -> None:
    with broker.serving(tmp_path / "kafka") as own:

        @contextmanager
        def killed() -> Iterator[None]:
            own.kill()
            yield
            own.start()

        found, expected, late = Outage(Feed(own.address), own.address).passes(run, kind, killed)

    assert (found, late) == (expected, 0)
