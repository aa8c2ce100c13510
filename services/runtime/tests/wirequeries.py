"""Queries over generated messages, and what each form in them gives of what Protobuf reads of a record.

A form is an expression of the dialect over one field, and a function of the row that `wireoracle` reads: a
key of a map, an element, a place in JSON, a part of a time, a field of a field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from services.runtime.tests import wireoracle

from daggerspec.protobuf import JSON_LIKE
from runtime.decode.columns import ColumnKind, FieldColumn

Row = dict[str, Any]
_F = FieldDescriptor
_NO_DOCUMENT: Final = object()


@dataclass(frozen=True, slots=True)
class Form:
    """`sql`, what it gives of a row, and how an answer of Spark is shown in the oracle's words."""

    sql: str
    of_row: Callable[[Row], Any]
    show: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Unnested:
    """A query that gives a row for each element of a field, and these rows' columns of one record's row."""

    sql: str
    of_row: Callable[[Row], list[Row]]
    show: dict[str, Callable[[Any], Any]]


def forms(columns: Sequence[FieldColumn], rows: Sequence[Row], rng: Random) -> Iterator[Form]:
    """The forms of all columns; keys are those that some of the rows have, and one that none has."""
    for column in columns:
        name = f"`{column.name}`"
        if column.is_map:
            yield from _of_map(column, name, [row[column.name] for row in rows], rng)
        elif column.field.is_repeated:
            yield from _of_list(column, name)
        elif column.kind is ColumnKind.JSON:
            yield from _of_json(name, _at(column.name), _path_of(column))
        elif column.kind is ColumnKind.STRUCT:
            yield from _of_message(column, name, _at(column.name))
        elif column.kind is ColumnKind.WRAPPER:
            yield Form(f"{name}.`value`", _at(column.name), _showing(column))


def unnested(column: FieldColumn) -> Unnested:
    """The query of a list's or a map's elements."""
    name = column.name
    head, tail = "SELECT __offset AS place", f"FROM data_stream AS d, UNNEST(d.`{name}`) AS"
    if column.is_map:
        key, value = column.children
        return Unnested(
            f"{head}, e.k, e.v {tail} e (k, v)",
            lambda row: [{"k": at, "v": item} for at, item in row[name].items()],
            {"k": _showing(key), "v": _showing(value)},
        )
    if column.kind is ColumnKind.STRUCT:
        names = [child.name for child in column.children]
        shown = ", ".join(f"e.`{child}`" for child in names)
        return Unnested(
            f"{head}, {shown} {tail} e",
            lambda row: [{child: element[child] for child in names} for element in row[name]],
            {child.name: _showing(child, one=False) for child in column.children},
        )
    return Unnested(
        f"{head}, e.v {tail} e (v)",
        lambda row: [{"v": element} for element in row[name]],
        {"v": _showing(column)},
    )


def _at(*path: str) -> Callable[[Row], Any]:
    """The value at a path; None where something on the way is."""

    def read(row: Any) -> Any:
        for name in path:
            row = None if row is None else row[name]
        return row

    return read


def _showing(column: FieldColumn, *, one: bool = True) -> Callable[[Any], Any]:
    return lambda value: wireoracle.shown(value, column, one=one)


def _same(value: Any) -> Any:
    return value


def _of_message(column: FieldColumn, name: str, read: Callable[[Row], Any]) -> Iterator[Form]:
    """Fields of a message, and theirs."""
    for child in column.children:

        def below(row: Row, child: FieldColumn = child) -> Any:
            message = read(row)
            return None if message is None else message[child.name]

        path = f"{name}.`{child.name}`"
        yield Form(path, below, _showing(child, one=False))
        if child.kind is ColumnKind.STRUCT and not child.field.is_repeated:
            yield from _of_message(child, path, below)
        elif child.kind is ColumnKind.JSON and not child.field.is_repeated:
            yield from _of_json(path, below, _path_of(child))


