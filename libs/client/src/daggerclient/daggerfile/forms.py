"""Forms of the values of a dagger file's keys: each form reads and shows a value.

A form fits the field that the key fills: a message form gives a message, a text form a string.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import yaml
from daggers.v1 import spec_pb2
from google.protobuf.duration_pb2 import Duration

from daggerclient.daggerfile.reader import Reader
from daggerclient.times import duration, iso
from daggerspec.executors import MAX_CORES
from daggerspec.limits import BATCH_RECORDS
from daggerspec.nearest import hint, nearest

_MEMORY_UNITS = {"m": 1, "mb": 1, "mib": 1, "g": 1024, "gb": 1024, "gib": 1024}


@dataclass(frozen=True)
class Form:
    """Reads a value of a dagger file into a field of the specification, and shows it."""

    read: Callable[[Reader, yaml.Node, str], Any]
    """Reads the field's value out of the node at a path; notes a finding of what cannot be read."""
    show: Callable[[Any], Any]
    """Makes the key's value of the field's."""


def span(*, off: bool = False, positive: bool = False) -> Form:
    """Make the form of a duration such as 5s; with `off`, that word stands for zero."""

    def read(reader: Reader, node: yaml.Node, path: str) -> Duration:
        value = Duration()
        value.FromTimedelta(reader.duration(node, path, off=off, positive=positive))
        return value

    def show(value: Duration) -> str:
        return "off" if off and value.ToTimedelta() == timedelta() else duration(value)

    return Form(read, show)


def word(numbers: Mapping[str, int]) -> Form:
    """Make the form of an enumeration, of its numbers by word."""
    words = {number: name for name, number in numbers.items()}

    def read(reader: Reader, node: yaml.Node, path: str) -> int:
        return numbers[reader.choice(node, path, tuple(numbers))]

    return Form(read, words.__getitem__)


def items(form: Form, of: str) -> Form:
    """Make the form of a list that is not empty; `of` names its items in findings."""

    def read(reader: Reader, node: yaml.Node, path: str) -> list[Any]:
        return [form.read(reader, item, item_path) for item_path, item in reader.items(node, path, of=of)]

    return Form(read, lambda values: [form.show(value) for value in values])


def parse_memory(text: str) -> int:
    """Parse a size of memory such as 600m or 2g, in MiB; 0 where it is none."""
    value = text.strip().lower()
    digits = value.rstrip("bgim")
    factor = _MEMORY_UNITS.get(value[len(digits) :])
    size = int(digits) * factor if digits.isdigit() and factor else 0
    return size if size < 2**32 else 0


def _memory(reader: Reader, node: yaml.Node, path: str) -> int:
    if size := parse_memory(node.value if isinstance(node, yaml.ScalarNode) else ""):
        return size
    reader.fail(node, path, "BAD_SIZE", f"{path} must be a size like 600m or 2g")
    return 0


def _start(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.StartPosition:
    text = node.value if isinstance(node, yaml.ScalarNode) else ""
    position = spec_pb2.StartPosition()
    if text in ("latest", "earliest"):
        setattr(position, text, True)
        return position
    instant = reader.instant(node)
    if instant is None:
        near = nearest(text, ("latest", "earliest"))
        message = f"{path} must be latest, earliest, or an instant with its zone like 2026-01-01T00:00:00Z"
        reader.fail(node, path, "BAD_START", message + hint(near, ""), near)
    else:
        position.at.FromDatetime(instant)
    return position


def _shown_start(position: spec_pb2.StartPosition) -> str:
    kind = position.WhichOneof("position") or "latest"
    return iso(position.at) if kind == "at" else kind


TEXT = Form(lambda reader, node, path: reader.text(node, path), lambda value: value)
TEXTS = Form(lambda reader, node, path: reader.texts(node, path), dict)
MEMORY = Form(_memory, lambda mebibytes: f"{mebibytes}m")
ROWS = Form(
    lambda reader, node, path: reader.integer(node, path, least=1, most=BATCH_RECORDS), lambda value: value
)
CORES = Form(
    lambda reader, node, path: reader.integer(node, path, least=1, most=MAX_CORES), lambda value: value
)
START = Form(_start, _shown_start)
