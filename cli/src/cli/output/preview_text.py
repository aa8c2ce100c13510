"""A preview in words and as documents."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from daggers.v1 import gateway_pb2, telemetry_pb2

from cli.output.json_views.findings import column as column_view
from cli.output.row_text import text
from cli.output.visible import printable
from daggerclient.times import iso
from daggerspec.columns import WINDOW_TIMESTAMP
from daggerspec.row import Row, from_proto

Done = gateway_pb2.PreviewDone
Progress = gateway_pb2.PreviewProgress
PARTIAL = "PARTIAL"
REASONS = {
    Done.REASON_END_OF_RANGE: "end_of_range",
    Done.REASON_ROW_LIMIT: "row_limit",
    Done.REASON_TIME_LIMIT: "time_limit",
}
PHASES = {
    Progress.PHASE_QUEUED: "queued",
    Progress.PHASE_STARTING: "starting",
    Progress.PHASE_READING: "reading",
}
EMPTY = {
    Done.EMPTY_NO_RECORDS: "no_records",
    Done.EMPTY_QUARANTINED: "quarantined",
    Done.EMPTY_LATE: "late",
    Done.EMPTY_FILTERED: "filtered",
    Done.EMPTY_WINDOWS_OPEN: "windows_open",
}
_DECODED: Final = {
    "timestamp": "{:,} records have a Timestamp or Duration beyond its range, which is NULL",
    "enum": "{:,} records have a number of an enum that has no name, which is its decimal text",
}
"""What readers count among the values that functions could not use."""
_WHERE = {
    Done.EMPTY_NO_RECORDS: "no record came in this range: --last-records 1000 reads the newest there are",
    Done.EMPTY_QUARANTINED: "no record became a row: all would be quarantined",
    Done.EMPTY_LATE: "no record became a row: all were late for their windows",
    Done.EMPTY_FILTERED: "records were read, and the query keeps none: look at its WHERE, HAVING and joins",
    Done.EMPTY_WINDOWS_OPEN: "no window is complete: a longer range, as --last 1h, would fill some",
}


def values(row: Row, columns: Sequence[gateway_pb2.OutputColumn]) -> dict[str, Any]:
    """A row by the names of its columns; null where it has no value."""
    return {column.name: _value(row, column) for column in columns}


def _value(row: Row, column: gateway_pb2.OutputColumn) -> Any:
    if column.name == WINDOW_TIMESTAMP:
        return iso(row.time) if row.time else None
    return row.fields.get(column.name, row.tags.get(column.key))


def documents(steps: Iterable[gateway_pb2.PreviewDaggerResponse]) -> Iterator[Mapping[str, Any]]:
    """One document for each thing that a preview says, as it comes."""
    columns: Sequence[gateway_pb2.OutputColumn] = ()
    for step in steps:
        match step.WhichOneof("step"):
            case "columns":
                columns = step.columns.columns
                yield {
                    "columns": [column_view(column) for column in columns],
                    "warnings": [*step.columns.warnings],
                }
            case "progress":
                yield {"progress": progress(step.progress)}
            case "rows":
                for row in step.rows.rows:
                    yield {"row": values(from_proto(row), columns), "partial": step.rows.partial}
            case "done":
                yield {"done": done(step.done)}


def progress(said: Progress) -> Mapping[str, Any]:
    """How far it is."""
    return {
        "phase": PHASES.get(said.phase, "unknown"),
        "ahead": said.ahead,
        "records": said.records,
        "records_total": said.records_total,
        "rows": said.rows,
    }


def done(said: Done) -> Mapping[str, Any]:
    """How it ended."""
    cost = said.cost
    return {
        "reason": REASONS.get(said.reason, "unknown"),
        "empty": EMPTY.get(said.empty),
        "records": said.records,
        "records_left_out": said.records_left_out,
        "late": said.late,
        "late_windows": said.late_windows,
        "quarantined": dict(sorted(said.quarantined.items())),
        "examples": [example(record) for record in said.examples],
        "invalid": dict(sorted(said.invalid.items())),
        "rows": said.rows,
        "rows_left_out": said.rows_left_out,
        "series": said.series,
        "first_row_ms": said.first_row_ms if said.HasField("first_row_ms") else None,
        "total_ms": said.total_ms,
        "cpu_seconds": round(said.cpu_seconds, 3),
        "cost": {
            "records_per_second": round(cost.records_per_second, 3),
            "cpu_seconds_per_million": round(cost.cpu_seconds_per_million, 3),
            "cores": round(cost.cores, 4),
            "state_rows": cost.state_rows,
            "rows_per_minute": round(cost.rows_per_minute, 3),
        }
        if said.HasField("cost")
        else None,
    }


def example(record: telemetry_pb2.Quarantined) -> Mapping[str, Any]:
    """A record that would be set aside."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "reason": record.reason,
        "detail": record.detail,
        "value_hex": record.value[:64].hex(),
        "decoded_prefix": record.decoded_prefix or None,
    }


