"""Recounts of the queries over several streams, and of those that unfold lists."""

from __future__ import annotations

from datetime import datetime
from itertools import product
from typing import Any

from tests.conformance.recounts.reading import MINUTE, Row, Streams, at, get, windows


def acc_044(streams: Streams, until: datetime) -> list[Row]:
    """Items of bookings, counted."""
    items = [(at(b), item) for b in streams["bookings"] for item in get(b, "items")]
    return [
        {
            "tag_item": name, "orders": len(m), "pieces": sum(item.quantity for _, item in m),
            "window_timestamp": end,
        }
        for end, name, m in windows(items, lambda i: i[0], lambda i: i[1].name, until, 5 * MINUTE)
    ]  # fmt: skip


def acc_045(streams: Streams, _: datetime) -> list[Row]:
    """A row for each promo code."""
    return [
        {"order_number": get(b, "order_number"), "promo_code": code}
        for b in streams["bookings"]
        for code in get(b, "promo_codes")
    ]


def acc_118(streams: Streams, _: datetime) -> list[Row]:
    """The same, and a row for each booking without one."""
    return [
        {"order_number": get(b, "order_number"), "code": code}
        for b in streams["bookings"]
        for code in get(b, "promo_codes") or [None]
    ]


def acc_087(streams: Streams, until: datetime) -> list[Row]:
    """Calls in each bucket of a cumulative histogram."""
    limits = (10, 50, 100, 500, 1000)
    calls = [
        (c, bucket)
        for c in streams["api_logs"]
        for bucket in ["+Inf", *(str(limit) for limit in limits if get(c, "latency_ms") <= limit)]
    ]
    return [
        {"tag_api": k[0], "tag_le": k[1], "bucket_count": len(m), "window_timestamp": end}
        for end, k, m in windows(
            calls, lambda c: at(c[0]), lambda c: (get(c[0], "api_name"), c[1]), until, MINUTE
        )
    ]


def _paid(streams: Streams) -> list[tuple[Any, Any]]:
    """Bookings with their payments of the five minutes after."""
    return [
        (b, p)
        for b, p in product(streams["bookings"], streams["payments"])
        if get(b, "order_number") == get(p, "order_id") and at(b) <= at(p) <= at(b) + 5 * MINUTE
    ]


def acc_095(streams: Streams, _: datetime) -> list[Row]:
    """An inner join, bounded in time."""
    return [
        {"order_number": get(b, "order_number"), "order_amount": get(p, "order_amount")}
        for b, p in _paid(streams)
    ]


def acc_096(streams: Streams, until: datetime) -> list[Row]:
    """Sums over a join of two filtered streams; the window is of the left side's time."""
    pairs = [
        (b, p) for b, p in _paid(streams) if get(b, "status") == "COMPLETED" and get(p, "status") == "SETTLED"
    ]
    return [
        {
            "tag_service": service, "amount": sum(get(p, "order_amount") for _, p in m),
            "window_timestamp": end,
        }
        for end, service, m in windows(
            pairs, lambda pair: at(pair[0]), lambda pair: get(pair[0], "service_type"), until, 10 * MINUTE
        )
    ]  # fmt: skip


def acc_098(streams: Streams, _: datetime) -> list[Row]:
    """UNION ALL of two streams."""
    bookings = [
        {
            "customer_id": get(b, "customer.id"), "order_number": get(b, "order_number"), "source": "booking",
            "event_timestamp": at(b),
        }
        for b in streams["bookings"]
    ]  # fmt: skip
    payments = [
        {
            "customer_id": get(p, "customer_id"), "order_number": get(p, "order_id"), "source": "payment",
            "event_timestamp": at(p),
        }
        for p in streams["payments"]
    ]  # fmt: skip
    return [*bookings, *payments]


def acc_101(streams: Streams, _: datetime) -> list[Row]:
    """A stream joined with itself."""
    events = streams["customer_events"]
    return [
        {"customer_id": get(a, "customer_id"), "first_event": "add_to_cart", "next_event": "checkout"}
        for a, b in product(events, events)
        if get(a, "customer_id") == get(b, "customer_id")
        and at(a) <= at(b) <= at(a) + MINUTE
        and (get(a, "event_name"), get(b, "event_name")) == ("add_to_cart", "checkout")
    ]


def acc_102(streams: Streams, _: datetime) -> list[Row]:
    """Three streams."""
    return [
        {
            "order_number": get(b, "order_number"), "gateway": get(p, "gateway"), "screen": get(e, "screen"),
        }
        for (b, p), e in product(_paid(streams), streams["customer_events"])
        if get(e, "customer_id") == get(p, "customer_id") and at(p) - 5 * MINUTE <= at(e) <= at(p)
    ]  # fmt: skip
