"""The keys of a dagger file, each with the field of the specification that it fills: one table for both ways.

The keys of a sink are those of its kind (`daggerspec.sinks`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from daggers.v1 import spec_pb2
from google.protobuf.message import Message

from daggerclient.daggerfile import alerts, conditions, forward, late, sinks, tests
from daggerclient.daggerfile.forms import CORES, MEMORY, ROWS, START, TEXT, TEXTS, Form, items, span, word
from daggerclient.daggerfile.reader import Reader
from daggerspec import defaults
from daggerspec import sinks as kinds


@dataclass(frozen=True)
class KeyRow:
    """A key of a dagger file, and the field that it fills."""

    key: str
    form: Form
    path: str = ""
    """The field that it fills, where that has another name."""
    required: bool = False
    unsaid: Any = None
    """Shown where the field is not set; None: the key is left out."""

    @property
    def field(self) -> str:
        """Return the name of the field that the key fills."""
        return self.path or self.key


def fill(
    reader: Reader, values: Mapping[str, yaml.Node], path: str, message: Message, rows: Sequence[KeyRow]
) -> None:
    """Fill the fields of a message by the values of the mapping at a path."""
    for row in rows:
        if row.key not in values:
            continue
        value = row.form.read(reader, values[row.key], f"{path}.{row.key}" if path else row.key)
        if isinstance(value, Message):
            getattr(message, row.field).CopyFrom(value)
        elif isinstance(value, dict):
            _fill_map(getattr(message, row.field), value)
        elif isinstance(value, list):
            getattr(message, row.field).extend(value)
        else:
            setattr(message, row.field, value)


def _fill_map(field: Any, values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, Message):
            field[key].CopyFrom(value)
        else:
            field[key] = value


def to_values(message: Message, rows: Sequence[KeyRow]) -> dict[str, Any]:
    """Make the values of the keys of a message: the inverse of `fill`."""
    present = {field.name for field, _ in message.ListFields()}
    document = {
        row.key: row.form.show(getattr(message, row.field)) if row.field in present else row.unsaid
        for row in rows
    }
    return {key: value for key, value in document.items() if value is not None}


def table(kind: type[Message], rows: Sequence[KeyRow]) -> Form:
    """Make the form of a mapping with these keys, as a message of a kind."""
    keys, required = [row.key for row in rows], [row.key for row in rows if row.required]

    def read(reader: Reader, node: yaml.Node, path: str) -> Message:
        message = kind()
        fill(reader, reader.mapping(node, path, keys, required), path, message, rows)
        return message

    return Form(read, lambda message: to_values(message, rows))


STREAM = (
    KeyRow("table", TEXT, unsaid=defaults.TABLE),
    KeyRow("stream", TEXT, required=True, unsaid=""),
    KeyRow("watermark_delay", span()),
    KeyRow("idle_timeout", span(off=True)),
    KeyRow("future_tolerance", span(positive=True)),
    KeyRow("start", START),
)
EMITS = {"final": spec_pb2.EMIT_FINAL, "early": spec_pb2.EMIT_EARLY}
STATES = {"memory": spec_pb2.STATE_STORE_MEMORY, "disk": spec_pb2.STATE_STORE_DISK}
PRIORITIES = {"normal": spec_pb2.PRIORITY_NORMAL, "critical": spec_pb2.PRIORITY_CRITICAL}
ISOLATIONS = {
    "auto": spec_pb2.ISOLATION_AUTO,
    "dedicated": spec_pb2.ISOLATION_DEDICATED,
    "shared": spec_pb2.ISOLATION_SHARED,
}
ISOLATION = word(ISOLATIONS)
EXECUTORS = (
    KeyRow("count", CORES),
    KeyRow("cores", CORES),
    KeyRow("memory", MEMORY, path="memory_mib"),
    KeyRow("cores_max", CORES),
)
SPEC = (
    KeyRow("team", TEXT, required=True, unsaid=""),
    KeyRow("cluster", TEXT, required=True, unsaid=""),
    KeyRow("streams", items(table(spec_pb2.StreamInput, STREAM), "streams"), required=True, unsaid=[]),
    KeyRow("sql", TEXT),
    KeyRow("forward", Form(forward.read, forward.show)),
    KeyRow("sinks", items(Form(sinks.read, sinks.show), ", ".join(kinds.names())), required=True, unsaid=[]),
    KeyRow("trigger", span(positive=True)),
    KeyRow("emit", word(EMITS), unsaid="final"),
    KeyRow("late", Form(late.read, late.show)),
    KeyRow("state", word(STATES)),
    KeyRow("driver_memory", MEMORY, path="driver_memory_mib"),
    KeyRow("consumer_group", TEXT),
    KeyRow("max_rows_per_batch", ROWS),
    KeyRow("freshness", span(positive=True)),
    KeyRow("priority", word(PRIORITIES)),
    KeyRow("needs", TEXTS),
    KeyRow("isolation", ISOLATION),
    KeyRow("executors", table(spec_pb2.Executors, EXECUTORS)),
    KeyRow("alerts", items(Form(alerts.read, alerts.show), "rules")),
    KeyRow("conditions", Form(conditions.read, conditions.show)),
    KeyRow("tests", items(Form(tests.read, tests.show), "tests")),
)
