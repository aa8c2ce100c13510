"""Recount what the windows must hold in plain Python from the events that were produced. Pure.

Nothing here knows how the daggers do it: the S2 cells come from s2sphere, the windows from integer division.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from s2sphere import CellId, LatLng

from cli.output.row_text import document
from daggerspec.row import Row
from devstack.demo.city import Booking, Ping

WINDOW_S = 10
LEVEL = 13
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Key = tuple[str, ...]


@dataclass(frozen=True)
class RowComparison:
    """Expected rows against found ones: windows and rows that were expected, and what differs."""

    windows: int
    rows: int
    mismatches: tuple[str, ...]


def bookings_table(events: Iterable[Booking], start: datetime) -> dict[Key, int]:
    """Completed bookings per (window end, city, S2 cell, vehicle type)."""
    return Counter(
        (window_end(start, e.second), str(e.city_id), s2_id(e.latitude, e.longitude), e.vehicle_type)
        for e in events
        if e.status == "COMPLETED"
    )


def supply_table(events: Iterable[Ping], start: datetime) -> dict[Key, int]:
    """Distinct drivers per (window end, S2 cell, status)."""
    drivers: dict[Key, set[str]] = defaultdict(set)
    for event in events:
        cell = s2_id(event.latitude, event.longitude)
        drivers[window_end(start, event.second), cell, event.status].add(event.driver_id)
    return {key: len(ids) for key, ids in drivers.items()}


def rows_table(rows: Iterable[Row], tags: tuple[str, ...], field: str) -> dict[Key, int]:
    """Make the table of a dagger's rows."""
    return {
        (str(document(row)["window_timestamp"]), *(_tag(row, tag) for tag in tags)): row.fields[field]
        for row in rows
    }


def _tag(row: Row, name: str) -> str:
    """Return the value of a tag, which only a time-series database knows for one."""
    return row.tags[name] if name in row.tags else str(row.fields.get(name, ""))


def compare(expected: Mapping[Key, int], written: Mapping[Key, int]) -> RowComparison:
    """Yield every row that is missing, that nobody expected, or that holds another number."""
    differing = sorted(
        f"{' '.join(key)}: expected {expected.get(key, 'no row')}, found {written.get(key, 'no row')}"
        for key in expected.keys() | written.keys()
        if expected.get(key) != written.get(key)
    )
    return RowComparison(len({key[0] for key in expected}), len(expected), tuple(differing))


def window_end(start: datetime, second: float) -> str:
    """End of the window that holds a second after the start, as rows show it."""
    micros = (start - EPOCH) // timedelta(microseconds=1) + round(second * 1_000_000)
    end = (micros // (WINDOW_S * 1_000_000) + 1) * WINDOW_S
    return datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def s2_id(latitude: float, longitude: float) -> str:
    """Return the S2 cell at level 13, as a signed 64-bit decimal."""
    unsigned: int = CellId.from_lat_lng(LatLng.from_degrees(latitude, longitude)).parent(LEVEL).id()
    return str(unsigned - 2**64 if unsigned >= 2**63 else unsigned)
