"""Recounts of the queries that group by a window over one stream."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.conformance.recounts.reading import HOUR, MINUTE, SECOND, Row, Streams, at, get, sessions, windows

from runtime import functions

_MILLISECOND = timedelta(milliseconds=1)


def _known(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _mean(values: list[float]) -> float | None:
    known = _known(values)
    return sum(known) / len(known) if known else None


def acc_001(streams: Streams, until: datetime) -> list[Row]:
    """Completed bookings by cell and vehicle, a minute each."""
    done = [b for b in streams["bookings"] if get(b, "status") == "COMPLETED"]

    def key(b: Any) -> tuple[Any, ...]:
        return functions.load("s2id").reference(
            get(b, "pickup.latitude"), get(b, "pickup.longitude"), 13
        ), get(b, "vehicle_type")

    return [
        {"tag_s2id": k[0], "tag_vehicle_type": k[1], "completed_bookings": len(m), "window_timestamp": end}
        for end, k, m in windows(done, at, key, until, MINUTE)
    ]


def acc_004(streams: Streams, until: datetime) -> list[Row]:
    """Fast drivers: five minutes, every thirty seconds; HAVING leaves the slow ones out."""
    found = []
    for end, driver, m in windows(
        streams["driver_pings"], at, lambda p: get(p, "driver_id"), until, 5 * MINUTE, 30 * SECOND
    ):
        speeds = [get(p, "speed_kmh") for p in m]
        if max(speeds) > 100:
            found.append(
                {
                    "driver_id": driver, "avg_speed": _mean(speeds), "top_speed": max(speeds),
                    "from_ts": end - 5 * MINUTE, "window_timestamp": end,
                }
            )  # fmt: skip
    return found


def acc_007(streams: Streams, until: datetime) -> list[Row]:
    """Windows over windows: the inner rows' time is the last millisecond of their window."""
    inner = windows(streams["driver_pings"], at, lambda p: get(p, "driver_id"), until, 2 * MINUTE, MINUTE)
    rows = [(end - _MILLISECOND, driver, len(m)) for end, driver, m in inner]
    return [
        {"driver_id": driver, "pings": sum(row[2] for row in m), "window_timestamp": end}
        for end, driver, m in windows(rows, lambda r: r[0], lambda r: r[1], until, 10 * MINUTE)
    ]


def acc_009(streams: Streams, until: datetime) -> list[Row]:
    """Calls by method and code, half a minute each."""
    slow = [c for c in streams["api_logs"] if get(c, "latency_ms") > 0]
    return [
        {"verb": k[0], "code": k[1], "hits": len(m), "window_timestamp": end}
        for end, k, m in windows(
            slow, at, lambda c: (get(c, "api_method"), get(c, "http_status_code")), until, 30 * SECOND
        )
    ]


def acc_010(streams: Streams, until: datetime) -> list[Row]:
    """A window and no other key."""
    return [
        {"booking_count": len(m), "window_timestamp": end}
        for end, _, m in windows(streams["bookings"], at, lambda b: None, until, 30 * SECOND)
    ]


def acc_011(streams: Streams, until: datetime) -> list[Row]:
    """A window whose end is not selected."""
    declined = [p for p in streams["payments"] if get(p, "status") == "DECLINED"]
    return [
        {"tag_gateway": gateway, "declines": len(m)}
        for _, gateway, m in windows(declined, at, lambda p: get(p, "gateway"), until, MINUTE)
    ]


def acc_013(streams: Streams, until: datetime) -> list[Row]:
    """Sessions: screens seen, ended by ten minutes without an event."""
    return [
        {"customer_id": who, "screens": len({get(e, "screen") for e in m}), "window_timestamp": end}
        for _, end, who, m in sessions(
            streams["customer_events"], at, lambda e: get(e, "customer_id"), until, 10 * MINUTE
        )
    ]


def acc_014(streams: Streams, until: datetime) -> list[Row]:
    """The table-valued form of a window."""
    return [
        {"window_timestamp": end, "tag_service": service, "n": len(m)}
        for end, service, m in windows(
            streams["bookings"], at, lambda b: get(b, "service_type"), until, MINUTE
        )
    ]


def acc_049(streams: Streams, until: datetime) -> list[Row]:
    """Clicks by campaign, out of a map."""
    clicks = [
        e
        for e in streams["customer_events"]
        if get(e, "event_name") == "click" and "campaign" in get(e, "properties")
    ]
    return [
        {"tag_campaign": campaign, "clicks": len(m), "window_timestamp": end}
        for end, campaign, m in windows(clicks, at, lambda e: get(e, "properties")["campaign"], until, MINUTE)
    ]


def acc_057(streams: Streams, until: datetime) -> list[Row]:
    """A function of our own inside of an aggregate; NULL where a place is unknown."""
    done = [b for b in streams["bookings"] if get(b, "status") == "COMPLETED"]

    def length(b: Any) -> float | None:
        places = ("pickup.latitude", "pickup.longitude", "dropoff.latitude", "dropoff.longitude")
        return functions.load("distance").reference(*(get(b, place) for place in places))

    return [
        {"tag_service": service, "avg_km": _mean([length(b) for b in m]), "window_timestamp": end}
        for end, service, m in windows(done, at, lambda b: get(b, "service_type"), until, MINUTE)
    ]


