"""Queries of our own with their recounts: forms of which the corpus has none, and forms that meet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Any

from tests.conformance.recounts.joins import acc_095
from tests.conformance.recounts.reading import MINUTE, Recount, Row, Streams, at, get, sessions, windows


@dataclass(frozen=True, slots=True)
class Query:
    """A query, the streams it reads, and what it must give."""

    sql: str
    streams: tuple[str, ...]
    recount: Recount


def _paid_or_not(streams: Streams, until: datetime) -> list[Row]:
    found: list[Row] = []
    for b in streams["bookings"]:
        paid = [
            p
            for p in streams["payments"]
            if get(b, "order_number") == get(p, "order_id") and at(b) <= at(p) <= at(b) + 5 * MINUTE
        ]
        if not paid and at(b) + 5 * MINUTE > until:
            continue  # a payment might still come
        found += [
            {"order_number": get(b, "order_number"), "gateway": get(p, "gateway")} for p in paid or [None]
        ]
    return found


def _hops(streams: Streams, until: datetime) -> list[Row]:
    return [
        {"service": service, "n": len(m), "from_ts": end - 2 * MINUTE, "window_timestamp": end}
        for end, service, m in windows(
            streams["bookings"], at, lambda b: get(b, "service_type"), until, 2 * MINUTE, MINUTE
        )
    ]


def _visits(streams: Streams, until: datetime) -> list[Row]:
    return [
        {"customer_id": who, "n": len(m), "from_ts": start, "window_timestamp": end}
        for start, end, who, m in sessions(
            streams["customer_events"], at, lambda e: get(e, "customer_id"), until, 5 * (MINUTE / 60)
        )
    ]


def _quiet(streams: Streams, until: datetime) -> list[Row]:
    return [
        {"n": len(m), "window_timestamp": end}
        for _, end, _, m in sessions(
            streams["customer_events"], at, lambda e: None, until, 10 * (MINUTE / 60)
        )
    ]


def _orders(streams: Streams) -> list[tuple[datetime, Any]]:
    return [
        *((at(b), get(b, "order_number")) for b in streams["bookings"]),
        *((at(p), get(p, "order_id")) for p in streams["payments"]),
    ]


def _both(streams: Streams, until: datetime) -> list[Row]:
    return [
        {"id": name, "n": len(m), "window_timestamp": end}
        for end, name, m in windows(_orders(streams), lambda o: o[0], lambda o: o[1], until, MINUTE)
    ]


def _busy(streams: Streams, until: datetime) -> list[Row]:
    return [
        {"tag_area": area, "n": len(m), "fare": sum(get(b, "fare") for b in m), "window_timestamp": end}
        for end, area, m in windows(
            [b for b in streams["bookings"] if get(b, "fare") > 0],
            at,
            lambda b: get(b, "service_area_id"),
            until,
            MINUTE,
        )
        if len(m) > 2
    ]


def _ordered(streams: Streams, until: datetime) -> list[Row]:
    """The same join, bounded by comparisons instead of BETWEEN."""
    return acc_095(streams, until)


def _gone(streams: Streams, until: datetime) -> list[Row]:
    pairs = product(streams["customer_events"], streams["payments"])
    return [
        {"customer_id": get(e, "customer_id"), "order_id": get(p, "order_id")}
        for e, p in pairs
        if get(e, "customer_id") == get(p, "customer_id")
        and at(p) - MINUTE <= at(e) <= at(p)
        and get(p, "order_amount") > 2
    ]


def _paid(streams: Streams) -> list[tuple[Any, Any]]:
    """Bookings with their payments of the five minutes after."""
    return [(b, p) for b in streams["bookings"] for p in _after(b, streams["payments"], "order_id")]


def _after(booking: Any, others: Any, name: str) -> list[Any]:
    """The records of the five minutes after a booking whose `name` is its number."""
    return [
        other
        for other in others
        if get(other, name) == get(booking, "order_number")
        and at(booking) <= at(other) <= at(booking) + 5 * MINUTE
    ]


def _answered(streams: Streams, _: datetime) -> list[Row]:
    return [
        {"order_number": get(b, "order_number"), "what": get(other, what)}
        for b in streams["bookings"]
        for table, name, what in (
            ("payments", "order_id", "gateway"),
            ("customer_events", "customer_id", "screen"),
        )
        for other in _after(b, streams[table], name)
        if table != "payments" or get(other, name).upper() != "NOBODY"
    ]


def _paid_with_codes(streams: Streams, _: datetime) -> list[Row]:
    return [
        {"order_number": get(b, "order_number"), "code": code, "gateway": get(p, "gateway")}
        for b, p in _paid(streams)
        for code in get(b, "promo_codes")
    ]


_TVF = "FROM TABLE(HOP(TABLE bookings, DESCRIPTOR(rowtime), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE))"
_ON = "b.order_number = p.order_id"

QUERIES = {
    "a left join": Query(
        f"SELECT b.order_number, p.gateway FROM bookings b LEFT JOIN payments p ON {_ON}"
        " AND p.rowtime BETWEEN b.rowtime AND b.rowtime + INTERVAL '5' MINUTE",
        ("bookings", "payments"),
        _paid_or_not,
    ),
    "a join bounded by comparisons": Query(
        f"SELECT b.order_number, p.order_amount FROM bookings b JOIN payments p ON {_ON}"
        " AND p.rowtime >= b.rowtime AND b.rowtime >= p.rowtime - INTERVAL '5' MINUTE",
        ("bookings", "payments"),
        _ordered,
    ),
    "a join with a condition outside": Query(
        "SELECT e.customer_id, p.order_id FROM customer_events e JOIN payments p"
        " ON e.customer_id = p.customer_id"
        " AND e.rowtime BETWEEN p.rowtime - INTERVAL '1' MINUTE AND p.rowtime WHERE p.order_amount > 2",
        ("customer_events", "payments"),
        _gone,
    ),
    "a join with a union": Query(
        "SELECT b.order_number, t.what FROM bookings b JOIN (SELECT order_id AS id, gateway AS what, rowtime"
        " FROM payments WHERE UPPER(order_id) <> 'NOBODY' UNION ALL"
        " SELECT customer_id AS id, screen AS what, rowtime FROM customer_events) t ON b.order_number = t.id"
        " AND t.rowtime BETWEEN b.rowtime AND b.rowtime + INTERVAL '5' MINUTE",
        ("bookings", "payments", "customer_events"),
        _answered,
    ),
    "a join with what a list holds": Query(
        "SELECT b.order_number, c.code, p.gateway"
        " FROM bookings b CROSS JOIN UNNEST(b.promo_codes) AS c (code)"
        f" JOIN payments p ON {_ON} AND p.rowtime BETWEEN b.rowtime AND b.rowtime + INTERVAL '5' MINUTE",
        ("bookings", "payments"),
        _paid_with_codes,
    ),
    "the table-valued form of HOP": Query(
        f"SELECT service_type AS service, COUNT(*) AS n, window_start AS from_ts,"
        f" window_end AS window_timestamp {_TVF} GROUP BY window_start, window_end, service_type",
        ("bookings",),
        _hops,
    ),
    "sessions with their start": Query(
        "SELECT customer_id, COUNT(*) AS n, SESSION_START(rowtime, INTERVAL '5' SECOND) AS from_ts,"
        " SESSION_END(rowtime, INTERVAL '5' SECOND) AS window_timestamp FROM customer_events"
        " GROUP BY SESSION(rowtime, INTERVAL '5' SECOND), customer_id",
        ("customer_events",),
        _visits,
    ),
    "sessions without another key": Query(
        "SELECT COUNT(*) AS n, SESSION_END(rowtime, INTERVAL '10' SECOND) AS window_timestamp"
        " FROM customer_events GROUP BY SESSION(rowtime, INTERVAL '10' SECOND)",
        ("customer_events",),
        _quiet,
    ),
    "a window over UNION ALL": Query(
        "SELECT id, COUNT(*) AS n, TUMBLE_END(rowtime, INTERVAL '1' MINUTE) AS window_timestamp FROM"
        " (SELECT order_number AS id, rowtime FROM bookings"
        " UNION ALL SELECT order_id AS id, rowtime FROM payments) t"
        " GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE), id",
        ("bookings", "payments"),
        _both,
    ),
    "WITH and HAVING": Query(
        "WITH paid AS (SELECT service_area_id AS area, fare, rowtime FROM bookings WHERE fare > 0)"
        " SELECT area AS tag_area, COUNT(*) AS n, SUM(fare) AS fare,"
        " TUMBLE_END(rowtime, INTERVAL '1' MINUTE) AS window_timestamp FROM paid"
        " GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE), area HAVING COUNT(*) > 2",
        ("bookings",),
        _busy,
    ),
}
