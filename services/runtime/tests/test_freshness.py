"""Ages of rows when a sink has them: counted in workers, summed for an hour, beside an objective."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daggerspec.columns import RECORD_TIME, WINDOW_END
from daggersql.plan import GATE
from fleet.health.degradation import DRIVER_REASONS
from runtime.launch import freshness, progress
from runtime.launch.freshness import SinkFreshness, quantile_ms
from runtime.launch.progress import Progress, heartbeat_at
from runtime.launch.report import AGES, TROUBLE, Report, line, read_report
from runtime.launch.row_ages import PartAges, RowAges, age_of, bucket_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
TEN_S = 10 * SECOND
SCHEMA = [("city", pa.string()), (WINDOW_END, pa.timestamp("us", "UTC"))]


def rows(*ages_s: float | None, schema: list[tuple[str, pa.DataType]] = SCHEMA) -> pa.RecordBatch:
    """Rows whose windows ended so long before noon."""
    name = schema[-1][0]
    ends = [None if age is None else NOON - timedelta(seconds=age) for age in ages_s]
    return pa.RecordBatch.from_pylist([{"city": "a", name: end} for end in ends], schema=pa.schema(schema))


def buckets(*ages_s: float) -> Counter[int]:
    return Counter(bucket_of(age_s * 1000) for age_s in ages_s)


def counting(*, updates: bool = False) -> RowAges:
    return RowAges(NOON.timestamp(), updates=updates)


# ---- In a worker -------------------------------------------------------------------------------------------


@given(st.floats(10, 12 * 365 * 86_400_000))
def test_a_bucket_is_as_old_as_its_rows_within_a_twentieth(age_ms: float) -> None:
    assert math.isclose(age_of(bucket_of(age_ms)), age_ms, rel_tol=0.05)


@pytest.mark.parametrize("age_ms", [-5_000.0, 0.0, 9.9])
def test_an_age_that_clocks_make_negative_is_the_least(age_ms: float) -> None:
    assert bucket_of(age_ms) == 0


def test_rows_are_counted_by_the_end_of_their_window_until_the_sink_has_them() -> None:
    ages = counting()
    ages.add(rows(4.0, 4.0, None))
    ages.add(rows(60.0))

    part = ages.seal(NOON.timestamp() + 2)

    found = sorted(round(age_of(bucket) / 1000, 1) for bucket in part.at(NOON.timestamp() + 2).elements())
    assert [math.isclose(age, true, rel_tol=0.1) for age, true in zip(found, (6, 6, 62), strict=True)] == [
        True, True, True,
    ]  # fmt: skip


def test_a_row_of_one_record_is_as_old_as_its_event_time() -> None:
    columns: list[tuple[str, pa.DataType]] = [("city", pa.string()), (RECORD_TIME, pa.timestamp("us"))]
    ages = counting()
    ages.add(rows(3.0, schema=columns))

    assert ages.seal(NOON.timestamp()).counts == buckets(3.0)


def test_rows_that_a_sink_refuses_are_not_among_them() -> None:
    ages, batch = counting(), rows(1.0, 30.0, 900.0)
    ages.add(batch)
    ages.remove(batch, [1])
    ages.remove(batch.slice(2), [0])

    assert ages.seal(None).counts == buckets(1.0)


@pytest.mark.parametrize(("updates", "count"), [(True, 1), (False, 2)])
def test_an_update_of_a_window_that_is_open_has_no_age(updates: bool, count: int) -> None:
    ages = counting(updates=updates)
    ages.add(rows(-30.0, 2.0))

    assert sum(ages.seal(None).counts.values()) == count


def test_a_row_that_is_written_again_is_as_old_as_it_was_due() -> None:
    ages, batch = counting(updates=True), rows(600.0, 2.0)
    ages.add(batch.append_column(GATE, rows(3.0, 2.0).column(WINDOW_END)))

    assert ages.seal(NOON.timestamp()).counts == buckets(3.0, 2.0)


def test_rows_without_a_time_have_no_age() -> None:
    ages, batch = counting(), rows(1.0).select(["city"])
    ages.add(batch)
    ages.remove(batch, [0])

    assert (ages.seal(NOON.timestamp()).counts, ages.seal(None).oldest) == ({}, None)


def test_a_hundred_thousand_rows_of_a_year_take_no_more_than_the_buckets() -> None:
    ages = counting()
    ages.add(rows(*(second * 315.0 for second in range(100_000))))

    assert len(ages.seal(None).counts) <= 502
    assert len(ages.seal(None).encode()) < 10_000


def test_what_workers_say_is_by_sink_and_what_waits_is_what_the_last_attempt_says() -> None:
    def row(sink: str, part: PartAges, partition: int = 0) -> Any:
        return {"partition": partition, **line(sink, AGES, content=part.encode())}

    began = NOON.timestamp()
    acknowledged, other = PartAges(began, began + 1, buckets(3.0)), PartAges(began, began + 2, buckets(4.0))
    waits, older = PartAges(began, None, buckets(5.0)), PartAges(began, None, buckets(7.0, 1.0))
    trouble = {"partition": 2, **line("away", TROUBLE, reason="SINK_UNAVAILABLE", text="it is away.")}
    rows_of_first = [row("crm", acknowledged), row("away", waits), row("away", older, 1), trouble]
    first = read_report(rows_of_first)
    total = Report().merge(first).merge(read_report([row("away", other)]))

    assert total.ages == {"crm": [acknowledged], "away": [other]}
    assert (first.waiting["away"], total.waiting) == (older.oldest, {})
    assert abs(first.waiting["away"] - (NOON - 7 * SECOND)) < 0.4 * SECOND


# ---- In the driver -----------------------------------------------------------------------------------------


def test_rows_that_were_staged_are_as_old_as_when_they_were_committed() -> None:
    part = PartAges(NOON.timestamp(), NOON.timestamp() + 1, buckets(2.0))

    direct, staged = (freshness.count_acknowledged([part], when) for when in (None, NOON.timestamp() + 60))

    assert (abs(quantile_ms(direct, 0.5) - 3_000) < 300, abs(quantile_ms(staged, 0.5) - 62_000) < 4_000) == (
        True, True,
    )  # fmt: skip


@given(st.lists(st.floats(0.01, 100_000), min_size=1), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_quantile_is_that_of_the_sorted_ages_within_a_twentieth(ages_s: list[float], share: float) -> None:
    exact = sorted(ages_s)[max(math.ceil(share * len(ages_s) - 1e-9) - 1, 0)]

    assert math.isclose(quantile_ms(buckets(*ages_s), share) / 1000, exact, rel_tol=0.06)


def test_an_hour_ends() -> None:
    sink = SinkFreshness()
    for minute in range(90):
        sink = sink.add(NOON + minute * MINUTE, buckets(100.0 if minute < 60 else 1.0))
    end = NOON + 89 * MINUTE

    lately = freshness.to_proto(sink, end)

    assert (lately.rows, len(sink.minutes)) == (60, 60)
    assert abs(lately.p99_ms - 100_000) < 5_000
    assert abs(freshness.to_proto(sink, end + 31 * MINUTE).p99_ms - 1_000) < 50
    assert freshness.to_proto(sink, end + 61 * MINUTE).rows == 0


def test_batches_of_one_minute_are_one_sum() -> None:
    sink = SinkFreshness()
    for second in range(100):
        sink = sink.add(NOON + second * SECOND, buckets(1.0))

    assert [sum(minute.counts.values()) for minute in sink.minutes] == [60, 40]


def new_progress(objective: timedelta | None = TEN_S) -> Progress:
    return progress.initial("d", 7, "h1", 42, sinks=("crm", "files"), objective=objective)


def acknowledge(done: Progress, now: datetime, *ages_s: float, sink: str = "crm") -> Progress:
    return progress.judge_freshness(progress.rows_acknowledged(done, now, {sink: buckets(*ages_s)}), now)


def codes(done: Progress, now: datetime) -> list[str]:
    return [warning.partition(":")[0] for warning in heartbeat_at(done, now).warnings]


def test_a_heartbeat_says_of_each_sink_with_rows_how_fresh_they_are() -> None:
    beat = heartbeat_at(acknowledge(new_progress(None), NOON, *[1.0] * 98, 40.0, 50.0), NOON)

    [(name, crm)] = beat.freshness.items()
    assert (name, crm.rows, crm.HasField("waiting_since"), [*beat.warnings]) == ("crm", 100, False, [])
    assert [math.isclose(found, 1000 * true, rel_tol=0.05) for found, true in (
        (crm.p50_ms, 1), (crm.p95_ms, 1), (crm.p99_ms, 40),
    )] == [True, True, True]  # fmt: skip


def test_the_last_minute_is_told_beside_the_hour() -> None:
    done = acknowledge(acknowledge(new_progress(None), NOON, 40.0), NOON + MINUTE, 1.0)

    now, later = (heartbeat_at(done, NOON + minutes * MINUTE).freshness["crm"] for minutes in (1, 2))

    assert math.isclose(now.recent_p95_ms, 1_000, rel_tol=0.05)
    assert math.isclose(now.p95_ms, 40_000, rel_tol=0.05)
    assert not later.HasField("recent_p95_ms")


def test_an_objective_is_missed_from_a_twentieth_of_the_rows_on_until_half_of_that() -> None:
    def after(late: int, before: Progress | None = None) -> Progress:
        sink = SinkFreshness(is_missed=bool(before and before.fresh["crm"].is_missed))
        fresh = replace(before or new_progress(), fresh={"crm": sink, "files": SinkFreshness()})
        return acknowledge(fresh, NOON, *[1.0] * (100 - late), *[20.0] * late)

    missed = after(6)
    states = [after(5), missed, after(4, missed), after(2, missed)]

    assert [codes(done, NOON) for done in states] == [[], [freshness.MISSED], [freshness.MISSED], []]
    for done in states[1:3]:
        measure = heartbeat_at(done, NOON).measures[freshness.MISSED]
        assert (measure.value > measure.limit, measure.limit, measure.unit) == (True, 10.0, "s")
    assert freshness.MISSED in DRIVER_REASONS


def test_an_objective_is_met_again_once_five_minutes_are_over() -> None:
    done = acknowledge(new_progress(), NOON, 20.0)
    done = acknowledge(done, NOON + MINUTE, 1.0)

    later = progress.judge_freshness(done, NOON + 5 * MINUTE)

    assert (codes(done, NOON + MINUTE), codes(later, NOON + 5 * MINUTE)) == ([freshness.MISSED], [])


def test_a_row_that_waits_for_its_sink_misses_it_though_nothing_is_acknowledged() -> None:
    wait = partial(progress.retrying, why=[], waiting={"files": NOON})
    soon, late = (
        progress.judge_freshness(wait(new_progress()), NOON + passed * SECOND) for passed in (9, 11)
    )
    beat = heartbeat_at(late, NOON + 11 * SECOND)

    assert (codes(soon, NOON + 9 * SECOND), codes(late, NOON + 11 * SECOND)) == ([], [freshness.MISSED])
    assert beat.freshness["files"].waiting_since.ToDatetime(UTC) == NOON
    assert beat.measures[freshness.MISSED].value == 11.0
    assert (
        "a row whose window ended 11 s ago waits for files, where 10 s is the objective" in beat.warnings[0]
    )


def test_once_every_sink_has_the_batch_nothing_waits() -> None:
    waited = progress.retrying(new_progress(), why=[], waiting={"files": NOON})

    done = progress.rows_acknowledged(waited, NOON + 60 * SECOND, {})

    assert [sink.waiting_since for sink in done.fresh.values()] == [None, None]
    assert [sink.waiting_since for sink in progress.retrying(waited, why=[]).fresh.values()] == [None, None]


def test_of_several_sinks_the_worst_is_named_first() -> None:
    done = acknowledge(acknowledge(new_progress(), NOON, 20.0), NOON, 90.0, sink="files")
    beat = heartbeat_at(done, NOON)

    [text] = beat.warnings
    assert text.startswith(
        "FRESHNESS_MISSED: 100.0% of the 1 rows of the last 5 min were in files later than 10 s"
    )
    assert "; 100.0% of the 1 rows of the last 5 min were in crm later" in text
    assert abs(beat.measures[freshness.MISSED].value - 90) < 4.5


def test_without_an_objective_nothing_is_missed() -> None:
    assert codes(acknowledge(new_progress(None), NOON, 1e6), NOON) == []
