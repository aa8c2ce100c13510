"""A function's case as a query: its arguments become columns of a made-up stream, or constants."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import combinations, product
from typing import Any

import pyarrow as pa
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from tests.conformance.corpus import Corpus
from tests.conformance.values import EPOCH, Pairs, plain, tag

from daggersql import CheckResult, Table, check
from daggersql.functions import registry
from daggersql.ir.families import NUMERIC
from runtime.decode.columns import arrow_schema, select

VIEW = "cases"
_TIME = "event_time"
_AT = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
_Proto = FieldDescriptorProto
_SCALARS = {
    "bool": _Proto.TYPE_BOOL, "int32": _Proto.TYPE_INT32, "int64": _Proto.TYPE_INT64,
    "float": _Proto.TYPE_FLOAT, "double": _Proto.TYPE_DOUBLE, "string": _Proto.TYPE_STRING,
    "bytes": _Proto.TYPE_BYTES,
}  # fmt: skip
# What a list without elements may be a list of, the likeliest first.
_ANYTHING = ("string", "double", "int64", "bytes", "time", "bool")
_BY_CONSTANT_TYPE = ("Filters", "SelectFields")
"""Functions whose constants decide the type of the answer: with columns in their places it is text."""
_FEW = 3
"""So many arguments are tried as constants, in every combination, before all of them are."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The Protobuf type of a column."""

    name: str
    """A scalar, `time`, or `map`."""
    repeated: bool = False
    parts: tuple[Kind, ...] = ()
    """Of a map its key and its value, of a `row` its fields."""
    cast: str = "{}"
    """What SQL makes of the column, where Protobuf has no such type."""
    widened: bool = False
    """Whether values of several types became text to stand in one column."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query that asks for what a case expects, checked, and the rows it reads."""

    checked: CheckResult
    view: str
    rows: pa.Table
    widened: bool
    only_constants: bool


@dataclass(frozen=True, slots=True)
class _Argument:
    """One place of the call: its tagged values, one for each row."""

    values: tuple[Any, ...]

    @property
    def literal(self) -> str | None:
        """The constant, when it is the same one in every row."""
        same = self.values and all(value == self.values[0] for value in self.values)
        return literal(self.values[0]) if same else None


def ask(case: Mapping[str, Any], corpus: Corpus) -> Question:
    """The case as the first query that is accepted, with as few constants as can be; else the last tried."""
    if "tables" in case.get("given", {}):
        return _ask_of_streams(case, corpus)
    arguments = _arguments(case)
    able = [at for at, each in enumerate(arguments) if each.literal is not None]
    if case["udf"] in _BY_CONSTANT_TYPE:
        return ask_with_constants(case, corpus)
    sets = [set(chosen) for count in range(_FEW + 1) for chosen in combinations(able, count)]
    asked = None
    for constants in [*sets, set(able)]:
        found = _ask(case, arguments, constants, corpus)
        asked = found or asked
        if found is not None and found.checked.plan is not None:
            return found
    assert asked is not None
    return asked


def ask_with_constants(case: Mapping[str, Any], corpus: Corpus) -> Question:
    """The case as a query with a constant wherever there can be one.

    Raises: KeyError when a stream's message is unknown.
    """
    if "tables" in case.get("given", {}):
        return _ask_of_streams(case, corpus)
    arguments = _arguments(case)
    able = {at for at, each in enumerate(arguments) if each.literal is not None}
    asked = _ask(case, arguments, able, corpus)
    assert asked is not None
    return asked


def _ask_of_streams(case: Mapping[str, Any], corpus: Corpus) -> Question:
    """A case that names streams: its first argument is a field of one, and another may be its name."""
    tables = streams(case, corpus)
    value, *rest = case["args"]
    owner, field = _field_for(tables, rest, value)
    texts = [f"`{owner.name}`.{field.name}", *(literal(each) or "NULL" for each in rest)]
    checked = check(query(case, texts, f"`{owner.name}`"), tables)
    rows = [{field.name: _of_field(plain(value), field)}]
    return Question(checked, owner.name, view(owner, rows), widened=False, only_constants=False)


