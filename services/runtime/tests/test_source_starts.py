"""Where reading begins, asked of a real broker: at a start, and after what was read before an edit."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import TopicPartition
from services.runtime.tests.streams import BEGIN, FILES, Feed, booking

from runtime.decode.decoder import Decoder, find_message, message_pool
from runtime.source.event_times import EventTimes
from runtime.source.offsets import Offsets
from runtime.source.planner.broker import Broker
from runtime.source.planner.start_offsets import Predecessor, start_offsets

pytestmark = pytest.mark.integration
DELAY_S, TOLERANCE_S = 2, 300


def begun(feed: Feed, start: int | str, before: Predecessor | None = None) -> Offsets:
    """Where a reader of the feed's topic begins."""
    message = find_message(message_pool(FILES), "t.Booking")
    times = EventTimes(Decoder(message, (), "event_timestamp"), TOLERANCE_S * 1000, DELAY_S * 1000)
    with closing(Broker({"bootstrap.servers": feed.kafka}, "g")) as broker:
        return start_offsets(broker, [feed.topic], start, before, times)


def read(feed: Feed, *offsets: int) -> dict[tuple[str, int], int]:
    """The next offsets of the feed's partitions, by the topic's id."""
    id_ = begun(feed, "earliest").ids[feed.topic]
    return {(id_, number): offset for number, offset in enumerate(offsets)}


def next_of(offsets: Offsets) -> list[int]:
    return [offset for _, offset in sorted(offsets.next.items())]


def at(second: float) -> int:
    """So many seconds after BEGIN, in us."""
    return int((BEGIN + timedelta(seconds=second)).timestamp() * 1_000_000)


def kafka_time(ahead_s: float, seconds: list[float]) -> Callable[[int], int]:
    """Kafka times (ms) that event times are this far ahead of."""
    return lambda index: at(seconds[index] - ahead_s) // 1000


def forget(feed: Feed, *before: int) -> None:
    """Delete the records before these offsets, as retention does."""
    places = [TopicPartition(feed.topic, number, offset) for number, offset in enumerate(before)]
    for future in feed.admin.delete_records(places).values():
        future.result()


def test_at_the_end_rows_are_whole_from_behind_the_newest_record_that_is_skipped(feed: Feed) -> None:
    feed.create(partitions=2)
    feed.send([booking(30), booking(10)], 0)
    feed.send([booking(20)], 1)
    offsets = begun(feed, "latest")

    assert (next_of(offsets), offsets.complete_from) == ([2, 1], at(30) + 1)


def test_behind_what_retention_took_rows_are_whole_from_the_latest_of_all_heads(feed: Feed) -> None:
    feed.create(partitions=3)
    for number, head in enumerate((100, 500, 0)):
        feed.send([booking(head + second) for second in range(10)], number)
    forget(feed, 4, 7, 0)
    offsets = begun(feed, "earliest")

    assert (next_of(offsets), offsets.complete_from) == ([4, 7, 0], at(507 + DELAY_S) + 1)


def test_where_nothing_is_skipped_every_row_is_whole(feed: Feed) -> None:
    feed.create()
    feed.send([booking(1)])
    past = Predecessor(read(feed, 1), BEGIN - timedelta(hours=1), 0)

    assert [begun(feed, "earliest", each).complete_from for each in (None, past)] == [0, 0]


def test_after_an_edit_every_record_that_is_needed_is_read_however_far_clocks_were_ahead(feed: Feed) -> None:
    seconds = [float(second) for second in range(0, 1000, 10)]
    feed.create()
    feed.send(map(booking, seconds), at=kafka_time(TOLERANCE_S - 1, seconds))
    offsets = begun(feed, "latest", Predecessor(read(feed, 90), BEGIN + timedelta(seconds=800), 0))
    (first,) = next_of(offsets)

    assert 0 < first <= 80
    assert offsets.complete_from == at(800)


def test_after_an_edit_nothing_is_skipped_that_was_not_read(feed: Feed) -> None:
    # What is read by the edit is half of it, while event time is ahead of Kafka's: by that all was read.
    seconds = [float(second) for second in range(0, 1000, 10)]
    feed.create()
    feed.send(map(booking, seconds), at=kafka_time(1000, seconds))

    assert next_of(begun(feed, "latest", Predecessor(read(feed, 50), BEGIN + timedelta(seconds=490), 0))) == [
        50
    ]


def test_an_edit_that_needs_nothing_of_what_was_read_goes_on_right_there(feed: Feed) -> None:
    feed.create(partitions=2)
    feed.send([booking(1), booking(2), booking(3)], 0)
    feed.send([booking(4)], 1)
    offsets = begun(feed, "latest", Predecessor(read(feed, 2), None, 17))

    # The second partition is new to it.
    assert (next_of(offsets), offsets.complete_from) == ([2, 1], at(4) + 1)


def test_an_edit_before_the_first_commit_begins_where_latest_was(feed: Feed) -> None:
    feed.create()
    feed.send([booking(1), booking(2)])
    before = begun(feed, "latest")
    feed.send([booking(11), booking(12)])
    offsets = begun(feed, "latest", Predecessor(read(feed, 2), None, before.complete_from))

    assert (next_of(offsets), offsets.complete_from) == ([2], before.complete_from)


def test_after_an_edit_what_retention_took_meanwhile_makes_rows_partial(feed: Feed) -> None:
    feed.create()
    feed.send([booking(second) for second in range(100)], at=lambda _: int(time.time() * 1000))
    past = Predecessor(read(feed, 90), BEGIN + timedelta(seconds=20), 0)
    forget(feed, 50)
    offsets = begun(feed, "latest", past)

    assert (next_of(offsets), offsets.complete_from) == ([50], at(50 + DELAY_S) + 1)


def test_a_time_before_the_epoch_is_no_offset(feed: Feed) -> None:
    feed.create()
    feed.send([booking(1)])

    assert next_of(
        begun(feed, "latest", Predecessor(read(feed, 1), datetime(1969, 1, 1, tzinfo=UTC), 0))
    ) == [0]
