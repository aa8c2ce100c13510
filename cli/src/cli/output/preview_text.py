"""Show previews in words and as documents."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from daggers.v1 import gateway_pb2, telemetry_pb2

from cli.output.json_views.findings import column as column_view
from cli.output.printer import Printer
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
"""Sentences for values that readers could not convert, by the reader's name; functions have none."""
_WHERE = {
    Done.EMPTY_NO_RECORDS: "no record came in this range: --last-records 1000 reads the newest there are",
    Done.EMPTY_QUARANTINED: "no record became a row: all would be quarantined",
    Done.EMPTY_LATE: "no record became a row: all were late for their windows",
    Done.EMPTY_FILTERED: "records were read, and the query keeps none: look at its WHERE, HAVING and joins",
    Done.EMPTY_WINDOWS_OPEN: "no window is complete: a longer range, as --last 1h, would fill some",
}


def values(row: Row, columns: Sequence[gateway_pb2.OutputColumn]) -> dict[str, Any]:
    """Return a row's values by the names of its columns; None where it has no value."""
    return {column.name: _value(row, column) for column in columns}


def _value(row: Row, column: gateway_pb2.OutputColumn) -> Any:
    if column.name == WINDOW_TIMESTAMP:
        return iso(row.time) if row.time else None
    return row.fields.get(column.name, row.tags.get(column.key))


def documents(steps: Iterable[gateway_pb2.PreviewDaggerResponse]) -> Iterator[Mapping[str, Any]]:
    """Yield one document for each part of a preview's steps."""
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
                yield {"progress": progress_document(step.progress)}
            case "rows":
                for row in step.rows.rows:
                    yield {"row": values(from_proto(row), columns), "partial": step.rows.partial}
            case "done":
                yield {"done": end_document(step.done)}


def progress_document(message: Progress) -> Mapping[str, Any]:
    """Build the document of a preview's progress."""
    return {
        "phase": PHASES.get(message.phase, "unknown"),
        "ahead": message.ahead,
        "records": message.records,
        "records_total": message.records_total,
        "rows": message.rows,
    }


def end_document(message: Done) -> Mapping[str, Any]:
    """Build the document of a preview's end."""
    cost = message.cost
    return {
        "reason": REASONS.get(message.reason, "unknown"),
        "empty": EMPTY.get(message.empty),
        "records": message.records,
        "records_left_out": message.records_left_out,
        "late": message.late,
        "late_windows": message.late_windows,
        "quarantined": dict(sorted(message.quarantined.items())),
        "examples": [example(record) for record in message.examples],
        "invalid": dict(sorted(message.invalid.items())),
        "rows": message.rows,
        "rows_left_out": message.rows_left_out,
        "series": message.series,
        "first_row_ms": message.first_row_ms if message.HasField("first_row_ms") else None,
        "total_ms": message.total_ms,
        "cpu_seconds": round(message.cpu_seconds, 3),
        "cost": {
            "records_per_second": round(cost.records_per_second, 3),
            "cpu_seconds_per_million": round(cost.cpu_seconds_per_million, 3),
            "cores": round(cost.cores, 4),
            "state_rows": cost.state_rows,
            "rows_per_minute": round(cost.rows_per_minute, 3),
        }
        if message.HasField("cost")
        else None,
    }


def example(record: telemetry_pb2.Quarantined) -> Mapping[str, Any]:
    """Build the document of a record that would be quarantined."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "reason": record.reason,
        "detail": record.detail,
        "value_hex": record.value[:64].hex(),
        "decoded_prefix": record.decoded_prefix or None,
    }


def follow(out: Printer, steps: Iterable[gateway_pb2.PreviewDaggerResponse]) -> "PreviewText":
    """Collect the steps of a preview to its end, and show its progress where a person watches."""
    preview = PreviewText()
    for step in steps:
        if (progress := preview.take(step)) and out.terminal and not out.json:
            out.note(progress)
    return preview


class PreviewText:
    """A preview for a person, collected step by step."""

    def __init__(self) -> None:
        self.warnings: Sequence[str] = ()
        self._columns: Sequence[gateway_pb2.OutputColumn] = ()
        self._rows: list[tuple[Row, bool]] = []
        self.done: Done | None = None
        """Its end; None before it."""

    def take(self, step: gateway_pb2.PreviewDaggerResponse) -> str:
        """Collect a step, and return the text to show about it now."""
        match step.WhichOneof("step"):
            case "columns":
                self._columns, self.warnings = step.columns.columns, step.columns.warnings
            case "rows":
                self._rows += [(from_proto(row), step.rows.partial) for row in step.rows.rows]
            case "done":
                self.done = step.done
            case "progress":
                return _progress_text(step.progress)
        return ""

    def newest(self) -> list[Row]:
        """Return rows of whole windows, newest first."""
        timed = [row for row, partial in self._rows if row.time and not partial]
        return sorted(timed, key=lambda row: row.time.timestamp() if row.time else 0.0, reverse=True)

    def head(self) -> Sequence[str]:
        """Return the names of the columns."""
        partial = [PARTIAL] if any(partial for _, partial in self._rows) else []
        return [*(column.name for column in self._columns), *partial]

    def cells(self) -> list[Sequence[str]]:
        """Return the cells of the rows in the order of their arrival."""
        marked = PARTIAL in self.head()
        return [
            [
                *(printable(text(value)) for value in values(row, self._columns).values()),
                *([PARTIAL.lower() if partial else ""] if marked else []),
            ]
            for row, partial in self._rows
        ]

    def summary(self) -> Iterator[str]:
        """Yield sentences about the result, and about the cost of running the query."""
        done = self.done
        if done is None:
            return
        took = f" ({done.first_row_ms / 1000:.1f} s to the first)" if done.HasField("first_row_ms") else ""
        series = f" of {done.series:,} series" if done.series else ""
        yield (
            f"{done.rows:,} rows{series} from {done.records:,} records in {done.total_ms / 1000:.1f} s{took}"
        )
        if done.reason == Done.REASON_TIME_LIMIT:
            yield "it took as long as it may: these are the rows up to there"
        if done.empty in _WHERE:
            yield _WHERE[done.empty]
        if done.rows_left_out:
            yield f"{done.rows_left_out:,} rows are left out: --limit gives more"
        if done.records_left_out:
            yield f"{done.records_left_out:,} records are left out, the oldest of the range: too many"
        if done.late:
            yield f"{done.late:,} rows were late, and are missing from {done.late_windows:,} windows in all"
        for reason, count in sorted(done.quarantined.items()):
            yield f"{count:,} records would be quarantined: {reason}"
        for record in done.examples:
            yield printable(f"  {record.topic}/{record.partition}, offset {record.offset}: {record.detail}")
        for function, count in sorted(done.invalid.items()):
            yield _DECODED.get(function, f"{function} could not use {{:,}} values").format(count)
        if done.cost.records_per_second:
            cost = done.cost
            yield (
                f"as it came, a dagger would read {cost.records_per_second:,.1f} records a second with"
                f" {cost.cores:.3f} cores, hold {cost.state_rows:,} open groups and write"
                f" {cost.rows_per_minute:,.1f} rows a minute"
            )


def _progress_text(progress: Progress) -> str:
    match progress.phase:
        case Progress.PHASE_QUEUED:
            return f"waiting: {progress.ahead} before it"
        case Progress.PHASE_STARTING:
            return "starting the process that previews"
        case _:
            total = f" of {progress.records_total:,}" if progress.records_total else ""
            return f"read {progress.records:,}{total} records, {progress.rows:,} rows"