def _of_map(column: FieldColumn, name: str, maps: Sequence[Row], rng: Random) -> Iterator[Form]:
    key, value = column.children
    yield Form(f"CARDINALITY({name})", lambda row: len(row[column.name]), _same)
    known = sorted({each for entries in maps for each in entries}, key=repr)
    for each in [*rng.sample(known, min(len(known), 2)), _other(key)]:
        found = lambda row, each=each: row[column.name].get(each)  # noqa: E731 - one of two forms of it
        for sql in (f"{name}[{_literal(each)}]", f"MapGet({name}, {_literal(each)})"):
            yield Form(sql, found, _showing(value))
            if value.kind is ColumnKind.STRUCT:
                yield from _of_message(value, sql, found)


def _other(key: FieldColumn) -> Any:
    if key.field.type == _F.TYPE_BOOL:
        return True
    return "not there" if key.field.type == _F.TYPE_STRING else 17


def _literal(key: Any) -> str:
    match key:
        case bool():
            return str(key).upper()
        case str():
            return "'" + key.replace("'", "''") + "'"
        case Decimal():
            return f"CAST('{key}' AS DECIMAL(20, 0))"
    return str(key)


def _of_list(column: FieldColumn, name: str) -> Iterator[Form]:
    yield Form(f"CARDINALITY({name})", lambda row: len(row[column.name]), _same)
    for place in (1, 2):

        def element(row: Row, place: int = place) -> Any:
            return row[column.name][place - 1] if len(row[column.name]) >= place else None

        yield Form(f"{name}[{place}]", element, _showing(column))
        if column.kind is ColumnKind.STRUCT:
            yield from _of_message(column, f"{name}[{place}]", element)
        elif column.kind is ColumnKind.JSON:
            yield from _of_json(f"{name}[{place}]", element, _path_of(column))
    if column.kind is ColumnKind.STRUCT and len(column.children) > 1 and _is_key(column.children[0]):
        yield _of_pairs(column, name)


def _is_key(column: FieldColumn) -> bool:
    kinds = (_F.CPPTYPE_INT32, _F.CPPTYPE_INT64, _F.CPPTYPE_STRING)
    return (
        column.kind is ColumnKind.SCALAR
        and not column.field.is_repeated
        and column.field.type != _F.TYPE_BYTES
        and column.field.cpp_type in kinds
    )


def _of_pairs(column: FieldColumn, name: str) -> Form:
    """MapGet of a list of messages: the first field is the key, the second the value."""
    key, value = column.children[:2]
    wanted = "a" if key.field.cpp_type == _F.CPPTYPE_STRING else 1

    def found(row: Row) -> Any:
        return next((each[value.name] for each in row[column.name] if each[key.name] == wanted), None)

    return Form(f"MapGet({name}, {_literal(wanted)})", found, _showing(value, one=False))


def _path_of(column: FieldColumn) -> tuple[str, Callable[[Any], Any]]:
    """A path into a document, and what stands there: `_NO_DOCUMENT` for nothing."""
    assert column.field.message_type is not None
    match JSON_LIKE and column.field.message_type.name:
        case "Struct":
            return "$.a", lambda read: read.get("a", _NO_DOCUMENT)
        case "ListValue":
            return "$[0]", lambda read: read[0] if read else _NO_DOCUMENT
    return "$", lambda read: read


def _of_json(name: str, read: Callable[[Row], Any], path: tuple[str, Callable[[Any], Any]]) -> Iterator[Form]:
    """SQL's functions of JSON, over a Struct, a ListValue or a Value."""
    where, place = path

    def there(row: Row) -> Any:
        text = read(row)
        return _NO_DOCUMENT if text is None else place(json.loads(text))

    def value(row: Row) -> Any:
        return None if (found := there(row)) is _NO_DOCUMENT or isinstance(found, dict | list) else found

    def nested(row: Row) -> Any:
        return found if isinstance(found := there(row), dict | list) else None

    def exists(row: Row) -> Any:
        return None if read(row) is None else there(row) is not _NO_DOCUMENT

    yield Form(f"JSON_VALUE({name}, '{where}')", lambda row: _as_text(value(row)), _as_text)
    yield Form(
        f"JSON_QUERY({name}, '{where}')", nested, lambda text: text if text is None else json.loads(text)
    )
    yield Form(f"JSON_EXISTS({name}, '{where}')", exists, _same)


def _as_text(value: Any) -> Any:
    """A scalar as JSON_VALUE writes it; of numbers what they are, for they may be written in several ways."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return float(value)
        case str():
            try:
                return float(value)
            except ValueError:
                return value
    return value
