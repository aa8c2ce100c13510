"""A file of streams: the tables that a query may read when no gateway is asked.

    {
      "data_stream": {
        "schema": "booking.proto",
        "message": "examples.v1.Booking",
        "time_field": "event_timestamp"
      }
    }

By table: `schema` is a .proto file or a descriptor set, or a list of them, found beside the file of streams;
`message` the fully-qualified name of what each record holds; `time_field` the dotted path of its
google.protobuf.Timestamp that is the event time, the column rowtime.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pool import DescriptorPool

from cli.errors import CliError, MisusedError, RefusedError
from cli.files.proto_files import load
from daggerclient.findings import headline
from daggerspec.nearest import nearest
from daggerspec.protobuf import TIMESTAMP
from daggersql import Table

KEYS = ("schema", "message", "time_field")


def tables(file: Path, imports: Sequence[Path]) -> list[Table]:
    """Read the tables of a file of streams. `imports` are further folders to search for imports.

    Raises: RefusedError with all its problems, MisusedError where it cannot be read.
    """
    reading = _Reading(file.parent, imports)
    read = [reading.table(name, stream) for name, stream in _parse_json(file).items()]
    if reading.findings:
        message = f"{file}: {headline(reading.findings)}"
        raise RefusedError(message, reason="INVALID_STREAMS", findings=reading.findings)
    return [table for table in read if table is not None]


def _parse_json(file: Path) -> dict[str, Any]:
    try:
        streams = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise MisusedError(f"--streams: {file} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"{file} is not JSON: {error}", reason="INVALID_STREAMS") from error
    if not isinstance(streams, dict) or not streams:
        raise RefusedError(f"{file} must be an object of streams by table", reason="INVALID_STREAMS")
    return streams


@dataclass
class _Reading:
    """Reads streams, and collects all problems instead of stopping at the first."""

    folder: Path
    imports: Sequence[Path]
    findings: list[dict[str, Any]] = field(default_factory=list)

    def table(self, name: str, stream: Any) -> Table | None:
        """Build a stream's table; return None where something is wrong with it."""
        before = len(self.findings)
        files, kind, time_field = self._values(name, stream)
        if len(self.findings) > before:
            return None
        message = self._message(name, files, kind)
        if message is None:
            return None
        if not _is_timestamp(message, time_field):
            self._fail(
                f"{name}.time_field", "NOT_A_TIMESTAMP", f"{time_field} leads to no single {TIMESTAMP}"
            )
            return None
        return Table(name, message, time_field)

    def _values(self, name: str, stream: Any) -> tuple[list[str], str, str]:
        if not isinstance(stream, dict):
            self._fail(name, "WRONG_TYPE", f"must be an object with {', '.join(KEYS)}")
            return [], "", ""
        for key in stream.keys() - set(KEYS):
            near = nearest(key, KEYS)
            self._fail(
                f"{name}.{key}", "UNKNOWN_KEY", f"is no key of a stream; known are {', '.join(KEYS)}", near
            )
        schema = stream.get("schema")
        values = {**stream, "schema": [schema] if isinstance(schema, str) else schema}
        for key in KEYS:
            value = values.get(key)
            if not value:
                self._fail(f"{name}.{key}", "MISSING_KEY", "is missing")
            elif key == "schema" and not _are_texts(value):
                self._fail(f"{name}.{key}", "WRONG_TYPE", "must be a file, or a list of files")
            elif key != "schema" and not isinstance(value, str):
                self._fail(f"{name}.{key}", "WRONG_TYPE", "must be text")
        return values.get("schema") or [], values.get("message") or "", values.get("time_field") or ""

    def _message(self, name: str, files: list[str], kind: str) -> Descriptor | None:
        pool = DescriptorPool()
        try:
            for proto in load([self.folder / file for file in files], self.imports).files.file:
                pool.Add(proto)
            return pool.FindMessageTypeByName(kind)
        except CliError as error:
            for finding in error.findings or [{"code": error.reason, "field": "", "message": error.message}]:
                message = ": ".join(filter(None, (finding["field"], finding["message"])))
                self.findings.append({**finding, "field": f"{name}.schema", "message": message})
        except KeyError:
            self._fail(f"{name}.message", "UNKNOWN_MESSAGE", f"{kind} is not in {', '.join(files)}")
        except TypeError as error:  # what the pool says of files that lack an import
            self._fail(f"{name}.schema", "INVALID_SCHEMA", str(error).splitlines()[0])
        return None

    def _fail(self, path: str, code: str, message: str, suggestion: str | None = None) -> None:
        self.findings.append({"code": code, "field": path, "message": message, "suggestion": suggestion})


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_timestamp(message: Descriptor, path: str) -> bool:
    owner: Descriptor | None = message
    for part in path.split("."):
        step = owner.fields_by_name.get(part) if owner else None
        owner = step.message_type if step and not step.is_repeated else None
    return owner is not None and owner.full_name == TIMESTAMP
