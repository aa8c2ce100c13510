"""Show a stream to people: its columns, and the traffic of its topics."""

from textwrap import shorten

from daggers.v1 import gateway_pb2

from cli.output.printer import Printer
from cli.output.visible import printable

ABOUT = 80
"""Most characters of the text about a column."""


def describe(out: Printer, answer: gateway_pb2.DescribeStreamResponse) -> None:
    """Print a stream's description, and a table of its columns."""
    stream = answer.stream
    out.line(f"{stream.name}: {stream.message} in {' '.join(stream.topics)} of {stream.cluster}")
    out.line(f"event time: {stream.time_field}, the column rowtime")
    if answer.HasField("partitions"):
        out.line(f"now: {traffic(answer)}")
    columns: tuple[str, ...] = ("COLUMN", "TYPE", "EXAMPLE", "ABOUT")
    rows: list[tuple[str, ...]] = [
        (column.path, column.type, column.example, _about(column)) for column in answer.columns
    ]
    if out.wide:
        columns = ("COLUMN", "TYPE", "PROTOBUF", "EXAMPLE", "VALUES", "COMMENT")
        rows = [
            (
                column.path,
                column.type,
                column.protobuf_type,
                column.example,
                _values(column),
                printable(column.comment),
            )
            for column in answer.columns
        ]
    out.table(columns, rows, empty="no columns")
    if answer.truncated:
        out.note("there are more fields, deeper in these")


def _about(column: gateway_pb2.StreamColumn) -> str:
    """Join a column's enum values and its comment, cut to ABOUT characters."""
    values = ", ".join(value.name for value in column.enum_values)
    return shorten(printable("; ".join(filter(None, (values, column.comment)))), ABOUT, placeholder=" …")


def _values(column: gateway_pb2.StreamColumn) -> str:
    return " ".join(f"{value.name}={value.number}" for value in column.enum_values)


def traffic(answer: gateway_pb2.DescribeStreamResponse | gateway_pb2.SampleStreamResponse) -> str:
    """Format the number of partitions, and the rate of records where it is known."""
    partitions = f"{answer.partitions:,} partition{'' if answer.partitions == 1 else 's'}"
    rate = f", {answer.records_per_second:,.1f} records a second in the last minute"
    return partitions + (rate if answer.HasField("records_per_second") else "")
