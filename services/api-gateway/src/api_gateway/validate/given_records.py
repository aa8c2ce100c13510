"""Encode the records of a query's tests by the schemas of their streams; find all that is wrong with them.

What a test says stands in the specification, which others read: it has no sensitive field. Who only runs one
says no more than they see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from daggers.v1 import spec_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from access import Principal
from access.sensitive import sees
from api_gateway.validate.schemas import descriptor
from daggerspec.nearest import hint, nearest
from daggerspec.protobuf import map_entry
from daggerspec.querytests import read_object
from daggerspec.violation import Violation
from fleet import Fleet

MALFORMED: Final = "MALFORMED_RECORD"
SENSITIVE: Final = "SENSITIVE_TEST"
_WHERE: Final = re.compile(r"^Failed to parse (?P<field>\S+) field: (?P<why>.*)$", re.DOTALL)
_AT: Final = re.compile(r" at \w+\.(?P<field>[\w.\[\]]+)$")
_LONGEST: Final = 300


def encode(
    path: str, spec: spec_pb2.DaggerSpec, test: spec_pb2.QueryTest, fleet: Fleet
) -> tuple[dict[str, list[bytes]], list[Violation]]:
    """Return the bytes of a test's records by table, and what is wrong with them, below the test's `path`.

    A table whose stream or schema is not registered, and a record that is no JSON object, are left out:
    others say so.
    """
    encoded: dict[str, list[bytes]] = {}
    wrong: list[Violation] = []
    for number, given in enumerate(test.given):
        kind = _message(spec, given.table, fleet)
        if kind is None:
            continue
        encoded[given.table] = values = []
        for index, text in enumerate(given.records):
            if (content := read_object(text)) is None:
                continue
            record = kind()
            for field, why in _parse(record, content):
                place = f"of test {test.name}, {given.table}, record {index + 1}"
                problem = f"{place}: {f'{field}: ' if field else ''}{why}"
                wrong.append(Violation(f"{path}.given[{number}].records[{index}]", problem, MALFORMED))
            values.append(record.SerializeToString(deterministic=True))
    return encoded, wrong


def violations(path: str, spec: spec_pb2.DaggerSpec, fleet: Fleet) -> Iterator[Violation]:
    """Yield what is wrong with the records of all tests of a specification."""
    for number, test in enumerate(spec.tests):
        yield from encode(f"{path}.tests[{number}]", spec, test, fleet)[1]


def sensitive(
    path: str, spec: spec_pb2.DaggerSpec, fleet: Fleet, principal: Principal, *, stored: bool
) -> Iterator[Violation]:
    """Yield the sensitive fields that records of tests have: none may be `stored`, and to run one takes the
    grant.
    """
    for number, test in enumerate(spec.tests):
        for place, given in enumerate(test.given):
            stream = _stream(spec, given.table, fleet)
            if stream is None or not stream.sensitive:
                continue
            if not stored and sees(principal, stream.name, fleet):
                continue
            kind = _message(spec, given.table, fleet)
            for index, text in enumerate(given.records if kind else ()):
                record, content = kind() if kind else None, read_object(text)
                if record is None or content is None or list(_parse(record, content)):
                    continue
                for field in stream.sensitive:
                    if _has(record, field.split(".")):
                        why = (
                            "whoever sees the dagger sees its tests: leave it out"
                            if stored
                            else f"you lack the grant to read it in stream {stream.name}: leave it out"
                        )
                        problem = (
                            f"of test {test.name}, {given.table}, record {index + 1}: {field} is a sensitive"
                            f" field, and {why}"
                        )
                        yield Violation(
                            f"{path}.tests[{number}].given[{place}].records[{index}]", problem, SENSITIVE
                        )


def _stream(spec: spec_pb2.DaggerSpec, table: str, fleet: Fleet) -> spec_pb2.Stream | None:
    name = next((stream.stream for stream in spec.streams if stream.table == table), "")
    entry = fleet.streams.get(name)
    return None if entry is None else entry.value


def _message(spec: spec_pb2.DaggerSpec, table: str, fleet: Fleet) -> type[Message] | None:
    """Return the class of a table's records; None where nobody knows it."""
    stream = _stream(spec, table, fleet)
    schema = None if stream is None else fleet.messages.get(stream.message)
    if stream is None or schema is None:
        return None
    return GetMessageClass(descriptor(schema.value, stream.message))


def _parse(record: Message, content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Set the fields of a record; yield each that cannot be, and why."""
    kind = cast(Descriptor, record.DESCRIPTOR)
    for name, value in content.items():
        yield from (unknown := list(_unknown({name: value}, kind)))
        try:
            ParseDict({name: value}, record, ignore_unknown_fields=bool(unknown))
        except (ParseError, ValueError, TypeError, OverflowError, RecursionError) as error:
            yield _explain(name, str(error))


def _unknown(content: Mapping[str, Any], kind: Descriptor, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each field, by its dotted path, that a message does not have."""
    fields = {name: field for field in kind.fields for name in (field.name, field.json_name)}
    for name, value in content.items():
        field, inner = fields.get(name), f"{path}.{name}" if path else name
        if field is None:
            near = nearest(name, [one.name for one in kind.fields])
            yield inner[:_LONGEST], f"{kind.full_name} has no such field" + hint(near, "")
            continue
        for message in _messages_in(field, value):
            yield from _unknown(message, cast(Descriptor, field.message_type), inner)


def _messages_in(field: FieldDescriptor, value: Any) -> Sequence[Mapping[str, Any]]:
    """Return the objects of a field that are messages with fields of their own in JSON."""
    if field.message_type is None or map_entry(field) is not None:
        return ()
    if field.message_type.full_name.startswith("google.protobuf."):
        return ()  # Timestamp and the like have forms of their own
    items = value if field.is_repeated and isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, Mapping)]


def _explain(name: str, text: str) -> tuple[str, str]:
    """Return the field, and why it cannot be set, of Protobuf's sentence about it."""
    field, why = name, text
    while (match := _WHERE.match(why)) is not None:
        field, why = match["field"], match["why"]
    if (match := _AT.search(why)) is not None:
        field, why = match["field"], why[: match.start()]
    return field.rstrip(".")[:_LONGEST], why.strip().rstrip(".")[:_LONGEST]


def _has(message: Message, path: Sequence[str]) -> bool:
    """Tell whether anything stands at a path of a message, in any element of lists."""
    kind = cast(Descriptor, message.DESCRIPTOR)
    field = kind.fields_by_name.get(path[0])
    if field is None:
        return False
    present = {one.name for one, _ in message.ListFields()}
    if field.name not in present:
        return False
    if len(path) == 1 or field.message_type is None or map_entry(field) is not None:
        return True
    value = getattr(message, field.name)
    return any(_has(item, path[1:]) for item in (value if field.is_repeated else (value,)))
