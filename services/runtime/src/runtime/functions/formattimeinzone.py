"""FormatTimeInZone(time, zone, pattern): a timestamp as text, by the zone's clocks, in English.

Patterns are those of Java's SimpleDateFormat (`daggersql.functions.patterns` reads them). NULL for NULL,
outside of the years 1 to 9999, for an unknown zone. Fast form: each part of the pattern is looked up for a
whole Arrow batch in a table of its few possible texts, and the parts are joined.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daggersql.functions.patterns import PatternPart, parse
from runtime.values import periods, zones
from runtime.values.registration import Registration
from runtime.values.zones import Clock, Ints

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_DAY, _HOUR, _MINUTE, _MILLION = 86_400, 3600, 60, 1_000_000


def reference(time: datetime | None, zone: str | None, pattern: str | None) -> str | None:
    """Format one timestamp."""
    if time is None or pattern is None:
        return None
    instant = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    local = periods.local_time(instant, zone)
    if local is None:
        return None
    wall, where = local
    wall = wall.replace(microsecond=time.microsecond)
    offset = (wall - zones.EPOCH) // timedelta(seconds=1) - instant
    name = time.astimezone(where).tzname() or ""
    values = {
        "y": wall.year, "M": wall.month, "L": wall.month, "d": wall.day, "D": wall.timetuple().tm_yday,
        "E": wall.isoweekday(), "u": wall.isoweekday(), "a": wall.hour // 12, "G": 1,
        "H": wall.hour, "k": wall.hour or 24, "K": wall.hour % 12, "h": wall.hour % 12 or 12,
        "m": wall.minute, "s": wall.second, "S": wall.microsecond // 1000, "Z": offset, "X": offset,
    }  # fmt: skip
    return "".join(
        part.text
        if not part.letter
        else _zone_name(name)
        if part.letter == "z"
        else format_part(part, values[part.letter])
        for part in parse(pattern)
    )


def format_part(part: PatternPart, value: int) -> str:
    """Format one part of a pattern, given its number (for a zone's offset the seconds east of UTC)."""
    letter, count = part.letter, part.width
    match letter:
        case "G":
            return "AD"
        case "a":
            return ("AM", "PM")[value]
        case "E":
            return _DAYS[value - 1] if count > 3 else _DAYS[value - 1][:3]
        case "M" | "L" if count > 2:
            return _MONTHS[value - 1] if count > 3 else _MONTHS[value - 1][:3]
        case "y" if count == 2:
            return f"{value % 100:02}"
        case "X" if value == 0:
            return "Z"
        case "Z" | "X":
            sign, minutes = "-" if value < 0 else "+", abs(value) // _MINUTE
            colon = ":" if (letter, count) == ("X", 3) else ""
            rest = "" if (letter, count) == ("X", 1) else f"{colon}{minutes % 60:02}"
            return f"{sign}{minutes // 60:02}{rest}"
    return f"{value:0{count}}"


def compute(time: pa.Array, zone: pa.Array, pattern: pa.Array) -> pa.Array:
    """Format many timestamps: timestamps in UTC and texts in, texts out, all of one length."""
    micros = periods.numbers(time.cast(pa.timestamp("us", "UTC")).cast(pa.int64()))
    valid = periods.all_valid(time, zone, pattern) & periods.within(micros // _MILLION)
    if not valid.any():
        return pa.nulls(len(time), pa.string())
    # The check lets constants through only.
    parts = parse(pc.drop_null(pattern)[0].as_py())
    micros = np.where(valid, micros, 0)
    answered = np.zeros_like(valid)
    texts, places = [], []
    for clock, rows in periods.by_zone(zone):
        instants = micros[rows] // _MILLION
        answered[rows] = periods.within(clock.wall(instants))
        milliseconds = micros[rows] % _MILLION // 1000
        safe = np.where(answered[rows], instants, 0)
        texts.append(_format(parts, clock, safe, milliseconds))
        places.append(np.arange(len(time))[rows])
    if not texts:
        return pa.nulls(len(time), pa.string())
    order = np.concatenate(places)
    rank = np.zeros(len(time), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return pa.concat_arrays(texts).take(pa.array(rank, mask=~(valid & answered)))


def register(session: Registration) -> None:
    """Bring `formattimeinzone(TIMESTAMP, STRING, STRING) -> STRING` to the session."""
    session.function("formattimeinzone", compute, "string")


def _format(parts: tuple[PatternPart, ...], clock: Clock, instants: Ints, milliseconds: Ints) -> pa.Array:
    """Format instants by one zone's clocks; arrays of one length in and out."""
    walls = clock.wall(instants)
    columns = []
    for part in parts:
        if not part.letter:
            columns.append(pa.scalar(part.text))
        elif part.letter == "z":
            columns.append(_names(clock, instants))
        elif part.letter in "ZX":
            columns.append(_offsets(part, walls - instants))
        else:
            values = milliseconds if part.letter == "S" else _FIELDS[part.letter](walls)
            low = int(values.min()) if part.letter == "y" else 0
            high = int(values.max()) if part.letter == "y" else _HIGHEST[part.letter]
            columns.append(_texts(part, low, high).take(pa.array(values - low)))
    empty = pa.array([""] * len(instants))
    return pc.binary_join_element_wise(empty, *columns, "")


@lru_cache(maxsize=256)
def _texts(part: PatternPart, low: int, high: int) -> pa.Array:
    """List the texts of a part for the numbers from `low` to `high`, in order."""
    first = 1 if part.letter in "EML" else low
    return pa.array([format_part(part, max(value, first)) for value in range(low, high + 1)])


def _offsets(part: PatternPart, offsets: Ints) -> pa.Array:
    values, which = np.unique(offsets, return_inverse=True)
    return pa.array([format_part(part, int(value)) for value in values]).take(pa.array(which))


def _names(clock: Clock, instants: Ints) -> pa.Array:
    names, which = clock.names(instants)
    return pa.array([_zone_name(name) for name in names]).take(pa.array(which))


def _zone_name(name: str) -> str:
    """Return a zone's abbreviation; where tzdata has a number, and for a fixed offset, Java's GMT+hh:mm."""
    digits = name.removeprefix("UTC")
    if digits[:1] not in ("+", "-"):
        return name
    plain = digits[1:].replace(":", "").ljust(4, "0")
    return f"GMT{digits[0]}{plain[:2]}:{plain[2:4]}"


def _day_of_year(walls: Ints) -> Ints:
    days = walls // _DAY
    years = days.astype("datetime64[D]").astype("datetime64[Y]")
    numbers: Ints = days - years.astype("datetime64[D]").astype(np.int64) + 1
    return numbers


def _day_of_month(walls: Ints) -> Ints:
    return (walls - periods.month_begins(walls)) // _DAY + 1


def _month(walls: Ints) -> Ints:
    months = (walls // _DAY).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return months % 12 + 1


def _year(walls: Ints) -> Ints:
    years: Ints = (walls // _DAY).astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64)
    return years + 1970


def _weekday(walls: Ints) -> Ints:
    return (walls // _DAY + 3) % 7 + 1


def _hour(walls: Ints) -> Ints:
    return walls % _DAY // _HOUR


_FIELDS: dict[str, Callable[[Ints], Ints]] = {
    "G": lambda walls: np.zeros_like(walls),
    "y": _year,
    "M": _month,
    "L": _month,
    "d": _day_of_month,
    "D": _day_of_year,
    "E": _weekday,
    "u": _weekday,
    "a": lambda walls: _hour(walls) // 12,
    "H": _hour,
    "k": lambda walls: (_hour(walls) - 1) % 24 + 1,
    "K": lambda walls: _hour(walls) % 12,
    "h": lambda walls: (_hour(walls) - 1) % 12 + 1,
    "m": lambda walls: walls % _HOUR // _MINUTE,
    "s": lambda walls: walls % _MINUTE,
}
_HIGHEST = {
    "G": 0, "M": 12, "L": 12, "d": 31, "D": 366, "E": 7, "u": 7, "a": 1, "H": 23, "k": 24, "K": 11, "h": 12,
    "m": 59, "s": 59, "S": 999,
}  # fmt: skip
