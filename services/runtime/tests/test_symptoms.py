"""What a driver finds wrong with its own work: every number of its warnings is counted again here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from runtime.launch import symptoms
from runtime.launch.symptoms import Symptoms
from runtime.source.metrics import NewestRecord, ReaderMetrics
from runtime.source.watermark import WatermarkState

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
DELAY_MS = 5_000
PATIENCE = 75 * SECOND
KEY = "data_stream.0"


def ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)


@dataclass
class Driver:
    """A reader of one topic, told batch by batch what it read."""

    known: Symptoms = field(default_factory=lambda: Symptoms(PATIENCE))
    reached: int | None = None
    watermark: datetime | None = None

    def batch(
        self,
        at: datetime,
        *,
        read: int = 0,
        late: int = 0,
        newest: NewestRecord | None = None,
        late_newest: datetime | None = None,
        tick: datetime | None = None,
        gave: bool = False,
        opens: bool = True,
    ) -> Driver:
        """Commit a batch under the watermark of the batches before it."""
        times = [newest.time if newest else None, ms(tick) if tick else None, self.reached]
        self.reached = max((time for time in times if time is not None), default=None)
        readers: Mapping[str, ReaderMetrics] = {
            KEY: ReaderMetrics(ms(late_newest) if late_newest else None, newest)
        }
        watermarks = {KEY: WatermarkState(self.reached, newest.time if newest else None, DELAY_MS, False)}
        told = {"t": late} if late else {}
        batch = symptoms.Batch(at, read, told, 2 * late, opens, gave, self.watermark, readers, watermarks)
        self.known = symptoms.add_batch(self.known, batch)
        if self.reached is not None:
            moved = datetime.fromtimestamp((self.reached - DELAY_MS) / 1000, UTC)
            self.watermark = max(moved, self.watermark or moved)
        return self

    def says(self, now: datetime) -> dict[str, str]:
        """The warnings, by code."""
        return {warning.code: warning.text for warning in symptoms.warnings(self.known, now)}

    def measures(self, now: datetime) -> dict[str, tuple[float, float, str]]:
        """What was measured, its limit and its unit, by the code of the warning."""
        warned = {warning.code: warning.measure for warning in symptoms.warnings(self.known, now)}
        return {code: (it.value, it.limit, it.unit) for code, it in warned.items() if it is not None}


def record(at: datetime, offset: int, *, ahead: timedelta = timedelta()) -> NewestRecord:
    return NewestRecord(ms(at), f"bookings/0, offset {offset}", ahead // timedelta(milliseconds=1))


def test_the_record_whose_clock_was_ahead_is_named_as_soon_as_it_makes_others_late() -> None:
    driver = Driver().batch(NOON, read=100, newest=record(NOON + 4 * MINUTE, 57, ahead=4 * MINUTE))
    before = driver.says(NOON)
    driver.batch(NOON + SECOND, read=40, late=39, newest=record(NOON, 158), late_newest=NOON)

    assert before == {}
    assert driver.says(NOON + SECOND)["LATE_RECORDS"] == (
        "39 of the 140 rows of the last 5 min (27.9%) came after a window of theirs was closed, and are"
        " missing from 78 windows in all. Event time was moved to 2026-01-01T12:04:00Z by bookings/0, offset"
        " 57: 4 min ahead of the clock"
        " when it was read, 4 min ahead of the newest of them."
    )


def test_in_a_backlog_the_record_is_named_without_a_clock_to_compare_it_with() -> None:
    driver = Driver().batch(NOON, read=2, newest=record(NOON - 60 * MINUTE, 7))
    driver.batch(NOON + SECOND, read=1, late=1, late_newest=NOON - 110 * MINUTE)

    assert driver.says(NOON + SECOND)["LATE_RECORDS"].endswith(
        " by bookings/0, offset 7: 50 min ahead of the newest of them."
    )


def test_rows_behind_a_tick_are_late_because_their_stream_was_silent() -> None:
    driver = (
        Driver().batch(NOON, read=1, newest=record(NOON, 7)).batch(NOON + MINUTE, tick=NOON + 50 * SECOND)
    )
    driver.batch(NOON + 2 * MINUTE, read=1, late=1, late_newest=NOON + 2 * SECOND)

    assert "silent for its idle_timeout" in driver.says(NOON + 2 * MINUTE)["LATE_RECORDS"]


def test_after_a_launch_no_record_is_blamed_for_what_an_earlier_launch_read() -> None:
    driver = Driver(watermark=NOON + 50 * MINUTE)
    driver.batch(NOON, read=3, late=3, newest=record(NOON, 9), late_newest=NOON)
    driver.batch(NOON + SECOND, read=3, late=3, newest=record(NOON + SECOND, 12), late_newest=NOON + SECOND)

    assert "before this launch" in driver.says(NOON + SECOND)["LATE_RECORDS"]


def test_rows_from_before_1970_are_late_and_named_as_such() -> None:
    old = datetime(1969, 12, 31, tzinfo=UTC)
    driver = Driver().batch(NOON, read=2, late=2, newest=record(old, 1), late_newest=old)

    assert driver.says(NOON)["LATE_RECORDS"] == (
        "2 of the 2 rows of the last 5 min (100.0%) came after a window of theirs was closed, and are"
        " missing from 4 windows in all. Spark's event time begins in 1970: windows before are closed from"
        " the beginning."
    )


def test_late_rows_are_too_many_above_one_in_a_hundred_and_from_ten_on() -> None:
    def says(read: int, late: int) -> set[str]:
        driver = Driver().batch(NOON, read=1, newest=record(NOON + MINUTE, 7))
        return set(driver.batch(NOON, read=read - 1, late=late, late_newest=NOON).says(NOON))

    assert [says(1_000, 10), says(999, 10), says(20, 9)] == [
        {"LATE_RECORDS"}, {"LATE_RECORDS", "LATE_ROWS"}, {"LATE_RECORDS"},
    ]  # fmt: skip


def test_the_share_of_late_rows_is_told_beside_its_limit() -> None:
    driver = Driver().batch(NOON, read=1, newest=record(NOON + MINUTE, 7))
    driver.batch(NOON, read=39, late=10, late_newest=NOON)

    assert driver.measures(NOON) == {"LATE_ROWS": (0.25, 0.01, "share")}


def test_a_late_row_after_a_pause_is_not_too_many() -> None:
    driver = Driver().batch(NOON, read=1, newest=record(NOON + MINUTE, 7))
    driver.batch(NOON, read=39, late=20, late_newest=NOON)
    assert "LATE_ROWS" in driver.says(NOON)
    later = NOON + 10 * MINUTE
    driver.batch(later, read=5, late=1, late_newest=NOON, gave=True)

    assert set(driver.says(later)) == {"LATE_RECORDS"}


def test_late_rows_are_told_of_for_five_minutes() -> None:
    driver = Driver().batch(NOON, read=1, newest=record(NOON + MINUTE, 7))
    driver.batch(NOON + 6 * SECOND, read=9, late=9, late_newest=NOON)

    after = [driver.says(NOON + 6 * SECOND + symptoms.SPAN + extra) for extra in (-SECOND, timedelta())]

    assert [set(each) for each in after] == [{"LATE_RECORDS"}, set()]


def test_a_thousand_batches_are_kept_as_a_few_sums_that_count_the_same() -> None:
    driver = Driver().batch(NOON, read=1, newest=record(NOON + 60 * MINUTE, 7))
    for number in range(1, 1_000):
        at = NOON + number * SECOND / 4
        driver.batch(at, read=3, late=1, late_newest=NOON)

    assert driver.says(NOON + 250 * SECOND)["LATE_RECORDS"].startswith("999 of the 2,998 rows")
    assert len(driver.known.rows) == 50


def test_input_without_output_is_told_once_every_window_should_have_closed() -> None:
    driver = Driver()
    for minute in range(8):
        driver.batch(NOON + minute * MINUTE, read=10, newest=record(NOON, minute))
    overdue = NOON + PATIENCE + symptoms.OVERDUE

    assert driver.says(overdue - SECOND) == {}
    assert driver.measures(overdue + SECOND) == {"NO_OUTPUT": (376.0, 375.0, "s")}
    assert driver.says(overdue) == {
        "NO_OUTPUT": "80 rows were read in 6 min 15 s (0 of them late), and no window was closed, which takes"
        " at most 1 min 15 s; event time stands at 2026-01-01T11:59:55Z"
    }


def test_a_window_that_closes_begins_the_wait_anew_and_no_input_or_no_open_window_is_no_wait() -> None:
    long = 60 * MINUTE
    closing = Driver().batch(NOON, read=1).batch(NOON + long, read=1, gave=True)
    forwarding = Driver().batch(NOON, read=1, opens=False).batch(NOON + long, read=1, opens=False)
    silent = Driver().batch(NOON, read=1, gave=True).batch(NOON + SECOND)
    unwindowed = Driver(Symptoms(None)).batch(NOON, read=1)

    told = [each.says(NOON + 2 * long) for each in (closing, forwarding, silent, unwindowed)]

    assert told == [{}, {}, {}, {}]


def test_late_rows_are_too_many_until_they_are_half_of_that() -> None:
    """At the limit itself the dagger would be DEGRADED and RUNNING in turns."""
    driver = Driver().batch(NOON, read=1, newest=record(NOON + MINUTE, 7))
    told, at = [], NOON
    for late in (11, 9, 11, 9, 11, 9, 0, 0):  # of a thousand in five minutes
        for number in range(10):
            at += 30 * SECOND
            share = late - 9 if late and not number else min(late, 1)
            driver.batch(at, read=100, late=share, late_newest=NOON if share else None)
            told.append("LATE_ROWS" in driver.says(at))

    changes = sum(before != after for before, after in pairwise(told))
    assert (any(told), changes, told[-1]) == (True, 2, False)
