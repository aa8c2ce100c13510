"""Tagged values of the corpus as Python has them, and whether an answer is the one expected."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import starmap
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TAGS: dict[str, Callable[[Any], Any]] = {
    "$timestamp": datetime.fromisoformat,
    "$bytes": base64.b64decode,
    "$float": float,
    "$float32": float,
    "$int": int,
    "$long": int,
    "$decimal": Decimal,
    "$proto": lambda message: base64.b64decode(message["b64"]),
    "$row": lambda items: tuple(plain(item) for item in items),
    "$struct": lambda fields: {name: plain(item) for name, item in fields.items()},
    "$object": lambda fields: {name: plain(item) for name, item in fields.items()},
}


@dataclass(frozen=True, slots=True)
class Pairs:
    """A map as the corpus writes it: its entries, in order, keys that come twice included."""

    entries: tuple[tuple[Any, Any], ...]

    def as_dict(self) -> dict[Any, Any]:
        """The map; of a key that comes twice the first entry, as the corpus says."""
        return dict(reversed(self.entries))


def tag(raw: Any) -> str | None:
    """The tag of a tagged value: `$timestamp`, …"""
    if isinstance(raw, dict) and len(raw) == 1:
        (name,) = raw
        return name if name.startswith("$") else None
    return None


def plain(raw: Any) -> Any:
    """The Python value; a `$row` is a tuple, a `$map` is `Pairs`, a `$proto` its bytes."""
    match tag(raw), raw:
        case "$map", {"$map": entries}:
            return Pairs(tuple((plain(key), plain(item)) for key, item in entries))
        case str(name), _ if name in _TAGS:
            return _TAGS[name](raw[name])
        case _, list():
            return [plain(item) for item in raw]
        case _, dict():
            return {name: plain(item) for name, item in raw.items()}
    return raw


def refusal(expected: Any) -> str | None:
    """The reason code, where a case expects to be refused."""
    return expected["$error"] if tag(expected) == "$error" else None


def agrees(expected: Any, answer: Any, compare: str = "exact", tolerance: float = 1e-9) -> bool:
    """Whether `answer` is what the case expects; both may be tagged."""
    wanted, found = plain(expected), plain(answer)
    match compare:
        case "json":
            return _same(_json(wanted), _json(found), _exact)
        case "approx":
            return _same(wanted, found, lambda a, b: math.isclose(a, b, rel_tol=tolerance, abs_tol=1e-300))
        case "approx_abs":
            return _same(wanted, found, lambda a, b: math.isclose(a, b, rel_tol=0, abs_tol=tolerance))
        case "unordered":
            return _same_in_any_order(wanted, found)
    return _same(wanted, found, _exact)


def _exact(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def _json(text: Any) -> Any:
    return json.loads(text) if isinstance(text, str) else text


def _same_in_any_order(wanted: Any, found: Any) -> bool:
    if not (isinstance(wanted, list) and isinstance(found, list | tuple)) or len(wanted) != len(found):
        return _same(wanted, found, _exact)
    left = list(found)
    for item in wanted:
        at = next((i for i, other in enumerate(left) if _same(item, other, _exact)), None)
        if at is None:
            return False
        del left[at]
    return True


def _same(wanted: Any, found: Any, numbers: Callable[[float, float], bool]) -> bool:
    if isinstance(wanted, Pairs):
        wanted = wanted.as_dict()
        # Arrow gives the entries of a map as a list.
        found = dict(found) if isinstance(found, list) else found
    if isinstance(found, Pairs):
        found = found.as_dict()
    if isinstance(wanted, dict) and isinstance(found, dict):
        # A slot that a feature does not fill is left out by the corpus; a struct has it as NULL.
        names = {name for each in (wanted, found) for name, item in each.items() if item is not None}
        return all(_same(wanted.get(name), found.get(name), numbers) for name in names)
    if isinstance(wanted, tuple) and isinstance(found, dict):
        found = tuple(found.values())
    if isinstance(wanted, tuple) and isinstance(found, datetime):
        return _moment(wanted) == found
    if isinstance(wanted, list | tuple) and isinstance(found, list | tuple):
        return len(wanted) == len(found) and all(starmap(_with(numbers), zip(wanted, found, strict=True)))
    if _is_number(wanted) and _is_number(found):
        return numbers(float(wanted), float(found)) if _inexact(wanted, found) else wanted == found
    if isinstance(wanted, datetime) != isinstance(found, datetime) and isinstance(found, date):
        return False
    return type(wanted) is type(found) and bool(wanted == found)


def _with(numbers: Callable[[float, float], bool]) -> Callable[[Any, Any], bool]:
    return lambda wanted, found: _same(wanted, found, numbers)


def _moment(row: tuple[Any, ...]) -> datetime:
    """A Timestamp as (seconds, nanos), to the microsecond: what a TIMESTAMP column holds."""
    seconds, nanos = row
    return EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _inexact(wanted: Any, found: Any) -> bool:
    return isinstance(wanted, float | Decimal) or isinstance(found, float | Decimal)
