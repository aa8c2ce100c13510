"""Show what a dagger did in each minute. Pure: now is an argument."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from daggers.v1 import gateway_pb2

from cli.output.json_views.answers import to_json
from cli.output.sparkline import WIDTH, sparkline
from cli.output.vitals import NONE, short
from daggerclient.times import iso

COLUMNS: Final = ("METRIC", "LAST", "MOST", "SUM", "BY MINUTE")
_MINUTE: Final = timedelta(minutes=1)
MinuteNumber = int | None
"""The number of a minute; None where nothing is known of it."""


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f} s"


@dataclass(frozen=True, slots=True)
class _Metric:
    """A number of each minute.

    field: its name in the answer. is_count: whether minutes may be added up.
    """

    field: str
    title: str
    is_count: bool = True
    text: Callable[[float], str] = short


_METRICS: Final = (
    _Metric("records", "records"),
    _Metric("rows", "rows"),
    _Metric("lag", "lag", is_count=False),
    _Metric("late_rows", "late rows"),
    _Metric("quarantined", "quarantined"),
    _Metric("freshness_p95_ms", "freshness p95", is_count=False, text=_seconds),
)


def document(name: str, answer: gateway_pb2.ReadMetricsResponse) -> dict[str, Any]:
    """Build the JSON document: an object for each minute; null is not known."""
    series = [_numbers(answer, metric) for metric in _METRICS]
    keys = [metric.field for metric in _METRICS]
    minutes = [
        {"time": iso(time)} | dict(zip(keys, values, strict=True))
        for time, values in zip(_times(answer), zip(*series, strict=True), strict=False)
    ]
    return {"name": name, "cost": to_json(answer.cost), "minutes": minutes}


def summarize(answer: gateway_pb2.ReadMetricsResponse, now: datetime) -> list[Sequence[str]]:
    """Build a row of COLUMNS for each metric, of whole minutes; empty where nothing is known."""
    if not answer.HasField("begin"):
        return []
    whole_minutes = max(0, (now - answer.begin.ToDatetime(tzinfo=UTC)) // _MINUTE)
    series = [(metric, _numbers(answer, metric)[:whole_minutes]) for metric in _METRICS]
    return [_row(metric, values) for metric, values in series] if whole_minutes else []


def _row(metric: _Metric, values: Sequence[MinuteNumber]) -> Sequence[str]:
    numbers = [value for value in values if value is not None]
    if not numbers:
        return metric.title, NONE, NONE, NONE, ""
    total = metric.text(sum(numbers)) if metric.is_count else NONE
    return metric.title, metric.text(numbers[-1]), metric.text(max(numbers)), total, sparkline(_peaks(values))


def _peaks(values: Sequence[MinuteNumber]) -> list[MinuteNumber]:
    """Return at most WIDTH numbers, each the largest of its neighbours: no peak is lost."""
    width = -(-len(values) // WIDTH)
    parts = (values[start : start + width] for start in range(0, len(values), width))
    return [max((value for value in part if value is not None), default=None) for part in parts]


def _numbers(answer: gateway_pb2.ReadMetricsResponse, metric: _Metric) -> list[MinuteNumber]:
    return [None if value < 0 else value for value in getattr(answer, metric.field)]


def _times(answer: gateway_pb2.ReadMetricsResponse) -> Iterator[datetime]:
    """Iterate over the begins of minutes from the answer's first one on, without an end."""
    time = answer.begin.ToDatetime(tzinfo=UTC)
    while True:
        yield time
        time += _MINUTE
