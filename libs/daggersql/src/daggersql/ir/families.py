"""Families of types that parameters accept, and their names in messages."""

from __future__ import annotations

from enum import Enum, auto

from daggersql.ir.types import INTEGERS, Array, Decimal, EnumText, MapOf, Message, Struct, Type


class Family(Enum):
    """Family of types that a parameter accepts."""

    ANY = auto()
    BOOLEAN = auto()
    INTEGER = auto()
    DECIMAL = auto()
    NUMBER = auto()
    TEXT = auto()
    BINARY = auto()
    TIMESTAMP = auto()
    DATE = auto()
    ARRAY = auto()
    MAP = auto()
    STRUCT = auto()
    INTERVAL = auto()
    CONDITION = auto()
    NULL = auto()


_FAMILIES = {
    "boolean": Family.BOOLEAN, "float": Family.NUMBER, "double": Family.NUMBER, "string": Family.TEXT,
    "binary": Family.BINARY, "date": Family.DATE, "timestamp": Family.TIMESTAMP, "void": Family.NULL,
    "interval": Family.INTERVAL, "interval day to second": Family.INTERVAL, "unknown": Family.NULL,
    "condition": Family.CONDITION,
}  # fmt: skip
WORDS = {
    Family.ANY: "any value",
    Family.BOOLEAN: "a condition",
    Family.INTEGER: "a whole number",
    Family.DECIMAL: "a decimal number",
    Family.NUMBER: "a number",
    Family.TEXT: "text",
    Family.BINARY: "bytes",
    Family.TIMESTAMP: "a timestamp",
    Family.DATE: "a date",
    Family.ARRAY: "a list",
    Family.MAP: "a map",
    Family.STRUCT: "a message",
    Family.INTERVAL: "a span of time",
    Family.CONDITION: "a condition made by CondEq",
    Family.NULL: "NULL",
}


def family(kind: Type) -> Family:
    """Return the family of a type."""
    match kind:
        case Array():
            return Family.ARRAY
        case MapOf():
            return Family.MAP
        case Message() | Struct():
            return Family.STRUCT
        case EnumText():
            return Family.TEXT
        case Decimal():
            return Family.DECIMAL
    return Family.INTEGER if kind in INTEGERS else _FAMILIES[kind.spark]


NUMERIC = frozenset({Family.INTEGER, Family.DECIMAL, Family.NUMBER})
"""Families of numbers."""


def fits(kind: Type, wanted: Family) -> bool:
    """Tell whether a parameter of the family `wanted` accepts a value of this type."""
    own = family(kind)
    return (
        (wanted is Family.ANY and own is not Family.CONDITION)
        or own in (wanted, Family.NULL)
        or (own in (Family.INTEGER, Family.DECIMAL) and wanted is Family.NUMBER)
    )