def acc_059(streams: Streams, until: datetime) -> list[Row]:
    """Different drivers by geohash."""

    def place(p: Any) -> str | None:
        return functions.load("geohash").reference(
            get(p, "location.latitude"), get(p, "location.longitude"), 6
        )

    return [
        {"tag_geohash": cell, "drivers": len({get(p, "driver_id") for p in m}), "window_timestamp": end}
        for end, cell, m in windows(streams["driver_pings"], at, place, until, MINUTE)
    ]


def acc_069(streams: Streams, until: datetime) -> list[Row]:
    """Different drivers by service."""
    return [
        {"tag_service": service, "drivers": len({get(b, "driver_id") for b in m}), "window_timestamp": end}
        for end, service, m in windows(
            streams["bookings"], at, lambda b: get(b, "service_type"), until, MINUTE
        )
    ]


def acc_071(streams: Streams, until: datetime) -> list[Row]:
    """The median of amounts."""
    return [
        {
            "median_amount": functions.load("percentileaggregator").reference(
                [(50, get(p, "order_amount")) for p in m]
            ),
            "window_timestamp": end,
        }
        for end, _, m in windows(streams["payments"], at, lambda p: None, until, MINUTE)
    ]


def acc_072(streams: Streams, until: datetime) -> list[Row]:
    """All names of events, in the order they came."""
    return [
        {"customer_id": who, "path": [get(e, "event_name") for e in m], "window_timestamp": end}
        for end, who, m in windows(
            streams["customer_events"], at, lambda e: get(e, "customer_id"), until, MINUTE
        )
    ]


def acc_077(streams: Streams, until: datetime) -> list[Row]:
    """FILTER: each aggregate over rows of its own; a sum of none is NULL."""
    found = []
    for end, gateway, m in windows(streams["payments"], at, lambda p: get(p, "gateway"), until, MINUTE):
        settled = [get(p, "order_amount") for p in m if get(p, "status") == "SETTLED"]
        declined = [p for p in m if get(p, "status") == "DECLINED"]
        found.append(
            {
                "tag_gateway": gateway, "total": len(m), "declined": len(declined),
                "settled_amount": sum(settled) if settled else None, "window_timestamp": end,
            }
        )  # fmt: skip
    return found


def acc_078(streams: Streams, until: datetime) -> list[Row]:
    """A ratio of aggregates, with CASE."""
    return [
        {
            "tag_api": api,
            "error_ratio": sum(get(c, "http_status_code") >= 500 for c in m) / len(m),
            "window_timestamp": end,
        }
        for end, api, m in windows(streams["api_logs"], at, lambda c: get(c, "api_name"), until, MINUTE)
    ]


def acc_083(streams: Streams, until: datetime) -> list[Row]:
    """Names of events as one text."""
    return [
        {"customer_id": who, "path": ">".join(get(e, "event_name") for e in m), "window_timestamp": end}
        for end, who, m in windows(
            streams["customer_events"], at, lambda e: get(e, "customer_id"), until, MINUTE
        )
    ]


def acc_084(streams: Streams, until: datetime) -> list[Row]:
    """A moving average over a hopping window over minutes."""
    minutes = [
        (end - _MILLISECOND, area, float(len(m)))
        for end, area, m in windows(
            streams["bookings"], at, lambda b: get(b, "service_area_id"), until, MINUTE
        )
    ]
    return [
        {
            "tag_area": area,
            "ema": functions.load("exponentialmovingaverage").reference(
                [row[0] for row in m], [row[2] for row in m], end - 15 * MINUTE, 15.0, 0.2
            ),
            "window_timestamp": end,
        }
        for end, area, m in windows(minutes, lambda r: r[0], lambda r: r[1], until, 15 * MINUTE, MINUTE)
    ]


def acc_115(streams: Streams, until: datetime) -> list[Row]:
    """A size that is no multiple of the slide."""
    return [
        {"n": len(m), "window_timestamp": end}
        for end, _, m in windows(streams["bookings"], at, lambda b: None, until, HOUR, 7 * MINUTE)
    ]


def acc_119(streams: Streams, until: datetime) -> list[Row]:
    """Different customers, once with a FILTER."""
    return [
        {
            "buyers": len({get(e, "customer_id") for e in m if get(e, "event_name") == "checkout"}),
            "visitors": len({get(e, "customer_id") for e in m}),
            "window_timestamp": end,
        }
        for end, _, m in windows(streams["customer_events"], at, lambda e: None, until, MINUTE)
    ]


def acc_122(streams: Streams, until: datetime) -> list[Row]:
    """HAVING over groups by parts of a message that may be absent."""
    cancelled = [b for b in streams["bookings"] if get(b, "status") == "CANCELLED"]
    return [
        {"tag_tier": k[0], "customer_id": k[1], "cancels": len(m), "window_timestamp": end}
        for end, k, m in windows(
            cancelled, at, lambda b: (get(b, "customer.tier"), get(b, "customer.id")), until, 10 * MINUTE
        )
        if len(m) >= 3
    ]
