"""A dagger that starts amid records or is edited while windows are open, on a real driver.

No row is ever written from a part: each is the row of the whole history, or is not there.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.job_driver import kafka_sink
from services.runtime.tests.launches import Dagger
from services.runtime.tests.sink_contract import records
from tests.integration.bookings import NOON, booking

pytestmark = [pytest.mark.integration, pytest.mark.long]

Event: TypeAlias = tuple[float, int]
"""Second, city."""
Key: TypeAlias = tuple[int, float]
"""City, end of the window."""
Rows: TypeAlias = dict[Key, tuple[int, float]]
"""How many records or pairs each row counts, and since when all that it is made of has to be known."""
Recount: TypeAlias = Callable[[list[Event]], Rows]
GAP_S, WINDOW_S, BOUND_S = 10, 60, 5
SESSIONS = f"""
SELECT tag_city, SUM(n) AS n, {{}} AS more, TUMBLE_END(rt, INTERVAL '{WINDOW_S}' SECOND) AS window_timestamp
FROM (SELECT city_id AS tag_city, COUNT(1) AS n, SESSION_ROWTIME(rowtime, INTERVAL '{GAP_S}' SECOND) AS rt
      FROM data_stream GROUP BY SESSION(rowtime, INTERVAL '{GAP_S}' SECOND), city_id) AS sessions
GROUP BY TUMBLE(rt, INTERVAL '{WINDOW_S}' SECOND), tag_city"""
TUMBLES = f"""
SELECT tag_city, SUM(n) AS n, {{}} AS more, TUMBLE_END(rt, INTERVAL '{WINDOW_S}' SECOND) AS window_timestamp
FROM (SELECT city_id AS tag_city, COUNT(1) AS n, TUMBLE_ROWTIME(rowtime, INTERVAL '45' SECOND) AS rt
      FROM data_stream GROUP BY TUMBLE(rowtime, INTERVAL '45' SECOND), city_id) AS tumbles
GROUP BY TUMBLE(rt, INTERVAL '{WINDOW_S}' SECOND), tag_city"""
SESSION = f"""
SELECT city_id AS tag_city, COUNT(1) AS n, {{}} AS more,
       SESSION_END(rowtime, INTERVAL '{GAP_S}' SECOND) AS window_timestamp
FROM data_stream GROUP BY SESSION(rowtime, INTERVAL '{GAP_S}' SECOND), city_id"""
PAIRS = f"""
SELECT a.city_id AS tag_city, COUNT(1) AS n, {{}} AS more,
       TUMBLE_END(a.rowtime, INTERVAL '{WINDOW_S}' SECOND) AS window_timestamp
FROM data_stream AS a JOIN data_stream AS b ON a.city_id = b.city_id
 AND b.rowtime BETWEEN a.rowtime - INTERVAL '{BOUND_S}' SECOND AND a.rowtime + INTERVAL '{BOUND_S}' SECOND
GROUP BY TUMBLE(a.rowtime, INTERVAL '{WINDOW_S}' SECOND), a.city_id"""


@dataclass
class Timed(Dagger):
    """A dagger whose records have their event time for Kafka's: that is what an edit goes back by."""

    idle_timeout_s: int = 0
    at: float | None = None
    """The second it starts at, if it does."""

    def write_events(self, events: Iterable[Event]) -> None:
        """Append the events, which are seconds after `began`."""
        for second, city in events:
            at = began(second)
            self._producer.produce(self.topic, booking(at, city_id=city), timestamp=round((NOON + at) * 1000))
        assert self._producer.flush(30) == 0

    def spec(self, run_dir: Path) -> spec_pb2.JobSpec:
        """The launch's file."""
        job = super().spec(run_dir)
        if self.at is not None:
            job.streams[0].input.start.at.FromMilliseconds(round((NOON + began(self.at)) * 1000))
        return job


BEGAN = int(time.time()) // 180 * 180 - 3600


def began(second: float) -> float:
    """A second of the test, an hour ago and on the grid of all windows, as one after noon."""
    return BEGAN - NOON + second


def gathered(parts: Iterable[tuple[Key, int, float]]) -> Rows:
    """The rows that these parts add up to."""
    rows: Rows = {}
    for key, count, since in parts:
        n, first = rows.get(key, (0, since))
        rows[key] = (n + count, min(first, since))
    return rows


