"""Operators and aggregates of the dialect, and the forms of its functions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Op(Enum):
    """Operator of the dialect; `daggersql.emit.operators` has its SQL."""

    # Leaves.
    COLUMN = auto()
    CONSTANT = auto()
    BOUND = auto()
    """Bound of the query's window: START, END or ROWTIME."""
    VARIABLE = auto()
    """Variable of a lambda, in the templates of functions."""
    NULL = auto()
    """NULL of a known type, such as the placeholder of a condition with an error."""
    TRUE = auto()
    FALSE = auto()
    NOW = auto()
    """Time of the batch."""
    # Conditions.
    AND = auto()
    OR = auto()
    NOT = auto()
    IS_NULL = auto()
    IS_NOT_NULL = auto()
    IS_TRUE = auto()
    IS_FALSE = auto()
    EQUAL = auto()
    UNEQUAL = auto()
    LESS = auto()
    AT_MOST = auto()
    GREATER = auto()
    AT_LEAST = auto()
    SAME = auto()
    """Equal, and NULL is the same as NULL."""
    DIFFERENT = auto()
    IN = auto()
    COALESCE = auto()
    NULL_IF = auto()
    LIKE = auto()
    LIKE_ESCAPE = auto()
    PLAIN_BACKSLASHES = auto()
    """LIKE pattern in which backslashes are plain characters."""
    MATCHES = auto()
    CASE = auto()
    """All conditions, then the value of each, then that of ELSE, if there is one."""
    # Numbers; the TRY_ ones give NULL for an overflow.
    ADD = auto()
    SUBTRACT = auto()
    MULTIPLY = auto()
    NEGATE = auto()
    TRY_ADD = auto()
    TRY_SUBTRACT = auto()
    TRY_MULTIPLY = auto()
    DIVIDE = auto()
    REMAINDER = auto()
    WHOLE_QUOTIENT = auto()
    """By a constant that is neither 0 nor -1."""
    SAFE_WHOLE_QUOTIENT = auto()
    # Types.
    CAST = auto()
    """NULL where there is no counterpart."""
    STRICT_CAST = auto()
    """Of what always has a counterpart."""
    AS_TEXT = auto()
    CUT_TIME = auto()
    """A time without its last digits: `name` microseconds are left whole."""
    TEXT_OF_TIME = auto()
    TEXT_OF_BYTES = auto()
    TYPED_NULL = auto()
    ZERO = auto()
    # Text.
    CONCAT = auto()
    LEFT = auto()
    # Times; units are the expression's `name`.
    FLOOR_TIME = auto()
    CEIL_TIME = auto()
    FLOOR_TO_WEEK = auto()
    CEIL_TO_WEEK = auto()
    """To a Sunday."""
    LATER_DAY = auto()
    EARLIER_DAY = auto()
    """A date, some whole days away."""
    TIME_SECONDS = auto()
    TIME_NANOS = auto()
    DURATION_SECONDS = auto()
    DURATION_NANOS = auto()
    LATEST = auto()
    # Messages, lists and maps.
    FIELD = auto()
    ARRAY = auto()
    MAP = auto()
    EMPTY_ARRAY = auto()
    EMPTY_MAP = auto()
    POSITION = auto()
    """By a constant, counted from 1."""
    SAFE_POSITION = auto()
    KEY = auto()
    KEY_OF_DECIMAL = auto()
    """The key of a map that is equal to a decimal; NULL where its type has none."""
    KEY_OF_NUMBER = auto()
    """Key of a map that is equal to a number that is no decimal; NULL where its type has none."""
    ENTRIES = auto()
    ROW = auto()
    """Constants and values in turn: the names and parts of a struct."""
    # Aggregates.
    COUNT = auto()
    SUM_OF_WHOLE = auto()
    SUM_OF_DECIMALS = auto()
    SUM_OF_FLOATS = auto()
    AVERAGE_OF_WHOLE = auto()
    AVERAGE_OF_FLOATS = auto()
    MIN = auto()
    MAX = auto()
    MIN_OF_FLOATS = auto()
    """The least number; NaN where there is nothing else."""
    MAX_OF_FLOATS = auto()
    """The greatest number; NaN where there is nothing else."""
    STDDEV_POP = auto()
    STDDEV_SAMP = auto()
    VAR_POP = auto()
    VAR_SAMP = auto()
    FIRST_VALUE = auto()
    LAST_VALUE = auto()
    GREATEST_ROWS = auto()
    """A list of rows, by another row each, the greatest first; how many is a constant."""
    LEAST_ROWS = auto()


@dataclass(frozen=True, slots=True)
class Keeps:
    """State of an aggregate that grows with the values of a group."""

    kind: str
    """list or distinct."""
    name: str
    """Name in messages, unless it is a function of our own."""
    ends: bool
    """True: a group beyond the bound ends the dagger; False: its result is NULL."""


@dataclass(frozen=True, slots=True)
class Form:
    """One way to call a function, declared in the function's own file; only `daggersql.emit` reads its
    template."""

    template: str
    """{0}, {1} … for the arguments, {rest} for those from the last one on, {type} for the result's type."""
    separator: str = ", "
    """Separator of the arguments of {rest}."""
    total: bool = False
    """True if it is NULL only where an argument is, overflows apart."""
    of_now: bool = False
    """True if it depends on the time of the batch."""
    keeps: Keeps | None = None
    original: str = ""
    """Template before a correction, if there was one: fingerprints of state use it (ADR 171)."""
