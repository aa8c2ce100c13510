"""A batch begins when somebody would miss it, and Spark is asked for what only it can close."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.source.plan import BatchRule
from runtime.source.planner.due import Look, Next, PastBatches, closing, due, look_again
from runtime.source.planner.pace import BatchPace, ReaderView
from runtime.source.watermark import NEVER, WatermarkState, Windows

MINUTE = 60_000
TUMBLE = Windows(size=MINUTE, slide=MINUTE)
RULE = BatchRule(trigger=1_000, at_ends=True, longest_wait=60_000, records=10_000)
AT_ONCE = BatchRule(trigger=1_000)
SETTLED = PastBatches(begun=0, closed=MINUTE, settled=True)


def next_of(
    look: Look, *, rule: BatchRule = RULE, past: PastBatches = SETTLED, now: int = 10_000, since: int = 9_000
) -> Next:
    look = replace(look, since=since, watermark=max(look.watermark, MINUTE), reach=max(look.reach, MINUTE))
    return due(rule, TUMBLE, past, look, now)


def test_a_few_records_that_close_no_window_wait() -> None:
    assert next_of(Look(records=100, reach=2 * MINUTE - 1)) is Next.WAIT


def test_records_that_may_close_a_window_are_read_and_it_is_closed() -> None:
    assert next_of(Look(records=1, reach=2 * MINUTE)) is Next.READ_AND_CLOSE


@pytest.mark.parametrize(
    "look", [Look(records=10_000), Look(records=1, silent=True), Look(records=1, reach=MINUTE)]
)
def test_many_records_old_ones_and_those_of_a_topic_that_fell_silent_do_not_wait(look: Look) -> None:
    waited = 70_000 if look.records == 1 and not look.silent else 10_000

    assert next_of(look, now=waited) is Next.READ


def test_no_batch_follows_another_sooner_than_the_trigger_says() -> None:
    look = Look(records=10_000, advance=True, reach=2 * MINUTE)
    begun = replace(SETTLED, begun=9_001)

    assert (next_of(look, past=begun), next_of(look, past=begun, now=10_001)) == (
        Next.WAIT,
        Next.READ_AND_CLOSE,
    )


def test_where_rows_do_not_wait_for_windows_records_do_not_wait_either() -> None:
    assert next_of(Look(records=1), rule=AT_ONCE) is Next.READ_AND_CLOSE


def test_an_idle_advance_is_a_batch_that_closes() -> None:
    assert next_of(Look(advance=True)) is Next.READ_AND_CLOSE


def test_what_was_read_may_close_more_than_was_seen_when_it_waited() -> None:
    assert next_of(Look(watermark=2 * MINUTE)) is Next.CLOSE


@pytest.mark.parametrize("rule", [RULE, AT_ONCE])
def test_spark_is_asked_after_a_batch_that_may_let_it_close_something(rule: BatchRule) -> None:
    assert next_of(Look(), rule=rule, past=replace(SETTLED, settled=False)) is Next.CLOSE


@pytest.mark.parametrize("past", [replace(SETTLED, settled=False), SETTLED])
def test_with_a_backlog_the_batch_that_reads_on_closes_windows_too(past: PastBatches) -> None:
    some, many = Look(records=99_999, watermark=2 * MINUTE), Look(records=100_000, watermark=2 * MINUTE)

    assert (next_of(some, past=past), next_of(many, past=past)) == (Next.CLOSE, Next.READ_AND_CLOSE)


def test_nothing_to_read_and_nothing_to_close_is_no_batch() -> None:
    assert next_of(Look()) is Next.WAIT


times = st.integers(0, 10 * MINUTE)


@given(
    rule=st.builds(BatchRule, st.integers(0, 5_000), st.booleans(), st.integers(1, 30_000), st.just(9)),
    records=st.integers(1, 10), since=times, waited=st.integers(0, 4 * MINUTE),
    begun=times, settled=st.booleans(), watermark=times, reach=times, closes=st.none() | times,
)  # fmt: skip
def test_no_record_waits_longer_than_it_may(
    rule: BatchRule,
    records: int,
    since: int,
    waited: int,
    begun: int,
    settled: bool,
    watermark: int,
    reach: int,
    closes: int | None,
) -> None:
    now = since + waited
    look = Look(records=records, since=since, watermark=watermark, reach=reach, closes=closes)
    decided = due(rule, TUMBLE, PastBatches(begun, NEVER, settled), look, now)
    taken_along = closes is not None and closes <= since + 4 * rule.longest_wait
    may_wait = rule.longest_wait * (4 if taken_along else 1)

    assert decided is not Next.WAIT or waited < may_wait or now - begun < rule.trigger


def test_records_wait_for_the_end_of_a_window_that_is_near_and_no_longer_than_four_times_theirs() -> None:
    near, far = Look(records=1, closes=9_000 + 4 * MINUTE), Look(records=1, closes=9_001 + 4 * MINUTE)

    assert [next_of(look, now=9_000 + MINUTE) for look in (near, far)] == [Next.WAIT, Next.READ]
    assert next_of(near, now=9_000 + 4 * MINUTE) is Next.READ


def test_when_a_window_will_end_is_known_by_the_newest_record() -> None:
    assert closing(TUMBLE, MINUTE, 5_000, newest=2 * MINUTE - 10_000, now=77) == 77 + 15_000
    assert closing(TUMBLE, MINUTE, 5_000, newest=2 * MINUTE + 6_000, now=77) == 77
    assert closing(TUMBLE, MINUTE, 5_000, newest=None, now=77) is None


@given(newest=times, watermark=times, delay=st.integers(0, 20_000))
def test_live_records_are_looked_at_a_moment_after_they_may_close_a_window(
    newest: int, watermark: int, delay: int
) -> None:
    needed, now, looks = TUMBLE.next_end(watermark) + delay, newest, 0
    while now < needed and looks < 200:
        now, looks = look_again(TUMBLE, watermark, delay, now, now), looks + 1

    assert (now - needed <= 250 or looks == 0, looks <= 100) == (True, True)


@dataclass(eq=False)
class Topic:
    """A reader of a live topic: so many records a second, event times those of the clock; times in ms."""

    key: str
    rate: float
    delay: int = 5_000
    read: int = 0
    observed: int | None = None
    ends: int | None = None
    """When its producer stops."""
    told: list[int] = field(default_factory=list)
    now: int = 0

    def written(self, now: int) -> int:
        until = now if self.ends is None else min(now, self.ends)
        return int(until / 1000 * self.rate)

    def newest(self, now: int) -> int:
        return int(self.written(now) / self.rate * 1000)

    def see(self, watermark: int, now: int) -> ReaderView:
        self.now = now
        records = self.written(now) - self.read
        if not records:
            return ReaderView()
        newest = self.newest(now)
        again = look_again(TUMBLE, watermark, self.delay, newest, now)
        closes = closing(TUMBLE, watermark, self.delay, newest, now)
        return ReaderView(records, reach=newest, again=again, closes=closes)

    def watermarks(self) -> dict[str, WatermarkState]:
        return {
            each.key: WatermarkState(each.observed, each.observed, each.delay, False) for each in self.all
        }

    def tell(self) -> None:
        self.told.append(self.now)

    def unread(self) -> dict[str, int]:
        return {self.key: self.written(self.now) - self.read}

    all: list[Topic] = field(default_factory=list)


class Spark:
    """What Spark does with a query's readers: asks each, and runs a batch where there is something to do."""

    def __init__(self, rule: BatchRule, *topics: Topic, batch_ms: int = 300) -> None:
        self.now = 0
        self.topics = list(topics)
        for topic in topics:
            topic.all = self.topics
        self.pace = BatchPace(rule, TUMBLE, clock=lambda: self.now, wait=self._wait)
        self.batch_ms = batch_ms
        self.batches: list[tuple[int, int]] = []
        """When each began, and how many records it read."""
        self.closed: list[int] = []
        """When the batch was done that closed each window."""
        self._evicted = NEVER

    def _wait(self, seconds: float) -> None:
        self.now += max(1, int(seconds * 1000))

    def watermark(self) -> int:
        return min(NEVER if t.observed is None else t.observed - t.delay for t in self.topics)

    def run(self, until: int) -> None:
        while self.now < until:
            reads = [topic for topic in self.topics if self.pace.reads(topic)]
            before, begun, count = self.watermark(), self.now, 0
            for topic in reads:
                count += topic.written(begun) - topic.read
            if not count and before <= self._evicted:
                self.now += 10
                continue
            self.pace.note_batch()
            self.now += self.batch_ms
            self.batches.append((begun, count))
            if TUMBLE.closes_one(self._evicted, before) and self._evicted != NEVER:
                self.closed.append(self.now)
            self._evicted = max(before, self._evicted)
            for topic in reads:
                if topic.written(begun) > topic.read:
                    topic.read, topic.observed = topic.written(begun), topic.newest(begun)


