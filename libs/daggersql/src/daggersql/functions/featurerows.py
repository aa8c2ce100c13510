"""Feature rows: `{name, value {one slot filled}, id}`, as Features and its kin give them.

The slot is chosen by the type of the value, or named by a constant. What a slot cannot hold is refused when
types show it; text that is no number is known only when it comes: an empty slot, counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from daggersql.findings import Report, Span, instead_of_constant, unless
from daggersql.functions.reals import SPARK_KNOWS_BETTER
from daggersql.ir.expr import Expr, call, cast, text_constant
from daggersql.ir.families import Family, family
from daggersql.ir.ops import Form, Op
from daggersql.ir.types import (  # fmt: skip
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    Array,
    Struct,
    Type,
)
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
_TAGGED = {
    kind: Form(f"coalesce(concat({{1}}, {text}), {{2}})")
    for kind, text in {**dict.fromkeys(Family, "CAST({0} AS STRING)"), **_TEXT_FORM}.items()
}
_TAG = Form("CASE WHEN {0} IS NULL THEN {2} ELSE {1} END")
_BESIDE = Form("named_struct('made', {0}, 'given', {1})")


def _row_form(slot: str | None) -> Form:
    parts = ", ".join(
        f"'{name}', {'{1}' if name == slot else f'CAST(NULL AS {kind.spark})'}"
        for name, kind in SLOTS.items()
    )
    return Form(f"named_struct('name', {{0}}, 'value', named_struct({parts}), 'id', {{0}})")


_ROWS = {slot: _row_form(slot) for slot in (None, *SLOTS)}
_OR_ZERO = Form("CASE WHEN {0} IS NULL THEN {2} ELSE {1} END")
# Tells of values that are there and that it makes nothing of.
_FLAGGED = {
    function: Form(f"CASE WHEN NOT {function}_bad({{0}} IS NOT NULL AND ({{1}}) IS NULL) THEN {{1}} END")
    for function in ("featureswithtype", "singlefeaturewithtype")
}
_TRUTH = Form("CASE WHEN lower({0}) = 'true' THEN true WHEN lower({0}) = 'false' THEN false END")
_UTF8 = Form("try_validate_utf8(CAST({0} AS STRING))")
# 2^63, which is no BIGINT any more, would be cast to the greatest one.
_WHOLE_FLOAT = Form(
    "CASE WHEN {0} = rint({0}) AND {0} < 9223372036854775808D THEN try_cast({0} AS {type}) END"
)
_WHOLE_DECIMAL = Form("CASE WHEN {0} = round({0}, 0) THEN try_cast({0} AS {type}) END")
_WHOLE_OF_TEXT = Form(f"CASE WHEN {_WHOLE_TEXT} THEN try_cast({{0}} AS {{type}}) END")
# 0.1, not the 0.10000000149011612 that the nearest FLOAT is.
_AS_WRITTEN = Form("CAST(CAST({0} AS STRING) AS DOUBLE)")
_REAL_OF_TEXT = Form(f"CASE WHEN NOT {SPARK_KNOWS_BETTER} THEN try_cast({{0}} AS {{type}}) END")


def untyped_feature(key: Expr, value: Expr, report: Report) -> Expr | None:
    """Build a feature whose slot follows from the value's type; None, with a finding, when there is none."""
    kind = family(value.type)
    if kind is Family.NULL:
        return _row(key, None, None, report)
    slot = _NUMBERS.get(value.type.spark) or _UNTYPED.get(kind)
    if slot is None:
        report.error(
            "UNSUPPORTED_TYPE",
            value.span,
            f"A feature holds one number, text, truth value, bytes or time, not {describe(value)}.",
        )
        return None
    return _row(key, slot, cast(value, SLOTS[slot]), report)


def typed_feature(key: Expr, value: Expr, kind: Expr, function: str, report: Report) -> Expr | None:
    """Build a row of TRIPLETS: the feature, in the slot that the constant `kind` names, and the value that it
    was made of. None, with a finding, on errors.

    `function`_bad(flag) counts values that its slot cannot hold.
    """
    convert = TYPES.get(str(kind.value)) if isinstance(kind.value, str) else None
    if convert is None:
        names = ", ".join(TYPES)
        suggestion = report.nearest(str(kind.value), TYPES) if kind.value is not None else None
        report.error(
            "UNSUPPORTED_TYPE",
            kind.span,
            "This is not the constant name of a type" + unless(suggestion, f": it is one of {names}"),
            instead_of_constant(kind.span, suggestion),
        )
        return None
    slot, make = convert
    converted = make(value, function)
    if converted is None:
        report.error(
            "UNSUPPORTED_TYPE", value.span, f"{kind.value} does not hold {describe(value)}: cast it first."
        )
        return None
    row = _row(key, slot, converted, report)
    if row is None:
        return None
    given = _origin(value, SLOTS[slot], str(kind.value))
    return call(_BESIDE, TRIPLETS.element, row.span, row, given)


