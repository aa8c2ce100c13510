"""Several streams in one dagger, on a real driver: one side silent, a kill in the middle, rows recounted."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from services.runtime.tests.job_driver import kafka_sink
from services.runtime.tests.job_streams import TwoStreams, moment, written
from tests.integration.bookings import NOON, booking, window_end

pytestmark = [pytest.mark.integration, pytest.mark.long]

Event = tuple[float, int]
"""Second after noon, number of the order."""
Row = tuple[object, ...]
BOOKED: list[Event] = [(i * 2.0, i) for i in range(60) if not 20 <= i < 30]
OFF: list[Event] = [(i * 2.0 + 5, i) for i in range(0, 20, 3)]
"""The last cancellation comes a minute before the last booking: this side falls silent."""
BOUND_S, GAP_S = 10, 10


def joined(booked: list[Event], cancelled: list[Event]) -> Counter[Row]:
    """Every booking, with each cancellation of its order that is near enough, or with none."""
    rows: Counter[Row] = Counter()
    for second, order in booked:
        near = [at for at, of in cancelled if of == order and abs(at - second) <= BOUND_S]
        rows.update([(f"o{order}", "CANCELLED")] * len(near) or [(f"o{order}", None)])
    return rows


def united(booked: list[Event], cancelled: list[Event]) -> Counter[Row]:
    """Events of both streams by minute."""
    minutes = Counter(window_end(second) for second, _ in booked + cancelled)
    return Counter(dict.fromkeys(minutes.items(), 1))


def sessions(booked: list[Event], cancelled: list[Event]) -> Counter[Row]:
    """Bookings with less than the gap between them: how many, and from when."""
    rows: list[tuple[float, float, int]] = []
    for second, _ in sorted(booked):
        if rows and second < rows[-1][1] + GAP_S:
            rows[-1] = (rows[-1][0], second, rows[-1][2] + 1)
        else:
            rows.append((second, second, 1))
    return Counter({(moment(first), count): 1 for first, _, count in rows})


def twice(booked: list[Event], cancelled: list[Event]) -> Counter[Row]:
    """Every booking once from each branch."""
    return Counter({(f"o{order}", branch): 1 for _, order in booked for branch in (1, 2)})


LEFT_JOIN = f"""
SELECT a.order_number AS tag_order, a.fare AS fare, b.status AS fate
FROM data_stream AS a LEFT JOIN cancellations AS b ON a.order_number = b.order_number
 AND b.rowtime BETWEEN a.rowtime - INTERVAL '{BOUND_S}' SECOND AND a.rowtime + INTERVAL '{BOUND_S}' SECOND"""
UNION = """
SELECT COUNT(1) AS n, TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
FROM (SELECT rowtime FROM data_stream UNION ALL SELECT rowtime FROM cancellations) AS t
GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND)"""
SAME_TWICE = """
SELECT order_number AS tag_order, fare, 1 AS branch FROM data_stream
UNION ALL SELECT order_number, fare, 2 FROM data_stream"""
SESSION = f"""
SELECT COUNT(1) AS n, SESSION_START(rowtime, INTERVAL '{GAP_S}' SECOND) AS began,
       SESSION_END(rowtime, INTERVAL '{GAP_S}' SECOND) AS window_timestamp
FROM data_stream GROUP BY SESSION(rowtime, INTERVAL '{GAP_S}' SECOND)"""


@pytest.mark.parametrize(
    ("sql", "recounted", "columns", "late"),
    [
        (LEFT_JOIN, joined, ("tag_order", "fate"), 395),
        (UNION, united, ("window_timestamp", "n"), 355),
        (SAME_TWICE, twice, ("tag_order", "branch"), None),
        (SESSION, sessions, ("began", "n"), 385),
    ],
    ids=["left join", "union", "one stream twice", "session"],
)
def test_streams_with_a_silent_side_and_a_killed_driver_equal_a_recount(
    tmp_path: Path,
    kafka: str,
    sql: str,
    recounted: Callable[[list[Event], list[Event]], Counter[Row]],
    columns: tuple[str, str],
    late: int | None,
) -> None:
    """`late` is the second of a booking that is dropped when event time is at 399, but not long before."""
    dagger = TwoStreams(tmp_path, kafka, sql=sql)
    rows = f"rows-{dagger.name}"
    dagger.sinks = [kafka_sink(kafka, rows)]
    expected = recounted(BOOKED, OFF)
    half = len(BOOKED) // 2 + 7

    with dagger.launch() as launch:
        dagger.write(*(booking(second, order=f"o{order}") for second, order in BOOKED[:half]))
        dagger.cancel(*(booking(second, order=f"o{order}", status="CANCELLED") for second, order in OFF))
        launch.until(lambda beat: beat.batch_id >= 0 and beat.rows_in >= half)
        launch.kill()
    dagger.write(*(booking(second, order=f"o{order}") for second, order in BOOKED[half:]))
    dagger.write(booking(400, order="closing"))
    with dagger.launch() as relaunch:
        relaunch.until(lambda beat: len(written(kafka, rows)) >= expected.total())
        if late is not None:
            relaunch.until(lambda beat: beat.watermark.seconds >= NOON + 399)
            dagger.write(booking(late, order="late"))
            relaunch.until(lambda beat: beat.late_rows == 1)
        code = relaunch.stop()

    found = [row for row in written(kafka, rows).values() if row.get("tag_order") != "closing"]
    assert Counter(tuple(row[name] for name in columns) for row in found) == expected
    assert code == 0