class Shown:
    """A preview as it comes, for a person."""

    def __init__(self) -> None:
        self.warnings: Sequence[str] = ()
        self._columns: Sequence[gateway_pb2.OutputColumn] = ()
        self._rows: list[tuple[Row, bool]] = []
        self._done: Done | None = None

    def take(self, step: gateway_pb2.PreviewDaggerResponse) -> str:
        """A step; what to say of it now."""
        match step.WhichOneof("step"):
            case "columns":
                self._columns, self.warnings = step.columns.columns, step.columns.warnings
            case "rows":
                self._rows += [(from_proto(row), step.rows.partial) for row in step.rows.rows]
            case "done":
                self._done = step.done
            case "progress":
                return _said(step.progress)
        return ""

    def newest(self) -> list[Row]:
        """Rows of whole windows, newest first."""
        timed = [row for row, partial in self._rows if row.time and not partial]
        return sorted(timed, key=lambda row: row.time.timestamp() if row.time else 0.0, reverse=True)

    def head(self) -> Sequence[str]:
        """The names of the columns."""
        partial = [PARTIAL] if any(partial for _, partial in self._rows) else []
        return [*(column.name for column in self._columns), *partial]

    def cells(self) -> list[Sequence[str]]:
        """The rows as they came."""
        marked = PARTIAL in self.head()
        return [
            [
                *(printable(text(value)) for value in values(row, self._columns).values()),
                *([PARTIAL.lower() if partial else ""] if marked else []),
            ]
            for row, partial in self._rows
        ]

    def summary(self) -> Iterator[str]:
        """What there is to know of it, and what running it would cost."""
        said = self._done
        if said is None:
            return
        took = f" ({said.first_row_ms / 1000:.1f} s to the first)" if said.HasField("first_row_ms") else ""
        series = f" of {said.series:,} series" if said.series else ""
        yield (
            f"{said.rows:,} rows{series} from {said.records:,} records in {said.total_ms / 1000:.1f} s{took}"
        )
        if said.reason == Done.REASON_TIME_LIMIT:
            yield "it took as long as it may: these are the rows up to there"
        if said.empty in _WHERE:
            yield _WHERE[said.empty]
        if said.rows_left_out:
            yield f"{said.rows_left_out:,} rows are left out: --limit gives more"
        if said.records_left_out:
            yield f"{said.records_left_out:,} records are left out, the oldest of the range: too many"
        if said.late:
            yield f"{said.late:,} rows were late, and are missing from {said.late_windows:,} windows in all"
        for reason, count in sorted(said.quarantined.items()):
            yield f"{count:,} records would be quarantined: {reason}"
        for record in said.examples:
            yield printable(f"  {record.topic}/{record.partition}, offset {record.offset}: {record.detail}")
        for function, count in sorted(said.invalid.items()):
            yield _DECODED.get(function, f"{function} could not use {{:,}} values").format(count)
        if said.cost.records_per_second:
            cost = said.cost
            yield (
                f"as it came, a dagger would read {cost.records_per_second:,.1f} records a second with"
                f" {cost.cores:.3f} cores, hold {cost.state_rows:,} open groups and write"
                f" {cost.rows_per_minute:,.1f} rows a minute"
            )


def _said(said: Progress) -> str:
    match said.phase:
        case Progress.PHASE_QUEUED:
            return f"waiting: {said.ahead} before it"
        case Progress.PHASE_STARTING:
            return "starting the process that previews"
        case _:
            total = f" of {said.records_total:,}" if said.records_total else ""
            return f"read {said.records:,}{total} records, {said.rows:,} rows"
