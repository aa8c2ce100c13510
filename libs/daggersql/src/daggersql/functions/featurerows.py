"""Feature rows: `{name, value {one slot filled}, id}`, as Features and its kin give them.

The slot is chosen by the type of the value, or named by a constant. What a slot cannot hold is refused when
types show it; text that is no number is known only when it comes: an empty slot, counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from daggersql.findings import Report, Span, nearest
from daggersql.functions.reals import SPARK_KNOWS_BETTER
from daggersql.ir.expr import Expr, call, cast, quote_text
from daggersql.ir.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    Array,
    Family,
    Struct,
    Type,
    family,
)  # fmt: skip
from daggersql.operators.coercion import describe

SLOTS: Mapping[str, Type] = {
    "bytes": BINARY, "string": STRING, "int": INT, "long": BIGINT,
    "double": DOUBLE, "float": FLOAT, "bool": BOOLEAN, "timestamp": TIMESTAMP,
}  # fmt: skip
"""In the order that they have on the wire."""
FEATURES = Array(Struct((("name", STRING), ("value", Struct(tuple(SLOTS.items()))), ("id", STRING))))
TRIPLETS = Array(Struct((("made", FEATURES.element), ("given", STRING))))
"""Features beside what they were made of: two of one group are one when both are equal."""
_UNTYPED = {
    Family.BOOLEAN: "bool", Family.DECIMAL: "double", Family.TEXT: "string",
    Family.BINARY: "bytes", Family.TIMESTAMP: "timestamp",
}  # fmt: skip
_NUMBERS = {
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
}
_TEXT_OF = (
    Family.TEXT, Family.BOOLEAN, Family.INTEGER, Family.NUMBER, Family.DECIMAL, Family.DATE,
)  # fmt: skip
# The dot behind the text keeps `$` from overlooking a last line break.
_WHOLE_TEXT = "rlike(concat({0}, '.'), '^[+-]?[0-9]+[.]$')"
_TEXT_FORM = {Family.BINARY: "base64({0})", Family.TIMESTAMP: "CAST(unix_micros({0}) AS STRING)"}


def untyped(key: Expr, value: Expr, report: Report) -> Expr | None:
    """The feature whose slot follows from the value's type; None, with a finding, when there is none."""
    found = family(value.type)
    if found is Family.NULL:
        return _row(key, None, None, report)
    slot = _NUMBERS.get(value.type.spark) or _UNTYPED.get(found)
    if slot is None:
        report.error(
            "UNSUPPORTED_TYPE",
            value.span,
            f"A feature holds one number, text, truth value, bytes or time, not {describe(value)}.",
        )
        return None
    return _row(key, slot, cast(value, SLOTS[slot]), report)


def typed(key: Expr, value: Expr, kind: Expr, function: str, report: Report) -> Expr | None:
    """The feature whose slot the constant `kind` names, and what it was made of, as in TRIPLETS; None, with a
    finding, when it cannot be.

    `function`_bad(flag) counts values that its slot cannot hold.
    """
    convert = TYPES.get(str(kind.value)) if isinstance(kind.value, str) else None
    if convert is None:
        known = ", ".join(TYPES)
        suggestion = nearest(str(kind.value), TYPES) if kind.value is not None else None
        hint = f": did you mean {suggestion}?" if suggestion else f": it is one of {known}."
        report.error(
            "UNSUPPORTED_TYPE", kind.span, f"This is not the constant name of a type{hint}", suggestion
        )
        return None
    slot, make = convert
    made = make(value, function)
    if made is None:
        report.error(
            "UNSUPPORTED_TYPE", value.span, f"{kind.value} does not hold {describe(value)}: cast it first."
        )
        return None
    row = _row(key, slot, made, report)
    if row is None:
        return None
    given = _given(value, SLOTS[slot], str(kind.value))
    return call("named_struct('made', {0}, 'given', {1})", TRIPLETS.element, row.span, row, given)


def _given(value: Expr, slot: Type, kind: str) -> Expr:
    """Text that tells values apart that become one feature, such as NULL and 0: the value's own type, and the
    value where it is not what stands in the slot.
    """
    tag = f"{kind} {value.type.spark.partition('(')[0]}"
    if family(value.type) is Family.NULL:
        return call(quote_text(kind), STRING, value.span)
    if value.type.spark == slot.spark:
        return call(f"CASE WHEN {{0}} IS NULL THEN '{kind}' ELSE '{tag}' END", STRING, value.span, value)
    text = _TEXT_FORM.get(family(value.type), "CAST({0} AS STRING)")
    return call(f"coalesce(concat('{tag} ', {text}), '{kind}')", STRING, value.span, value)


def list_of(features: Sequence[Expr], kind: Array, place: Span) -> Expr:
    """The features of one record as a list of that kind."""
    holes = ", ".join(f"{{{number}}}" for number in range(len(features)))
    template = f"array({holes})" if features else f"CAST(array() AS {kind.spark})"
    return call(template, kind, place, *features)


