"""Top-N queries with their recounts: the first rows of each window, counted by sorting all of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.conformance.recounts.own import Query
from tests.conformance.recounts.reading import MINUTE, Row, Streams, at, get, windows


def _busiest(streams: Streams, until: datetime) -> list[Row]:
    groups: dict[datetime, list[tuple[int, Any]]] = {}
    for end, area, m in windows(
        streams["bookings"], at, lambda b: get(b, "service_area_id"), until, 2 * MINUTE, MINUTE
    ):
        groups.setdefault(end, []).append((len(m), area))
    return [
        {"place": place, "tag_area": area, "n": n, "window_timestamp": end}
        for end, rows in groups.items()
        for place, (n, area) in enumerate(sorted(rows, reverse=True)[:3], 1)
    ]


def _cheapest(streams: Streams, until: datetime) -> list[Row]:
    return [
        {"order_number": order, "fare": fare, "place": place, "window_timestamp": end}
        for end, _, m in windows(streams["bookings"], at, lambda b: get(b, "service_type"), until, MINUTE)
        for place, (fare, order) in enumerate(
            sorted((get(b, "fare"), get(b, "order_number")) for b in m)[:2], 1
        )
    ]


def _second(streams: Streams, until: datetime) -> list[Row]:
    groups: dict[tuple[datetime, Any], list[tuple[Any, Any]]] = {}
    for end, key, m in windows(
        streams["bookings"], at, lambda b: (get(b, "service_type"), get(b, "status")), until, MINUTE
    ):
        groups.setdefault((end, key[0]), []).append((sum(get(b, "discount") for b in m), key[1]))
    return [
        {"tag_service": service, "tag_status": rows[1][1], "discount": rows[1][0], "window_timestamp": end}
        for (end, service), found in groups.items()
        if len(rows := sorted(found, reverse=True)) > 1
    ]


_HOP = "rowtime, INTERVAL '1' MINUTE, INTERVAL '2' MINUTE"
_MINUTES = "TABLE(TUMBLE(TABLE bookings, DESCRIPTOR(rowtime), INTERVAL '1' MINUTE))"

QUERIES = {
    "the three busiest areas of windows that overlap": Query(
        "SELECT place, tag_area, n, window_timestamp FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY"
        " window_timestamp ORDER BY n DESC, tag_area DESC) AS place FROM (SELECT service_area_id AS tag_area,"
        f" COUNT(*) AS n, HOP_END({_HOP}) AS window_timestamp FROM bookings"
        f" GROUP BY HOP({_HOP}), service_area_id)) WHERE place <= 3",
        ("bookings",),
        _busiest,
    ),
    "the two cheapest records of each service": Query(
        "WITH numbered AS (SELECT order_number, fare, window_end, ROW_NUMBER() OVER (PARTITION BY"
        f" window_start, window_end, service_type ORDER BY fare ASC NULLS FIRST) AS place FROM {_MINUTES})"
        " SELECT order_number, fare, place, window_end AS window_timestamp FROM numbered WHERE 3 > place",
        ("bookings",),
        _cheapest,
    ),
    "the second of each service, by a table-valued window": Query(
        "SELECT s AS tag_service, status AS tag_status, d AS discount, window_end AS window_timestamp FROM"
        " (SELECT s, status, d, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start,"
        " window_end, s ORDER BY d DESC, status DESC) AS place FROM (SELECT service_type AS s, status,"
        f" SUM(discount) AS d, window_start, window_end FROM {_MINUTES}"
        " GROUP BY window_start, window_end, service_type, status)) t WHERE t.place = 2",
        ("bookings",),
        _second,
    ),
}
