"""Topics that change and drivers that die: nothing is skipped, and what cannot go on says so."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions
from services.runtime.tests.streams import (
    BEGIN,
    COUNT,
    PATIENCE_S,
    SIZE,
    Feed,
    Job,
    booking,
    united,
    windows,
)

from runtime import errors

pytestmark = pytest.mark.integration


def test_a_launch_that_finds_nothing_to_read_begins_with_an_empty_batch(
    feed: Feed, run: Callable[..., Job]
) -> None:
    feed.create(partitions=2)
    job = run(feed.resolved()).start()
    job.until(lambda job: len(job.counts) > 0)
    feed.send([booking(1)])
    job.until(lambda job: job.total(lambda c: c.rows) == 1)

    assert [count.rows for count in job.counts][:2] == [0, 1]


def test_a_crash_in_batch_0_skips_nothing_when_the_start_is_latest(
    feed: Feed, run: Callable[..., Job]
) -> None:
    feed.create()
    feed.send([booking(-100), booking(-50)])
    late_start = feed.resolved(start={"latest": True}, idle_timeout={"seconds": 1})
    late_start.input.start.latest = True
    first = run(late_start)
    first.fail_in = 0
    first.start()
    feed.send([booking(1), booking(2)])
    assert first.query is not None
    with pytest.raises(Exception, match="killed in this batch"):
        first.query.awaitTermination(PATIENCE_S)
    first.stop()
    feed.send([booking(13)])

    second = run(late_start, generation=2).start()
    second.until(lambda job: job.total(lambda c: c.rows) == 3 and len(job.rows) == 2)

    assert (second.rows, second.context.registry.state().complete_from()) == (
        windows([1, 2, 13]),
        BEGIN + timedelta(seconds=-50, microseconds=1),
    )


def test_a_relaunch_knows_which_rows_are_whole_before_its_readers_have_data(
    feed: Feed, run: Callable[..., Job], tmp_path: Path
) -> None:
    feed.create()
    feed.send([booking(-100)])
    jobs = [run(feed.resolved(start={"latest": True}), run_dir=tmp_path / name) for name in ("first", "next")]
    known = BEGIN + timedelta(seconds=-100, microseconds=1)

    assert [job.context.registry.state().complete_from() for job in jobs] == [known, known]


def test_a_topic_made_anew_ends_the_job_and_says_so(feed: Feed, run: Callable[..., Job]) -> None:
    feed.create()
    feed.send([booking(1)])
    job = run(feed.resolved()).start()
    job.until(lambda job: job.total(lambda c: c.rows) == 1)
    feed.admin.delete_topics([feed.topic])[feed.topic].result()
    again = Feed(feed.kafka, feed.topic)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            again.create()
        except Exception:  # noqa: BLE001 - the broker is still deleting it
            continue
        break
    again.send([booking(2), booking(3)])
    assert job.query is not None
    with pytest.raises(Exception, match="TOPIC_") as caught:
        job.query.awaitTermination(PATIENCE_S)

    assert errors.explain(caught.value).reason in {"TOPIC_RECREATED", "TOPIC_MISSING"}


def test_partitions_that_are_added_later_are_read_from_their_beginning(
    feed: Feed, run: Callable[..., Job]
) -> None:
    feed.create()
    feed.send([booking(1)])
    job = run(feed.resolved(start={"latest": True})).start()
    feed.admin.create_partitions([NewPartitions(feed.topic, 2)])[feed.topic].result()
    Feed(feed.kafka, feed.topic).send([booking(2)], partition=1)
    job.until(lambda job: job.total(lambda c: c.rows) >= 1)

    assert job.counts[-1].lag.keys() == {f"{feed.topic}/0", f"{feed.topic}/1"}


@pytest.mark.long
def test_topics_come_and_go_and_open_windows_lack_nothing_of_them(
    feed: Feed, run: Callable[..., Job]
) -> None:
    a, b, c = feed.create(), feed.beside(), feed.beside()
    closed_at_29 = {"open": BEGIN + timedelta(seconds=29) - SIZE}
    a.send([booking(5), booking(31)])
    ran = run(a.resolved()).start()
    ran.until(lambda job: job.rows == windows([5])).stop()
    a.send([booking(31.5)])
    b.send([booking(6), booking(25), booking(33)])

    failed = run(a.resolved())
    failed.fail_in = 0
    with pytest.raises(Exception, match="killed in this batch"):
        failed.start().until(lambda _: False)
    failed.stop()
    ending = run(united(a, b), **closed_at_29)
    assert ending.closing
    assert ending.start().query.awaitTermination(PATIENCE_S)  # type: ignore[union-attr]
    ending.stop()
    both = run(united(a, b), **closed_at_29).start()
    a.send([booking(50)])
    b.send([booking(50)])
    both.until(
        lambda job: job.rows == windows([25, 31, 31.5, 33]) and job.total(lambda c: c.late) == 1
    ).stop()

    b.send([booking(53), booking(70)])
    c.send([booking(47), booking(52), booking(70)])
    closed_at_48 = {"open": BEGIN + timedelta(seconds=48) - SIZE}
    swapped = run(united(b, c), **closed_at_48)
    if swapped.closing:  # the batch that wrote the rows was not committed when it was stopped
        assert swapped.start().query.awaitTermination(PATIENCE_S)  # type: ignore[union-attr]
        swapped.stop()
        swapped = run(united(b, c), **closed_at_48)
    swapped.start().until(lambda job: job.rows == windows([47, 50, 50, 52, 53]))

    assert swapped.total(lambda c: c.late) == 0


def test_a_topic_that_is_gone_holds_nothing_up_though_a_batch_of_it_was_planned(
    feed: Feed, run: Callable[..., Job]
) -> None:
    a, b = feed.create(), feed.beside()
    of_b = COUNT.format(where="WHERE city = 2")
    a.send([booking(1), booking(11)])
    b.send([booking(second, city=2) for second in (2, 3, 4, 12)])
    failed = run(united(a, b))
    failed.fail_in = 0
    with pytest.raises(Exception, match="killed in this batch"):
        failed.start(of_b).until(lambda _: False)
    failed.stop()
    a.admin.delete_topics([a.topic])[a.topic].result()
    end = time.monotonic() + PATIENCE_S
    while a.topic in a.admin.list_topics(timeout=10).topics:
        assert time.monotonic() < end

    ending = run(b.resolved())
    assert ending.start(of_b).query.awaitTermination(PATIENCE_S)  # type: ignore[union-attr]
    ending.stop()
    alone = run(b.resolved()).start(of_b)
    b.send([booking(31, city=2)])
    alone.until(lambda job: len(job.rows) == 2)

    assert (ending.missing, alone.closing, alone.rows) == ({a.topic}, False, windows([2, 3, 4, 12]))