def streams(case: Mapping[str, Any], corpus: Corpus) -> list[Table]:
    """The streams that a case names. Raises: KeyError for one of an unknown message."""
    named = case["given"]["tables"]
    return [Table(name, corpus.message(message), "event_timestamp") for name, message in named]


def of_streams(case: Mapping[str, Any], corpus: Corpus) -> Any:
    """The first argument of a case that names streams, its rows by name."""
    value, *rest = case["args"]
    return _of_field(plain(value), _field_for(streams(case, corpus), rest, value)[1])


def _field_for(tables: Sequence[Table], names: Sequence[Any], value: Any) -> tuple[Table, FieldDescriptor]:
    """The field that a name among the arguments means; else the first that could hold the value."""
    wanted = [table for table in tables if table.name in names] or list(tables)
    fields = [(table, field) for table in wanted for field in table.message.fields]
    named = [(table, field) for table, field in fields if field.name in names]
    rows = [item for item in plain(value) or [] if isinstance(item, tuple)]
    fitting = [
        (table, field)
        for table, field in fields
        if field.is_repeated and field.message_type is not None and _fits(rows, field.message_type)
    ]
    return (named or fitting)[0]


def _fits(rows: Sequence[tuple[Any, ...]], message: Descriptor) -> bool:
    return all(len(row) == len(message.fields) for row in rows)


def _of_field(value: Any, field: FieldDescriptor) -> Any:
    """Rows by position as the structs of a field."""
    if isinstance(value, list):
        return [_of_field(item, field) for item in value]
    if isinstance(value, tuple) and field.message_type is not None:
        fields = zip(value, field.message_type.fields, strict=True)
        return {below.name: _of_field(item, below) for item, below in fields}
    return value


def _arguments(case: Mapping[str, Any]) -> list[_Argument]:
    rows = case["args"] if case["kind"] == "aggregate" else [case["args"]]
    if not rows:
        # An aggregate of no rows: one that the FILTER keeps out.
        function = registry.find(case["udf"])
        families = function.signatures[0].parameters if function is not None else ()
        rows = [[50 if family in NUMERIC else "x" for family in families]]
    columns = [_Argument(tuple(values)) for values in zip(*rows, strict=False)]
    unlike = any(None not in column.values and not _kinds(column.values) for column in columns)
    types = {tuple(row[2::3]) for row in rows} if case["udf"] == "FeaturesWithType" else set()
    if unlike or len(types) > 1:
        # Rows of several types are no column. A function of pairs takes them as one row of many pairs.
        columns = [_Argument((value,)) for row in rows for value in row]
    return columns


def _ask(
    case: Mapping[str, Any], arguments: Sequence[_Argument], constants: set[int], corpus: Corpus
) -> Question | None:
    """The query with these constants; None when what is left cannot stand in columns."""
    choices = [
        [None] if at in constants else _kinds(argument.values) for at, argument in enumerate(arguments)
    ]
    asked = None
    for kinds in product(*choices):
        table = _table({f"a{at}": kind for at, kind in enumerate(kinds) if kind is not None}, corpus)
        texts = [
            argument.literal or "" if kind is None else kind.cast.format(f"a{at}")
            for at, (argument, kind) in enumerate(zip(arguments, kinds, strict=True))
        ]
        rows = [
            {
                f"a{at}": stored(argument.values[row], kind)
                for at, (argument, kind) in enumerate(zip(arguments, kinds, strict=True))
                if kind
            }
            for row in range(len(arguments[0].values) if arguments else 1)
        ]
        known = case.get("given", {}).get("reference")
        checked = check(query(case, texts), [table], **({} if known is None else {"references": set(known)}))
        widened = any(kind is not None and kind.widened for kind in kinds)
        only_constants = not any(kinds)
        asked = Question(checked, VIEW, view(table, rows), widened, only_constants)
        if checked.plan is not None:
            break
    return asked


def query(case: Mapping[str, Any], arguments: Sequence[str], view: str = VIEW) -> str:
    """The SQL that asks for the case's answer, given the SQL of each argument."""
    call = f"{case['udf']}({', '.join(arguments)})"
    match case["kind"]:
        case "aggregate":
            keep = "" if case["args"] else " FILTER (WHERE FALSE)"
            window = "TUMBLE(rowtime, INTERVAL '1' HOUR)"
            return f"SELECT {call}{keep} AS v FROM {view} GROUP BY {window}"
        case "table":
            names = [f"c{at}" for at in range(_width(case["udf"]))]
            listed = ", ".join(f"t.{name} AS {name}" for name in names)
            return f"SELECT {listed} FROM {view}, LATERAL TABLE({call}) AS t({', '.join(names)})"
    return f"SELECT {call} AS v FROM {view}"


