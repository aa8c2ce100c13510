"""The daggers of a run: their queries, and the rows each must have written, counted in plain Python. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.chaos.feeder import CLOSING_STATUS, Event, Fed
from tests.chaos.schedule import DAGGERS
from tests.integration.bookings import NOON

CLUSTER = "chaos"
ASKED, ANSWERED = "asked", "answered"
FROM_THE_FUTURE, NO_FIELDS = "FROM_THE_FUTURE", "NO_FIELDS"
TUMBLE_S, SLIDE_S, SIZE_S, BOUND_S = 10, 5, 20, 10
HEAP = "512m"
# Rows of the hopping windows that hold a multiple of so many have no field, and InfluxDB takes no such row.
REFUSED_EVERY = 5
# One row: its columns in the order of the dagger's `columns`, times as ISO 8601.
Row = tuple[Any, ...]
Rows = Counter[Row]


@dataclass(frozen=True)
class Subject:
    """One dagger.

    streams: tables of its query, named as the streams they read.
    sinks: kinds, each with a recount of its own.
    columns: those that are compared, `window_timestamp` among them where rows have one.
    recount: the rows that must be there.
    refused: the rows that must be in the quarantine instead.
    needs_ms: how long before and after its `window_timestamp` the event times lie that a row needs; None of a
        query that forwards.
    """

    sql: str
    streams: tuple[str, ...]
    sinks: tuple[str, ...]
    columns: tuple[str, ...]
    recount: Callable[[Fed], Rows]
    refused: Callable[[Fed], Rows] = lambda _: Counter()
    needs_ms: tuple[int, int] | None = (TUMBLE_S * 1000, 0)

    def spec(self, name: str, streams: Mapping[str, str]) -> dict[str, Any]:
        """The dagger's file; `streams` are the registered names of our streams."""
        sinks = {"influx": {"influx": {}}, "kafka": {"kafka": {"topic": name, "format": "json"}}}
        return {
            "name": name,
            "team": "chaos",
            "cluster": CLUSTER,
            "streams": [
                # Without input event time stands still: a tick would make what the feeder holds back late.
                {"table": table, "stream": streams[table], "watermark_delay": "5s", "idle_timeout": "off",
                 "start": "earliest"}
                for table in self.streams
            ],
            "sql": self.sql,
            "sinks": [sinks[kind] for kind in self.sinks],
            "trigger": "2s",
            "driver_memory": HEAP,
        }  # fmt: skip

    def row(self, columns: Mapping[str, Any]) -> Row:
        """A row as it was found, in the form of the recount."""
        return tuple(_comparable(name, columns.get(name)) for name in self.columns)


def tumble(fed: Fed) -> Rows:
    """Completed bookings of each city in each ten seconds."""
    counts = Counter((_end(event, TUMBLE_S), str(event.city)) for event in _completed(fed.asked))
    return Counter((end, city, count) for (end, city), count in counts.items())


def hop(fed: Fed) -> Rows:
    """Bookings of each status in twenty seconds, every five."""
    return Counter((*window, count) for window, count in _hops(fed).items() if count % REFUSED_EVERY)


def hop_refused(fed: Fed) -> Rows:
    """Those of the same windows that no store takes."""
    return Counter((*window, None) for window, count in _hops(fed).items() if not count % REFUSED_EVERY)


def forward(fed: Fed) -> Rows:
    """Every completed booking."""
    return Counter((event.order, event.city, _time(event.at_ms)) for event in _completed(fed.asked))


def join(fed: Fed) -> Rows:
    """Every completed booking with who answered it within ten seconds, or with nobody."""
    answers = {event.order: event for event in fed.answered}
    rows: Rows = Counter()
    for event in _completed(fed.asked):
        answer = answers.get(event.order)
        in_time = answer is not None and event.at_ms <= answer.at_ms <= event.at_ms + BOUND_S * 1000
        rows[event.order, answer.city if answer is not None and in_time else None, _time(event.at_ms)] += 1
    return rows


def union(fed: Fed) -> Rows:
    """How many were asked and how many answered in each ten seconds."""
    counts = Counter((_end(event, TUMBLE_S), ASKED) for event in _completed(fed.asked))
    counts += Counter((_end(event, TUMBLE_S), ANSWERED) for event in _completed(fed.answered))
    return Counter((end, what, count) for (end, what), count in counts.items())