def _row(key: Expr, slot: str | None, value: Expr | None, report: Report) -> Expr | None:
    name = _text(key)
    if name is None:
        report.error(
            "UNSUPPORTED_TYPE", key.span, f"A feature's name is text or a number, not {describe(key)}."
        )
        return None
    parts = ", ".join(
        f"'{each}', {'{1}' if each == slot else f'CAST(NULL AS {kind.spark})'}"
        for each, kind in SLOTS.items()
    )
    row = f"named_struct('name', {{0}}, 'value', named_struct({parts}), 'id', {{0}})"
    return call(row, FEATURES.element, key.span, name, *(() if value is None else (value,)))


def _text(value: Expr) -> Expr | None:
    found = family(value.type)
    if found is Family.TIMESTAMP:
        return call("date_format({0}, 'yyyy-MM-dd HH:mm:ss.SSS')", STRING, value.span, value)
    return cast(value, STRING) if found in (*_TEXT_OF, Family.NULL) else None


# --- what each named type makes of a value; None when it cannot hold such values ------------------------


def _as_bytes(value: Expr, function: str) -> Expr | None:
    return cast(value, BINARY) if family(value.type) in (Family.BINARY, Family.TEXT, Family.NULL) else None


def _as_text(value: Expr, function: str) -> Expr | None:
    if family(value.type) is Family.BINARY:
        return _counted("try_validate_utf8(CAST({0} AS STRING))", STRING, value, function)
    return _text(value)


def _as_time(value: Expr, function: str) -> Expr | None:
    known = (Family.TIMESTAMP, Family.DATE, Family.NULL)
    return cast(value, TIMESTAMP) if family(value.type) in known else None


def _as_truth(value: Expr, function: str) -> Expr | None:
    match family(value.type):
        case Family.BOOLEAN | Family.NULL:
            return _or_zero("{0}", BOOLEAN, cast(value, BOOLEAN))
        case Family.TEXT:
            made = "CASE WHEN lower({0}) = 'true' THEN true WHEN lower({0}) = 'false' THEN false END"
            return _or_zero(_flagged(made, function), BOOLEAN, value)
    return None


def _whole(kind: Type) -> Callable[[Expr, str], Expr | None]:
    def make(value: Expr, function: str) -> Expr | None:
        made = f"try_cast({{0}} AS {kind.spark})"
        match family(value.type):
            case Family.INTEGER | Family.NULL:
                return _or_zero(_flagged(made, function), kind, cast(value, BIGINT))
            case Family.NUMBER:
                # 2^63, which is no BIGINT any more, would be cast to the greatest one.
                made = f"CASE WHEN {{0}} = rint({{0}}) AND {{0}} < 9223372036854775808D THEN {made} END"
            case Family.DECIMAL:
                made = f"CASE WHEN {{0}} = round({{0}}, 0) THEN {made} END"
            case Family.TEXT:
                made = f"CASE WHEN {_WHOLE_TEXT} THEN {made} END"
            case _:
                return None
        return _or_zero(_flagged(made, function), kind, value)

    return make


def _real(kind: Type) -> Callable[[Expr, str], Expr | None]:
    def make(value: Expr, function: str) -> Expr | None:
        match family(value.type):
            case Family.NUMBER if kind == DOUBLE and value.type == FLOAT:
                # 0.1, not the 0.10000000149011612 that the nearest FLOAT is.
                return _or_zero("CAST(CAST({0} AS STRING) AS DOUBLE)", kind, value)
            case Family.INTEGER | Family.NUMBER | Family.DECIMAL | Family.NULL:
                return _or_zero(f"CAST({{0}} AS {kind.spark})", kind, value)
            case Family.TEXT:
                made = f"CASE WHEN NOT {SPARK_KNOWS_BETTER} THEN try_cast({{0}} AS {kind.spark}) END"
                return _or_zero(_flagged(made, function), kind, value)
        return None

    return make


def _or_zero(made: str, kind: Type, value: Expr) -> Expr:
    """NULL becomes 0 or false, and nothing else does."""
    zero = "false" if kind is BOOLEAN else f"CAST(0 AS {kind.spark})"
    return call(f"CASE WHEN {{0}} IS NULL THEN {zero} ELSE {made} END", kind, value.span, value)


def _counted(made: str, kind: Type, value: Expr, function: str) -> Expr:
    return call(_flagged(made, function), kind, value.span, value)


def _flagged(made: str, function: str) -> str:
    """The template, telling of values that are there and that it makes nothing of."""
    return f"CASE WHEN NOT {function}_bad({{0}} IS NOT NULL AND ({made}) IS NULL) THEN {made} END"


TYPES: Mapping[str, tuple[str, Callable[[Expr, str], Expr | None]]] = {
    "ByteType": ("bytes", _as_bytes),
    "StringType": ("string", _as_text),
    "IntegerType": ("int", _whole(INT)),
    "LongType": ("long", _whole(BIGINT)),
    "DoubleType": ("double", _real(DOUBLE)),
    "FloatType": ("float", _real(FLOAT)),
    "BooleanType": ("bool", _as_truth),
    "TimestampType": ("timestamp", _as_time),
}
"""Names of types, each with its slot and what it makes of a value."""
