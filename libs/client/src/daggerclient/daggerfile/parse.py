"""A dagger file to the daggers it describes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from daggers.v1 import spec_pb2

from daggerclient.daggerfile import sinks
from daggerclient.daggerfile.reader import Reader, nearest
from daggerclient.errors import InvalidFileError
from daggerclient.findings import headline
from daggerspec import sinks as kinds

KEYS = (
    "name", "team", "cluster", "streams", "sql", "sinks", "trigger", "emit", "driver_memory",
    "consumer_group", "state",
)  # fmt: skip
REQUIRED = ("name", "team", "cluster", "streams", "sql", "sinks")
STREAM_KEYS = ("table", "stream", "watermark_delay", "idle_timeout", "future_tolerance", "start")
EMITS = {"final": spec_pb2.EMIT_FINAL, "early": spec_pb2.EMIT_EARLY}
STATES = {"memory": spec_pb2.STATE_STORE_MEMORY, "disk": spec_pb2.STATE_STORE_DISK}
MEMORY_UNITS = {"m": 1, "mb": 1, "mib": 1, "g": 1024, "gb": 1024, "gib": 1024}


@dataclass(frozen=True)
class DaggerFile:
    """One document of a dagger file.

    sql_line: line of the file, from 1, on which line 1 of the SQL stands; None when its lines are not those
              of the file.
    places: line and column, both from 1, of each key's value by its path, such as sinks[0].influx.url.
    wrong: paths of the keys that are missing or have a value which cannot be read; the spec lacks them.
    """

    name: str
    spec: spec_pb2.DaggerSpec
    sql_line: int | None
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    wrong: frozenset[str] = frozenset()


def parse(text: str, file: str) -> list[DaggerFile]:
    """The daggers of a file, in its order. Raises InvalidFileError with everything that is wrong with it."""
    daggers, findings = read(text, file)
    if findings:
        raise InvalidFileError(f"{file}: {headline(findings)}", findings)
    return daggers


def read(text: str, file: str) -> tuple[list[DaggerFile], list[dict[str, Any]]]:
    """The daggers of a file as far as they can be read, and what is wrong with it.

    Raises InvalidFileError when it is empty.
    """
    reader = Reader(file)
    daggers: list[DaggerFile] = []
    try:
        for node in yaml.compose_all(text, Loader=yaml.SafeLoader):
            if node is not None and not _is_null(node):
                daggers.append(_dagger(reader, node, {dagger.name for dagger in daggers}))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(filter(None, (error.context, error.problem)))
        reader.findings.append(_syntax(file, problem, mark.line if mark else 0, mark.column if mark else 0))
    except (yaml.YAMLError, RecursionError) as error:
        reader.findings.append(_syntax(file, str(error).splitlines()[0], 0, 0))
    if not daggers and not reader.findings:
        raise InvalidFileError(f"{file} holds no dagger: it is empty")
    return daggers, reader.findings


def _dagger(reader: Reader, node: yaml.Node, taken: set[str]) -> DaggerFile:
    reader.begin(node)
    before = len(reader.findings)
    found = reader.mapping(node, "", KEYS, REQUIRED)
    name = reader.text(found["name"], "name") if "name" in found else ""
    if name in taken:
        reader.fail(found["name"], "name", "DUPLICATE_NAME", f"{name} stands in this file twice")
    spec = spec_pb2.DaggerSpec()
    for key in ("team", "cluster", "sql", "consumer_group"):
        if key in found:
            setattr(spec, key, reader.text(found[key], key))
    if "streams" in found:
        for path, item in reader.items(found["streams"], "streams", of="streams"):
            spec.streams.append(_stream(reader, item, path))
    if "sinks" in found:
        for path, item in reader.items(found["sinks"], "sinks", of=", ".join(kinds.names())):
            spec.sinks.append(sinks.read(reader, item, path))
    if "trigger" in found:
        spec.trigger.FromTimedelta(reader.duration(found["trigger"], "trigger", positive=True))
    if "emit" in found:
        spec.emit = EMITS[reader.choice(found["emit"], "emit", tuple(EMITS))]
    if "state" in found:
        spec.state = STATES[reader.choice(found["state"], "state", tuple(STATES))]
    if "driver_memory" in found:
        spec.driver_memory_mib = _memory(reader, found["driver_memory"])
    wrong = frozenset(finding["field"] for finding in reader.findings[before:])
    return DaggerFile(name, spec, _first_line(found.get("sql")), reader.places, wrong)


def _stream(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.StreamInput:
    found = reader.mapping(node, path, STREAM_KEYS, ("stream",))
    stream = spec_pb2.StreamInput()
    for key in ("table", "stream"):
        if key in found:
            setattr(stream, key, reader.text(found[key], f"{path}.{key}"))
    if "watermark_delay" in found:
        delay = reader.duration(found["watermark_delay"], f"{path}.watermark_delay")
        stream.watermark_delay.FromTimedelta(delay)
    if "idle_timeout" in found:
        timeout = reader.duration(found["idle_timeout"], f"{path}.idle_timeout", off=True)
        stream.idle_timeout.FromTimedelta(timeout)
    if "future_tolerance" in found:
        tolerance = reader.duration(found["future_tolerance"], f"{path}.future_tolerance", positive=True)
        stream.future_tolerance.FromTimedelta(tolerance)
    if "start" in found:
        stream.start.CopyFrom(_start(reader, found["start"], f"{path}.start"))
    return stream


def _start(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.StartPosition:
    word = node.value if isinstance(node, yaml.ScalarNode) else ""
    position = spec_pb2.StartPosition()
    if word in ("latest", "earliest"):
        setattr(position, word, True)
        return position
    instant = reader.instant(node)
    if instant is None:
        near = nearest(word, ("latest", "earliest"))
        hint = f": did you mean {near}?" if near else ""
        message = (
            f"{path} must be latest, earliest, or an instant with its zone like 2026-01-01T00:00:00Z{hint}"
        )
        reader.fail(node, path, "BAD_START", message, near)
    else:
        position.at.FromDatetime(instant)
    return position


def _memory(reader: Reader, node: yaml.Node) -> int:
    value = node.value.strip().lower() if isinstance(node, yaml.ScalarNode) else ""
    digits = value.rstrip("bgim")
    factor = MEMORY_UNITS.get(value[len(digits) :])
    if digits.isdigit() and factor and 0 < int(digits) * factor < 2**32:
        return int(digits) * factor
    reader.fail(node, "driver_memory", "BAD_SIZE", "driver_memory must be a size like 600m or 2g")
    return 0


def _first_line(node: yaml.Node | None) -> int | None:
    if not isinstance(node, yaml.ScalarNode):
        return None
    first = int(node.start_mark.line) + 1
    if node.style == "|":  # in a block the text begins on the line after the indicator
        return first + 1
    return first if node.end_mark.line == node.start_mark.line else None


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value in ("", "~", "null")


def _syntax(file: str, problem: str, line: int, column: int) -> dict[str, object]:
    return {
        "code": "INVALID_YAML", "severity": "error", "field": "",
        "message": f"this is not YAML: {problem}", "file": file,
        "line": line + 1, "column": column + 1, "suggestion": None,
    }  # fmt: skip


__all__: Sequence[str] = ("DaggerFile", "parse")