def test_a_light_dagger_has_two_batches_a_minute_and_its_windows_close_in_time() -> None:
    spark = Spark(RULE, Topic("s.0", rate=10))
    spark.run(11 * MINUTE)
    counted = [begun for begun, _ in spark.batches if begun >= MINUTE]

    assert len(counted) <= 10 * 2 + 2
    assert len(spark.closed) == 11
    assert all(5_000 <= closed % MINUTE <= 7_000 for closed in spark.closed)


def test_a_dagger_whose_records_wait_for_20_s_has_no_batch_beside_the_two_that_close_its_window() -> None:
    spark = Spark(replace(RULE, longest_wait=20_000), Topic("s.0", rate=10))
    spark.run(11 * MINUTE)
    counted = [begun for begun, _ in spark.batches if begun >= MINUTE]

    assert len(counted) <= 10 * 2 + 2
    assert len(spark.closed) == 11


def test_two_topics_close_their_windows_when_the_later_one_lets_them() -> None:
    spark = Spark(RULE, Topic("s.0", rate=10), Topic("s.1", rate=2, delay=10_000))
    spark.run(11 * MINUTE)

    assert len(spark.closed) == 11
    assert all(10_000 <= closed % MINUTE <= 12_500 for closed in spark.closed)
    assert len(spark.batches) <= 11 * 3


