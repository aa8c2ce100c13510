"""Warn of records that Kafka deleted before they were read. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1.telemetry_pb2 import Measure

from daggerspec.limits import RECENT_S
from runtime.launch.symptoms import DriverWarning
from runtime.source.offsets import LostRecords

_SPAN: Final = timedelta(seconds=RECENT_S)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_NAMED: Final = 3


def warning(
    lost: Sequence[LostRecords], now: datetime, *, windowed: bool, early: bool
) -> DriverWarning | None:
    """Build one warning of all deletions noticed lately, with the count of records; None where there are
    none.

    windowed: rows are of windows, or need partners. early: rows are written before their windows end.
    """
    lately = {one for one in lost if now - _EPOCH - timedelta(milliseconds=one.noticed) < _SPAN}
    if not lately:
        return None
    counts: Counter[str] = Counter()
    for one in lately:
        counts[one.partition] += one.records
    largest = ", ".join(f"{partition} {count:,}" for partition, count in counts.most_common(_MOST_NAMED))
    more = f" and {len(counts) - _MOST_NAMED} more" if len(counts) > _MOST_NAMED else ""
    partitions = f"{len(counts)} partition{'s' if len(counts) > 1 else ''}"
    sentence = (
        f"up to {counts.total():,} records of {partitions} ({largest}{more}) were deleted by"
        " their topic's retention before they were read"
    )
    measure = Measure(value=counts.total(), limit=0, unit="count")
    if not windowed:
        return DriverWarning("RECORDS_EXPIRED", f"{sentence}; their rows are in no sink", measure)
    begin, end = min(one.begin for one in lately), max(one.end for one in lately)
    left_out = f"{sentence}; what touches event times {_span(begin, end)} is left out, for it would lack some"
    if early:
        left_out += ": the rows of these windows that were written early stay as they were written last"
    return DriverWarning("RECORDS_EXPIRED", left_out, measure)


def _span(begin: int, end: int) -> str:
    """Describe a span of event times, in us."""
    to = _format_time(end) or "now"
    return f"from {from_} to {to}" if (from_ := _format_time(begin)) else f"up to {to}"


def _format_time(micros: int) -> str:
    """Format an event time, in us; empty for one beyond the calendar."""
    try:
        return (_EPOCH + timedelta(microseconds=micros)).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError:
        return ""