SUBJECTS = dict(
    zip(
        DAGGERS,
        (
            Subject(
                f"""\
SELECT city_id AS tag_city, count(1) AS bookings,
       TUMBLE_END(rowtime, INTERVAL '{TUMBLE_S}' SECOND) AS window_timestamp
FROM asked WHERE status = 'COMPLETED'
GROUP BY TUMBLE(rowtime, INTERVAL '{TUMBLE_S}' SECOND), city_id""",
                (ASKED,),
                ("influx", "kafka"),
                ("window_timestamp", "tag_city", "bookings"),
                tumble,
            ),
            Subject(
                f"""\
SELECT status AS tag_status, CASE WHEN MOD(count(1), {REFUSED_EVERY}) > 0 THEN count(1) END AS bookings,
       HOP_END(rowtime, INTERVAL '{SLIDE_S}' SECOND, INTERVAL '{SIZE_S}' SECOND) AS window_timestamp
FROM asked WHERE status <> '{CLOSING_STATUS}'
GROUP BY HOP(rowtime, INTERVAL '{SLIDE_S}' SECOND, INTERVAL '{SIZE_S}' SECOND), status""",
                (ASKED,),
                ("influx",),
                ("window_timestamp", "tag_status", "bookings"),
                hop,
                hop_refused,
                (SIZE_S * 1000, 0),
            ),
            Subject(
                """\
SELECT order_number, city_id, rowtime AS window_timestamp FROM asked WHERE status = 'COMPLETED'""",
                (ASKED,),
                ("kafka",),
                ("order_number", "city_id", "window_timestamp"),
                forward,
                needs_ms=None,
            ),
            Subject(
                f"""\
SELECT b.order_number, a.city_id AS answer, b.rowtime AS window_timestamp
FROM asked b LEFT JOIN answered a ON a.order_number = b.order_number
 AND a.rowtime BETWEEN b.rowtime AND b.rowtime + INTERVAL '{BOUND_S}' SECOND
WHERE b.status = 'COMPLETED'""",
                (ASKED, ANSWERED),
                ("kafka",),
                ("order_number", "answer", "window_timestamp"),
                join,
                needs_ms=(0, BOUND_S * 1000),
            ),
            Subject(
                f"""\
SELECT what AS tag_what, count(1) AS bookings,
       TUMBLE_END(rowtime, INTERVAL '{TUMBLE_S}' SECOND) AS window_timestamp
FROM (SELECT rowtime, '{ASKED}' AS what FROM asked WHERE status = 'COMPLETED' UNION ALL
      SELECT rowtime, '{ANSWERED}' AS what FROM answered WHERE status = 'COMPLETED') AS both_of_them
GROUP BY TUMBLE(rowtime, INTERVAL '{TUMBLE_S}' SECOND), what""",
                (ASKED, ANSWERED),
                ("influx",),
                ("window_timestamp", "tag_what", "bookings"),
                union,
            ),
        ),
        strict=True,
    )
)


def once(rows: Iterable[tuple[str, Row]]) -> Rows:
    """Rows of a topic, each with its `ce_id`: a row that was written again counts once.

    Two different rows of one id both count, so that one of them is a mismatch.
    """
    return Counter(row for _, row in set(rows))


def set_aside(subject: Subject, fed: Fed) -> Rows:
    """What must be in the quarantine: each record and each row once, under its reason."""
    records = Counter((FROM_THE_FUTURE, *record) for record in fed.ahead)
    return records + Counter((NO_FIELDS, *row) for row in subject.refused(fed))


def mismatches(expected: Rows, found: Rows) -> list[str]:
    """Every row that is missing and every one that nobody expected."""
    missing, unexpected = expected - found, found - expected
    told = [f"missing {count} x {row}" for row, count in missing.items()]
    return sorted(told + [f"unexpected {count} x {row}" for row, count in unexpected.items()])


def _comparable(name: str, value: Any) -> Any:
    """A column's value: sinks differ in how they write times, and tags that are numbers."""
    if name == "window_timestamp":
        return _instant(datetime.fromisoformat(value))
    return str(value) if name.startswith("tag_") else value


def _hops(fed: Fed) -> Counter[tuple[str, str]]:
    """Bookings by hopping window and status."""
    return Counter(
        (_time(end), event.status)
        for event in fed.asked
        if event.status != CLOSING_STATUS
        for end in _ends(event)
    )


def _completed(events: Iterable[Event]) -> Iterator[Event]:
    return (event for event in events if event.status == "COMPLETED")


def _end(event: Event, size_s: int) -> str:
    """End of the tumbling window that holds an event; windows are aligned to the epoch, and noon is, too."""
    return _time((event.at_ms // 1000 // size_s + 1) * size_s * 1000)


def _ends(event: Event) -> range:
    """Ends of the hopping windows that hold an event, in milliseconds after noon."""
    first = (event.at_ms // 1000 // SLIDE_S + 1) * SLIDE_S * 1000
    return range(first, first + SIZE_S * 1000, SLIDE_S * 1000)


def _time(at_ms: int) -> str:
    """Milliseconds after noon as rows are compared."""
    return _instant(datetime.fromtimestamp(NOON, UTC) + timedelta(milliseconds=at_ms))


def _instant(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds")