def minute_of(second: float) -> float:
    """The end of the window that holds a time."""
    return (second // WINDOW_S + 1) * WINDOW_S


def sessions_of(events: list[Event]) -> list[tuple[int, float, float, int]]:
    """Each session: city, its start, its end, how many events."""
    found: list[tuple[int, float, float, int]] = []
    for city in {city for _, city in events}:
        open_ = None
        for second, _ in sorted(event for event in events if event[1] == city):
            if open_ is not None and second < open_[2]:
                open_ = (city, open_[1], second + GAP_S, open_[3] + 1)
            else:
                found += [open_] if open_ else []
                open_ = (city, second, second + GAP_S, 1)
        found += [open_] if open_ else []
    return found


def by_session(events: list[Event]) -> Rows:
    return gathered(((city, end), n, start) for city, start, end, n in sessions_of(events))


def sessions_by_minute(events: list[Event]) -> Rows:
    sessions = [(city, minute_of(end - 0.001), start, n) for city, start, end, n in sessions_of(events)]
    return gathered(((city, end), n, min(start, end - WINDOW_S)) for city, end, start, n in sessions)


def tumbles_by_minute(events: list[Event]) -> Rows:
    tumbles = [(city, (second // 45 + 1) * 45) for second, city in events]
    ends = [(city, minute_of(end - 0.001), end - 45) for city, end in tumbles]
    return gathered(((city, end), 1, min(start, end - WINDOW_S)) for city, end, start in ends)


def pairs_by_minute(events: list[Event]) -> Rows:
    pairs = [
        (a, city) for a, city in events for b, other in events if city == other and abs(a - b) <= BOUND_S
    ]
    return gathered(((city, minute_of(a)), 1, minute_of(a) - WINDOW_S - BOUND_S) for a, city in pairs)


QUERIES = {
    "tumble over session": (SESSIONS, sessions_by_minute),
    "tumble over tumble": (TUMBLES, tumbles_by_minute),
    "session": (SESSION, by_session),
    "join then window": (PAIRS, pairs_by_minute),
}
# City 1 is busy without a pause, for longer than clocks may be ahead; 2 now and then; 3 is long gone.
EVENTS: list[Event] = sorted(
    [(second * 8.0, 1) for second in range(120)]
    + [(second, 2) for minute in range(3, 20) for second in (minute * 60 + 1.0, minute * 60 + 5.0)]
    + [(second, 3) for second in (-900.0, -895.0, -700.0)]
)
EDITED_S = 900
CLOSING: Event = (1800.0, 9)


@pytest.mark.parametrize("query", QUERIES)
def test_an_edit_reads_what_is_open_whole_and_writes_no_row_from_a_part(
    tmp_path: Path, kafka: str, query: str
) -> None:
    sql, recount = QUERIES[query]
    dagger = Timed(tmp_path, kafka, sql=sql.format("MIN(1)"))
    rows = f"rows-{dagger.name}"
    dagger.sinks = [kafka_sink(kafka, rows)]
    first = [event for event in EVENTS if event[0] < EDITED_S]
    expected = recount(EVENTS)

    with dagger.launch() as launch:
        dagger.write_events(first)
        launch.until(lambda beat: beat.rows_in >= len(first) and beat.rows_out and beat.rows_out[0] > 0)
        assert launch.stop() == 0
    before = written(kafka, rows)
    dagger.sql = sql.format("MAX(1)")
    dagger.write_events([*(event for event in EVENTS if event not in first), CLOSING])
    with dagger.launch() as edited:
        edited.until(lambda _: {key for key, _ in written(kafka, rows)} >= expected.keys())
        code = edited.stop()

    found = written(kafka, rows)
    assert mismatches(found, expected) == []
    assert {key for key, _ in found} == expected.keys()
    assert 0 < len(before) < len(found)
    # Windows that were closed long before the edit are not written again, however far it went back.
    assert {
        key for key, times in Counter(key for key, _ in found).items() if times > 1 and key[1] < 700
    } == set()
    assert code == 0


@pytest.mark.parametrize("start", ["latest", "at"])
@pytest.mark.parametrize("query", QUERIES)
def test_a_start_amid_records_and_an_edit_after_it_write_rows_of_the_whole_history_or_none(
    tmp_path: Path, kafka: str, query: str, start: str
) -> None:
    sql, recount = QUERIES[query]
    begins = 480
    dagger = Timed(tmp_path, kafka, sql=sql.format("MIN(1)"), start="latest")
    dagger.at = begins if start == "at" else None
    rows = f"rows-{dagger.name}"
    dagger.sinks = [kafka_sink(kafka, rows)]
    first = [event for event in EVENTS if event[0] < begins]
    then = [event for event in EVENTS if begins <= event[0] < EDITED_S]
    expected = recount(EVENTS)
    # What begins a gap after the start cannot have begun before it.
    due = {key for key, (_, since) in expected.items() if since >= begins + GAP_S}

    dagger.write_events(first)
    with dagger.launch() as launch:
        launch.running()
        dagger.write_events(then)
        launch.until(lambda beat: beat.rows_in >= len(then) and beat.rows_out and beat.rows_out[0] > 0)
        assert launch.stop() == 0
    before = written(kafka, rows)
    dagger.sql = sql.format("MAX(1)")
    dagger.write_events([*(event for event in EVENTS if event[0] >= EDITED_S), CLOSING])
    with dagger.launch() as edited:
        edited.until(lambda _: {key for key, _ in written(kafka, rows)} >= due)
        code = edited.stop()

    found = written(kafka, rows)
    assert mismatches(found, expected) == []
    assert {key for key, _ in found} >= due
    assert min(end for (_, end), _ in found) > begins
    assert 0 < len(before) < len(found)
    assert code == 0


def mismatches(found: list[tuple[Key, int]], expected: Rows) -> list[tuple[Key, int, int]]:
    """Each row whose count is another than in the whole history, with both counts."""
    return [(key, n, right) for key, n in found if n != (right := expected.get(key, (0, 0))[0])]


def written(kafka: str, topic: str) -> list[tuple[Key, int]]:
    """(city, end of the window) and the count, of every record written; what closes the windows left out."""
    found: list[dict[str, Any]] = [json.loads(record.value() or b"") for record in records(kafka, topic)]
    ends = [datetime.fromisoformat(row["window_timestamp"]).timestamp() - BEGAN for row in found]
    rows = [((row["tag_city"], end), row["n"]) for row, end in zip(found, ends, strict=True)]
    return [(key, n) for key, n in rows if key[0] != CLOSING[1]]