def test_a_busy_dagger_reads_as_soon_as_there_are_enough_records() -> None:
    spark = Spark(RULE, Topic("s.0", rate=5_000))
    spark.run(MINUTE)

    assert max(count for _, count in spark.batches) <= 10_000 + 5_000
    assert len(spark.batches) >= 25


def test_a_backlog_is_read_without_batches_that_only_close_and_its_windows_are_closed() -> None:
    spark = Spark(RULE, Topic("s.0", rate=100_000), batch_ms=3_000)
    spark.run(5 * MINUTE + 10_000)

    assert [begun for begun, count in spark.batches if not count] == []
    assert len(spark.closed) == 5


def test_a_forwarding_dagger_has_a_batch_at_each_trigger() -> None:
    spark = Spark(AT_ONCE, Topic("s.0", rate=10))
    spark.run(MINUTE)
    begins = [begun for begun, count in spark.batches if count]

    assert len(begins) >= 55
    assert all(after - before >= 1_000 for before, after in itertools.pairwise(begins))


def test_records_that_wait_are_told_of_every_two_seconds() -> None:
    topic = Topic("s.0", rate=10)
    spark = Spark(RULE, topic)
    spark.run(2 * MINUTE)
    pauses = [after - before for before, after in zip(topic.told, topic.told[1:], strict=False)]

    assert max(pauses) <= 2_000


def test_a_query_that_drains_waits_for_nothing() -> None:
    topic = Topic("s.0", rate=10)
    spark = Spark(RULE, topic)
    spark.run(MINUTE + 10_000)
    spark.pace.release()
    begun = spark.now

    assert (spark.pace.reads(topic), spark.now - begun < 100) == (False, True)


class Boastful(Topic):
    """For two minutes what waits in it looks newer than it is once it is read."""

    def see(self, watermark: int, now: int) -> ReaderView:
        seen = super().see(watermark, now)
        if seen.reach is None or now > 2 * MINUTE:
            return seen
        return replace(seen, reach=seen.reach + 5 * MINUTE)


def test_a_forecast_that_does_not_come_true_forgets_no_window_and_repeats_no_batch() -> None:
    spark = Spark(RULE, Boastful("s.0", rate=10))
    spark.run(11 * MINUTE)

    assert len(spark.closed) == 11
    assert all(5_000 <= closed % MINUTE <= 7_000 for closed in spark.closed)
    assert len([begun for begun, _ in spark.batches if begun > 2 * MINUTE + 10_000]) <= 9 * 2 + 2


def test_each_gate_of_a_window_is_an_end() -> None:
    gated = Windows(MINUTE, MINUTE, (0, 15_000, 90_000))
    ends = [60_000]
    while ends[-1] < 150_000:
        ends.append(gated.next_end(ends[-1]))
    assert ends == [60_000, 75_000, 90_000, 120_000, 135_000, 150_000]
    assert (gated.closes_one(60_000, 74_999), gated.closes_one(74_999, 75_000)) == (False, True)
    assert (gated.last_end(59_999), gated.last_gate(59_999)) == (60_000, 150_000)
