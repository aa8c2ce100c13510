"""Feature rows, plain: what Features, FeaturesWithType and SingleFeatureWithType give, written out in Python.

Python tells neither INT from BIGINT nor FLOAT from DOUBLE: an int is INT when it fits, a float DOUBLE, unless
numpy says otherwise (`np.int64`, `np.float32`). A timestamp is an aware datetime, or a pair (seconds, nanos).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from daggersql.functions import reals

Feature: TypeAlias = dict[str, Any]
SLOTS = ("bytes", "string", "int", "long", "double", "float", "bool", "timestamp")
_TYPES = {
    "ByteType": "bytes", "StringType": "string", "IntegerType": "int", "LongType": "long",
    "DoubleType": "double", "FloatType": "float", "BooleanType": "bool", "TimestampType": "timestamp",
}  # fmt: skip
_ZERO: dict[str, Any] = {"int": 0, "long": 0, "double": 0.0, "float": 0.0, "bool": False}
_BITS = {"int": 31, "long": 63}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEYOND_FLOAT = Fraction(2**128 - 2**103)
"""From here on the nearest FLOAT is infinite."""


def infer_feature(key: Any, value: Any) -> Feature:
    """Build the feature of a key and a value; the value's own type chooses the slot."""
    value = _moment(value)
    if isinstance(value, np.int64):
        return _row(key, "long", int(value))
    if isinstance(value, np.float32):
        return _row(key, "float", float(value))
    match value:
        case None:
            return _row(key, None, None)
        case bool():
            return _row(key, "bool", value)
        case int():
            return _row(key, "int" if -(2**31) <= value < 2**31 else "long", value)
        case float() | Decimal():
            return _row(key, "double", float(value))
        case bytes():
            return _row(key, "bytes", value)
        case datetime():
            return _row(key, "timestamp", value)
    return _row(key, "string", str(value))


def convert_feature(key: Any, value: Any, kind: str) -> Feature:
    """Build the feature of a key, a value and a type's name: an empty slot for what the type cannot hold."""
    slot = _TYPES[kind]
    value = _moment(value)
    slot_value = _ZERO.get(slot) if value is None else _convert(slot, value)
    return _row(key, slot, slot_value)


def distinct(triplets: Iterable[tuple[Any, Any, str]]) -> list[Feature]:
    """Build the features of triplets (key, value, type), equal ones once, where they came first.

    NaN is one value, as in SQL; NULL has no type of its own.
    """
    features: dict[tuple[Any, ...], Feature] = {}
    for key, value, kind in triplets:
        feature = convert_feature(key, value, kind)
        # Slot by slot: true, 1 and 1.0 stand in slots of their own.
        same = (
            "NaN" if isinstance(slot, float) and math.isnan(slot) else slot
            for slot in feature["value"].values()
        )
        features.setdefault((feature["name"], *same, *_identity(value, kind)), feature)
    return list(features.values())


def _identity(value: Any, kind: str) -> tuple[Any, ...]:
    """Return what tells values apart that become one feature: their type, and they, unless the slot does."""
    if value is None:
        return (kind,)
    own = infer_feature("", value)["value"]
    slot = next(name for name in SLOTS if own[name] is not None)
    if slot == _TYPES[kind] and not isinstance(value, Decimal):
        return kind, slot
    return kind, slot, type(value) is Decimal, java_text(value) if slot in ("float", "double") else own[slot]


def _row(key: Any, slot: str | None, value: Any) -> Feature:
    name = _text(_moment(key))
    return {"name": name, "value": {name: value if name == slot else None for name in SLOTS}, "id": name}


def _moment(value: Any) -> Any:
    if isinstance(value, tuple):
        seconds, nanos = value
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    return value


def _convert(slot: str, value: Any) -> Any:
    match slot:
        case "bytes":
            return value.encode() if isinstance(value, str) else value
        case "string":
            return _text(value)
        case "int" | "long":
            return _whole(value, _BITS[slot])
        case "double" | "float":
            return _real(value, slot)
        case "bool" if isinstance(value, str):
            return {"true": True, "false": False}.get(value.lower())
    return value


def _whole(value: Any, bits: int) -> int | None:
    if isinstance(value, str):
        if not re.fullmatch("[+-]?[0-9]+", value):
            return None
        number = int(value)
    elif not math.isfinite(value) or value != int(value):
        return None
    else:
        number = int(value)
    return number if -(1 << bits) <= number < 1 << bits else None


def _real(value: Any, slot: str) -> float | None:
    text = java_text(value) if isinstance(value, np.float32) else value
    number = reals.read(text) if isinstance(text, str) else float(text)
    if slot == "double" or number is None:
        return number
    plain = reals.digits(text) if isinstance(text, str) else None
    return _narrow(number, plain)


def _narrow(number: float, plain: str | None) -> float:
    """Find the FLOAT that is nearest to a number, or to the digits that it was read from."""
    if not math.isfinite(number) or number == 0:
        return number
    exact = Fraction(number if plain is None or "x" in plain.lower() else plain)
    if abs(exact) >= _BEYOND_FLOAT:
        return math.copysign(math.inf, number)
    with np.errstate(over="ignore"):
        near = np.float32(number)
        around = (np.nextafter(near, np.float32(-math.inf)), near, np.nextafter(near, np.float32(math.inf)))
    finite = [neighbour for neighbour in around if np.isfinite(neighbour)]
    best = min(
        finite, key=lambda neighbour: (abs(Fraction(float(neighbour)) - exact), neighbour.view(np.int32) & 1)
    )
    return math.copysign(float(best), number)


def _text(value: Any) -> str | None:
    """Write a value as Spark does; None for bytes that are no UTF-8."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return None
        case datetime():
            return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03d}"
        case float() | np.floating():
            return java_text(value)
    return str(value)


def java_text(number: float | np.floating[Any]) -> str:
    """Write a FLOAT or DOUBLE as Java does: plain from 0.001 up to 10,000,000, else like 1.0E10."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "-0.0" if math.copysign(1, number) < 0 else "0.0"
    if 1e-3 <= abs(float(number)) < 1e7:
        return str(np.format_float_positional(number, trim="0"))
    digits, _, exponent = np.format_float_scientific(number, trim="0").partition("e")
    if digits.endswith(".0"):
        # Java writes two digits at least, and of those the nearest: 4.9E-324.
        digits, _, exponent = f"{number:.1e}".partition("e")
    return f"{digits}E{int(exponent)}"
