"""Recounts of the queries that pick and filter single records of one stream."""

from __future__ import annotations

import hashlib
import math
from base64 import b64encode
from datetime import UTC, date, datetime

from tests.conformance.recounts.reading import Row, Streams, at, get


def acc_017(streams: Streams, _: datetime) -> list[Row]:
    """Every column, and the event time."""
    plain = ("order_id", "customer_id", "order_amount", "method", "status", "currency", "fee", "gateway")
    return [
        {**{name: get(p, name) for name in plain}, "event_timestamp": at(p), "rowtime": at(p)}
        for p in streams["payments"]
    ]


def acc_020(streams: Streams, _: datetime) -> list[Row]:
    """Nested fields; NULL below what is not set."""
    return [
        {
            "order_number": get(b, "order_number"), "customer_id": get(b, "customer.id"),
            "email": get(b, "customer.email"), "lat": get(b, "pickup.latitude"),
            "long": get(b, "pickup.longitude"),
        }
        for b in streams["bookings"]
    ]  # fmt: skip


def acc_022(streams: Streams, _: datetime) -> list[Row]:
    """A part of a nested Timestamp."""
    return [
        {"signup": get(b, "customer.signup_time.seconds"), "pickup_address": get(b, "pickup.address")}
        for b in streams["bookings"]
    ]


def acc_023(streams: Streams, _: datetime) -> list[Row]:
    """Reserved words as names."""
    names = {"method": "method", "value": "status", "user": "gateway", "key": "order_id"}
    return [{name: get(p, path) for name, path in names.items()} for p in streams["payments"]]


def acc_026(streams: Streams, _: datetime) -> list[Row]:
    """COALESCE, NULLIF, IS NOT NULL."""
    return [
        {
            "order_number": get(b, "order_number"),
            "driver": get(b, "driver_id") or "unassigned",
            "has_tier": get(b, "customer.tier") is not None,
        }
        for b in streams["bookings"]
        if get(b, "customer.id") is not None
    ]


def acc_027(streams: Streams, _: datetime) -> list[Row]:
    """Both forms of CASE."""
    return [
        {
            "order_number": get(b, "order_number"),
            "fare_band": "high" if b.fare >= 100000 else "mid" if b.fare >= 20000 else "low",  # type: ignore[attr-defined]
            "wheels": {"BIKE": 2, "CAR": 4}.get(get(b, "vehicle_type"), 0),
        }
        for b in streams["bookings"]
    ]


def acc_028(streams: Streams, _: datetime) -> list[Row]:
    """Casts and arithmetic."""
    return [
        {
            "order_id": get(p, "order_id"), "amount": get(p, "order_amount") / 100,
            "amount_text": str(get(p, "order_amount")), "fee2": round(get(p, "fee"), 2),
            "remainder": get(p, "order_amount") % 1000, "abs_fee": abs(get(p, "fee")),
            "m7": get(p, "order_amount") % 7,
        }
        for p in streams["payments"]
    ]  # fmt: skip


def acc_033(streams: Streams, _: datetime) -> list[Row]:
    """Digests and base 64."""
    return [
        {
            "ip_md5": hashlib.md5(get(c, "client_ip").encode()).hexdigest(),
            "ip_sha": hashlib.sha256(get(c, "client_ip").encode()).hexdigest(),
            "ua64": b64encode(get(c, "user_agent").encode()).decode(),
            "back": get(c, "api_name"),
        }
        for c in streams["api_logs"]
    ]


def acc_041(streams: Streams, _: datetime) -> list[Row]:
    """IF, GREATEST, LEAST."""
    return [
        {
            "order_number": get(b, "order_number"), "pricing": "surge" if get(b, "surge") else "normal",
            "billed": max(get(b, "fare"), 10000), "capped": min(get(b, "fare"), 500000),
        }
        for b in streams["bookings"]
    ]  # fmt: skip


def acc_042(streams: Streams, _: datetime) -> list[Row]:
    """Functions of numbers."""
    found: list[Row] = []
    for p in streams["driver_pings"]:
        v, latitude = get(p, "speed_kmh"), get(p, "location.latitude")
        if v > 0:
            found.append(
                {
                    "driver_id": get(p, "driver_id"), "c": math.ceil(v), "f": math.floor(v),
                    "s": math.sqrt(v),
                    "p": v**2, "l": math.log(v + 1), "e": math.e,
                    "t": math.floor(v * 10) / 10, "sg": 1.0,
                    "r": None if latitude is None else math.radians(latitude),
                }
            )  # fmt: skip
    return found


def acc_043(streams: Streams, _: datetime) -> list[Row]:
    """Constants beside columns."""
    return [
        {
            "granularity": "MINUTE", "entity_key": get(e, "customer_id"), "entity_name": "customers",
            "event_timestamp": at(e),
        }
        for e in streams["customer_events"]
    ]  # fmt: skip


def acc_047(streams: Streams, _: datetime) -> list[Row]:
    """Elements of lists, from 1; NULL beyond the end."""
    return [
        {
            "order_number": get(b, "order_number"),
            "first_promo": next(iter(get(b, "promo_codes")), None),
            "promo_count": len(get(b, "promo_codes")),
            "first_item": get(b, "items")[0].name,
        }
        for b in streams["bookings"]
        if get(b, "items")
    ]


def acc_105(streams: Streams, _: datetime) -> list[Row]:
    """One column."""
    return [{"order_number": get(b, "order_number")} for b in streams["bookings"]]


def acc_107(streams: Streams, _: datetime) -> list[Row]:
    """Aliases without AS."""
    return [
        {"o": get(b, "order_number"), "f": get(b, "fare")} for b in streams["bookings"] if get(b, "fare") > 1
    ]


def acc_110(streams: Streams, _: datetime) -> list[Row]:
    """An enum compared with its name."""
    return [
        {"order_id": get(p, "order_id"), "method": "CARD"}
        for p in streams["payments"]
        if get(p, "method") == "CARD"
    ]


def acc_124(streams: Streams, _: datetime) -> list[Row]:
    """Times rounded down."""
    return [
        {
            "order_number": get(b, "order_number"),
            "mi": at(b).replace(second=0, microsecond=0),
            "d": datetime.combine(date(at(b).year, at(b).month, at(b).day), datetime.min.time(), UTC),
            "mo": datetime(at(b).year, at(b).month, 1, tzinfo=UTC),
            "y": datetime(at(b).year, 1, 1, tzinfo=UTC),
        }
        for b in streams["bookings"]
    ]


def acc_127(streams: Streams, _: datetime) -> list[Row]:
    """Functions of text."""
    found = []
    for c in streams["api_logs"]:
        uri, agent, name = get(c, "api_uri"), get(c, "user_agent"), get(c, "api_name")
        found.append(
            {
                "a": uri.find("/", 1) + 1, "b": uri.find("/") + 1, "c": uri[1:4], "d": agent.lstrip(" "),
                "e": agent.rstrip(" "), "f": (name + "." * 10)[:10], "g": len(uri), "h": "A",
            }
        )  # fmt: skip
    return found
