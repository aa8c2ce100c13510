"""A dagger that is edited while windows are open, on a real driver: no row is ever written from a part."""

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from services.runtime.tests.launches import Dagger
from services.runtime.tests.test_job_driver import kafka_sink
from services.runtime.tests.test_sink_contract import records
from tests.integration.bookings import NOON, booking

pytestmark = pytest.mark.integration

Event = tuple[float, int]
"""Second, city."""
GAP_S, WINDOW_S = 10, 60
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


@dataclass
class Timed(Dagger):
    """A dagger whose records have their event time for Kafka's: that is what an edit goes back by."""

    idle_timeout_s: int = 0

    def write_events(self, events: list[Event]) -> None:
        """Append the events, which are seconds after `began`."""
        for second, city in events:
            at = began(second)
            self._producer.produce(self.topic, booking(at, city_id=city), timestamp=round((NOON + at) * 1000))
        assert self._producer.flush(30) == 0


BEGAN = int(time.time()) // 180 * 180 - 3600


def began(second: float) -> float:
    """A second of the test, an hour ago and on the grid of all windows, as one after noon."""
    return BEGAN - NOON + second


def sessions_of(events: list[Event]) -> list[tuple[int, float, int]]:
    """Each session: city, its end, how many events."""
    found: list[tuple[int, float, int]] = []
    for city in {city for _, city in events}:
        open_ = None
        for second, _ in sorted(event for event in events if event[1] == city):
            if open_ is not None and second < open_[1]:
                open_ = (city, second + GAP_S, open_[2] + 1)
            else:
                found += [open_] if open_ else []
                open_ = (city, second + GAP_S, 1)
        found += [open_] if open_ else []
    return found


def by_session(events: list[Event]) -> Counter[tuple[int, float]]:
    return Counter({(city, end): n for city, end, n in sessions_of(events)})


def sessions_by_minute(events: list[Event]) -> Counter[tuple[int, float]]:
    rows: Counter[tuple[int, float]] = Counter()
    for city, end, n in sessions_of(events):
        rows[city, ((end - 0.001) // WINDOW_S + 1) * WINDOW_S] += n
    return rows


def tumbles_by_minute(events: list[Event]) -> Counter[tuple[int, float]]:
    rows: Counter[tuple[int, float]] = Counter()
    for second, city in events:
        end = (second // 45 + 1) * 45
        rows[city, ((end - 0.001) // WINDOW_S + 1) * WINDOW_S] += 1
    return rows


@pytest.mark.parametrize(
    ("sql", "recount"),
    [
        (SESSIONS, sessions_by_minute),
        pytest.param(TUMBLES, tumbles_by_minute, marks=pytest.mark.long),
        pytest.param(SESSION, by_session, marks=pytest.mark.long),
    ],
    ids=["tumble over session", "tumble over tumble", "session"],
)
def test_an_edit_reads_what_is_open_whole_and_writes_no_row_from_a_part(
    tmp_path: Path, kafka: str, sql: str, recount: Callable[[list[Event]], Counter[tuple[int, float]]]
) -> None:
    dagger = Timed(tmp_path, kafka, sql=sql.format("MIN(1)"))
    rows = f"rows-{dagger.name}"
    dagger.sinks = [kafka_sink(kafka, rows)]
    # City 1 is busy without a pause, for longer than clocks may be ahead; 2 now and then; 3 is long gone.
    events = [(second * 8.0, 1) for second in range(120)]
    events += [(second, 2) for minute in range(3, 20) for second in (minute * 60 + 1.0, minute * 60 + 5.0)]
    events += [(second, 3) for second in (-900.0, -895.0, -700.0)]
    events.sort()
    first = [event for event in events if event[0] < 900]
    expected = recount(events)

    with dagger.launch() as launch:
        dagger.write_events(first)
        launch.until(lambda beat: beat.rows_in >= len(first) and beat.rows_out and beat.rows_out[0] > 0)
        assert launch.stop() == 0
    before = written(kafka, rows)
    dagger.sql = sql.format("MAX(1)")
    dagger.write_events([*(event for event in events if event not in first), (1800.0, 9)])
    with dagger.launch() as edited:
        edited.until(lambda _: {key for key, _ in written(kafka, rows)} >= expected.keys())
        code = edited.stop()

    found = [(key, n) for key, n in written(kafka, rows) if key[0] != 9]
    assert [(key, n, expected[key]) for key, n in found if n != expected[key]] == []
    assert {key for key, _ in found} == expected.keys()
    assert 0 < len(before) < len(found)
    # Windows that were closed long before the edit are not written again, however far it went back.
    assert {
        key for key, times in Counter(key for key, _ in found).items() if times > 1 and key[1] < 700
    } == set()
    assert code == 0


def written(kafka: str, topic: str) -> list[tuple[tuple[int, float], int]]:
    """(city, end of the window) and the count, of every record written."""
    found: list[dict[str, Any]] = [json.loads(record.value() or b"") for record in records(kafka, topic)]
    ends = [datetime.fromisoformat(row["window_timestamp"]).timestamp() - BEGAN for row in found]
    return [((row["tag_city"], end), row["n"]) for row, end in zip(found, ends, strict=True)]