def _origin(value: Expr, slot: Type, kind: str) -> Expr:
    """Build a text that distinguishes values which become the same feature, such as NULL and 0: the value's
    type, and the value where it is not that in the slot.
    """
    tag = f"{kind} {value.type.spark.partition('(')[0]}"
    none = text_constant(kind, STRING, value.span)
    if family(value.type) is Family.NULL:
        return none
    if value.type.spark == slot.spark:
        return call(_TAG, STRING, value.span, value, text_constant(tag, STRING, value.span), none)
    before = text_constant(f"{tag} ", STRING, value.span)
    return call(_TAGGED[family(value.type)], STRING, value.span, value, before, none)


def list_of(features: Sequence[Expr], kind: Array, span: Span) -> Expr:
    """Build the list of a record's features."""
    return call(Op.ARRAY if features else Op.EMPTY_ARRAY, kind, span, *features)


def _row(key: Expr, slot: str | None, value: Expr | None, report: Report) -> Expr | None:
    name = _text(key)
    if name is None:
        report.error(
            "UNSUPPORTED_TYPE", key.span, f"A feature's name is text or a number, not {describe(key)}."
        )
        return None
    return call(_ROWS[slot], FEATURES.element, key.span, name, *(() if value is None else (value,)))


def _text(value: Expr) -> Expr | None:
    kind = family(value.type)
    if kind is Family.TIMESTAMP:
        return call(Op.TEXT_OF_TIME, STRING, value.span, value)
    return cast(value, STRING) if kind in (*_TEXT_OF, Family.NULL) else None


# --- what each named type makes of a value; None when it cannot hold such values ------------------------


def _as_bytes(value: Expr, function: str) -> Expr | None:
    return cast(value, BINARY) if family(value.type) in (Family.BINARY, Family.TEXT, Family.NULL) else None


def _as_text(value: Expr, function: str) -> Expr | None:
    if family(value.type) is Family.BINARY:
        return _flag(call(_UTF8, STRING, value.span, value), value, function)
    return _text(value)


def _as_time(value: Expr, function: str) -> Expr | None:
    accepted = (Family.TIMESTAMP, Family.DATE, Family.NULL)
    return cast(value, TIMESTAMP) if family(value.type) in accepted else None


def _as_truth(value: Expr, function: str) -> Expr | None:
    match family(value.type):
        case Family.BOOLEAN | Family.NULL:
            truth = cast(value, BOOLEAN)
            return _or_zero(truth, truth)
        case Family.TEXT:
            return _or_zero(_flag(call(_TRUTH, BOOLEAN, value.span, value), value, function), value)
    return None


def _whole(kind: Type) -> Callable[[Expr, str], Expr | None]:
    def make(value: Expr, function: str) -> Expr | None:
        forms: Mapping[Family, Form | Op] = {
            Family.INTEGER: Op.CAST, Family.NULL: Op.CAST, Family.NUMBER: _WHOLE_FLOAT,
            Family.DECIMAL: _WHOLE_DECIMAL, Family.TEXT: _WHOLE_OF_TEXT,
        }  # fmt: skip
        form = forms.get(family(value.type))
        if form is None:
            return None
        given = cast(value, BIGINT) if form is Op.CAST else value
        return _or_zero(_flag(call(form, kind, value.span, given), given, function), given)

    return make


def _real(kind: Type) -> Callable[[Expr, str], Expr | None]:
    def make(value: Expr, function: str) -> Expr | None:
        match family(value.type):
            case Family.NUMBER if kind == DOUBLE and value.type == FLOAT:
                return _or_zero(call(_AS_WRITTEN, kind, value.span, value), value)
            case Family.INTEGER | Family.NUMBER | Family.DECIMAL | Family.NULL:
                return _or_zero(call(Op.STRICT_CAST, kind, value.span, value), value)
            case Family.TEXT:
                number = call(_REAL_OF_TEXT, kind, value.span, value)
                return _or_zero(_flag(number, value, function), value)
        return None

    return make


def _or_zero(converted: Expr, value: Expr) -> Expr:
    """Replace NULL values, and only these, by 0 or false."""
    zero = call(Op.FALSE if converted.type is BOOLEAN else Op.ZERO, converted.type, value.span)
    return call(_OR_ZERO, converted.type, value.span, value, converted, zero)


def _flag(converted: Expr, value: Expr, function: str) -> Expr:
    """Count a value whose conversion is NULL as a bad one of the function."""
    return call(_FLAGGED[function], converted.type, value.span, value, converted)


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