def _width(name: str) -> int:
    function = registry.find(name)
    return len(function.rows) if function is not None and function.rows else 1


def view(table: Table, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The rows as the runtime's view of the stream has them, with every column of the message."""
    columns = select(table.message, [str(field.name) for field in table.message.fields])
    schema = arrow_schema(columns)
    for name, kind in (
        ("rowtime", pa.timestamp("us", "UTC")), ("__topic", pa.string()), ("__partition", pa.int32()),
        ("__offset", pa.int64()), ("__timestamp", pa.timestamp("us", "UTC")),
    ):  # fmt: skip
        schema = schema.append(pa.field(name, kind))
    meta = {"rowtime": _AT, "__topic": VIEW, "__partition": 0, "__timestamp": _AT}
    return pa.Table.from_pylist(
        [{**row, **meta, "__offset": number} for number, row in enumerate(rows)], schema=schema
    )


def literal(raw: Any) -> str | None:
    """The value as a constant in SQL; None for what has no such form."""
    match tag(raw), plain(raw):
        case "$cond_eq", _:
            path, value = raw["$cond_eq"]
            return f"CondEq({literal(path)}, {literal(value)})"
        case "$decimal", Decimal() as number:
            return f"CAST('{number}' AS DECIMAL(38, {max(0, -int(number.as_tuple().exponent))}))"
        case "$float32", number:
            return f"CAST('{number}' AS FLOAT)"
        case "$long", number:
            return f"CAST({number} AS BIGINT)"
        case "$timestamp", datetime() as moment:
            return f"TIMESTAMP '{moment.replace(tzinfo=None).isoformat(sep=' ')}'"
        case _, None:
            return "NULL"
        case _, bool(truth):
            return str(truth).upper()
        case _, int(number):
            return str(number)
        case _, float(number):
            return f"CAST('{number}' AS DOUBLE)"
        case _, str(text):
            return "'" + text.replace("'", "''") + "'"
    return None


def _kinds(values: Sequence[Any]) -> list[Kind]:
    """What a column of these tagged values may be, the likeliest first; nothing when no column can."""
    known = [value for value in values if value is not None]
    if not known:
        return [
            Kind("string"),
            Kind("int64"),
            Kind("double"),
            *(Kind(each, repeated=True) for each in _ANYTHING),
        ]
    tags = {tag(value) for value in known}
    if tags == {"$map"}:
        entries = [entry for value in known for entry in value["$map"]]
        keys, items = ([entry[side] for entry in entries] for side in (0, 1))
        return [Kind("map", parts=(_element(keys), item), widened=item.widened) for item in [_element(items)]]
    if tags == {"$object"}:
        return [
            Kind("map", parts=(Kind("string"), _element(list(value["$object"].values()))))
            for value in known[:1]
        ]
    if all(isinstance(value, list) for value in known):
        elements = [item for value in known for item in value]
        if any(item is not None for item in elements):
            kind = _element(elements)
            return [Kind(kind.name, repeated=True, widened=kind.widened)]
        return [Kind(each, repeated=True) for each in _ANYTHING]
    if tags == {"$decimal"}:
        scale = max(-int(plain(value).as_tuple().exponent) for value in known)
        return [Kind("string", cast=f"CAST({{}} AS DECIMAL(38, {max(0, scale)}))")]
    if tags == {"$row"} and _name(known[0]) is None:
        parts = tuple(_element([value]) for value in known[0]["$row"])
        return [Kind("row", parts=parts)]
    names = {_name(value) for value in known}
    one = _join(names)
    return [Kind(one)] if one is not None else []


def _element(values: Sequence[Any]) -> Kind:
    """What a list of these holds; text when they have nothing in common."""
    names = {_name(value) for value in values if value is not None} or {"string"}
    one = _join(names)
    return Kind("string", widened=True) if one is None else Kind(one)


def _join(names: set[str | None]) -> str | None:
    if len(names) == 1:
        (name,) = names
        return name
    for wide, narrow in (("int64", {"int32"}), ("double", {"int32", "int64", "float"})):
        if names <= {wide, *narrow}:
            return wide
    return None


def _name(raw: Any) -> str | None:
    match tag(raw), plain(raw):
        case "$float32", _:
            return "float"
        case "$long", _:
            return "int64"
        case "$row", (int(), int()):
            return "time"
        case _, bool():
            return "bool"
        case _, int(number):
            return "int32" if -(2**31) <= number < 2**31 else "int64"
        case _, float():
            return "double"
        case _, str():
            return "string"
        case _, bytes():
            return "bytes"
        case _, datetime():
            return "time"
    return None


def stored(raw: Any, kind: Kind) -> Any:
    """The value as the column holds it."""
    value = plain(raw)
    if value is None:
        return None
    if kind.name == "map":
        entries = value.entries if isinstance(value, Pairs) else tuple(value.items())
        first = dict(reversed(entries))
        return [(key, _scalar(item, kind.parts[1])) for key, item in first.items()]
    if kind.name == "row":
        return {
            f"f{at}": _scalar(item, part)
            for at, (item, part) in enumerate(zip(value, kind.parts, strict=True))
        }
    if kind.repeated:
        return [_scalar(item, kind) for item in value]
    return _scalar(value, kind)


def _scalar(value: Any, kind: Kind) -> Any:
    match kind.name, value:
        case _, None:
            return None
        case "time", (seconds, nanos):
            return EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
        case "string", bool(truth):
            return str(truth).lower()
        case "string", str(text):
            return text
        case "string", Decimal() as number:
            return str(number)
        case "string", other:
            return json.dumps(other)
        case (("float" | "double"), number):
            return float(number)
    return value


def _table(columns: Mapping[str, Kind], corpus: Corpus) -> Table:
    """A stream whose message has these fields; each may be NULL. It knows the corpus's message types."""
    message = DescriptorProto(name="Case")
    for number, (name, kind) in enumerate({_TIME: Kind("time"), **columns}.items(), 1):
        _add(message, number, name, kind)
    for at, field in enumerate(field for field in message.field if field.proto3_optional):
        field.oneof_index = at
        message.oneof_decl.add(name=f"_{field.name}")
    pool = DescriptorPool()
    known = {file.name: file.SerializeToString() for file in corpus.files.file}
    for each in {timestamp_pb2.DESCRIPTOR.name: timestamp_pb2.DESCRIPTOR.serialized_pb, **known}.values():
        pool.AddSerializedFile(each)
    file = FileDescriptorProto(
        name="case.proto", package="conformance", syntax="proto3", message_type=[message]
    )
    file.dependency.append(timestamp_pb2.DESCRIPTOR.name)
    pool.AddSerializedFile(file.SerializeToString())
    return Table(VIEW, pool.FindMessageTypeByName("conformance.Case"), _TIME)


def _add(message: DescriptorProto, number: int, name: str, kind: Kind) -> None:
    field = message.field.add(name=name, number=number)
    field.label = _Proto.LABEL_REPEATED if kind.repeated or kind.name == "map" else _Proto.LABEL_OPTIONAL
    if kind.name == "map":
        entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        for at, (part, below) in enumerate(zip(("key", "value"), kind.parts, strict=True), 1):
            _add(entry, at, part, below)
            entry.field[-1].proto3_optional = False
        field.type, field.type_name = _Proto.TYPE_MESSAGE, f".conformance.Case.{entry.name}"
    elif kind.name == "row":
        nested = message.nested_type.add(name=f"{name.capitalize()}Row")
        for at, below in enumerate(kind.parts):
            _add(nested, at + 1, f"f{at}", below)
            nested.field[-1].proto3_optional = False
        field.type, field.type_name = _Proto.TYPE_MESSAGE, f".conformance.Case.{nested.name}"
    elif kind.name == "time":
        field.type, field.type_name = _Proto.TYPE_MESSAGE, ".google.protobuf.Timestamp"
    else:
        field.type = _SCALARS[kind.name]
        field.proto3_optional = not kind.repeated
