"""Expressions made of functions in functions, from a seed: whatever the check takes of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

from tests.conformance.expressions.answers import checked_query

from daggersql.functions import registry
from daggersql.functions.signature import Function
from daggersql.ir.families import Family

RECORDS: Final[tuple[Mapping[str, Any], ...]] = (
    {},
    {"s1": "abc", "s2": "2024-02-29 12:34:56", "s3": "x", "i1": 1, "i2": 2, "i3": 3, "l1": 7, "d1": 1.5,
     "f1": 2.5, "t1": "2024-02-29T12:34:56.789Z", "t2": "1969-12-31T23:59:59.5Z", "ls": ["a", "", "b"],
     "ld": [1.0, "NaN"], "ms": {"a": "1"}, "u1": 2**64 - 1, "by": "7aCA", "w1": 5, "b1": True},
    {"s1": '{"a":{"b":[1,"x"]},"c":null}', "s2": "-1.5e3", "s3": "", "i1": -(2**31), "i2": -1, "i3": 0,
     "l1": -(2**63), "l2": -1, "d1": "NaN", "d2": "-Infinity", "d3": -0.0, "f1": "NaN",
     "t1": "0001-01-01T00:00:00Z", "t2": "9999-12-31T23:59:59.999999Z", "by": "AP8=",
     "ld": ["Infinity", -0.0]},
    {"s1": "a\0b\n𝄞é", "s2": "http://u@h/p?k=v#r", "i1": 2**31 - 1, "i2": 2**31 - 1, "l1": 2**63 - 1,
     "l2": 2**63 - 1, "d1": 1.7976931348623157e308, "d2": 5e-324, "f1": 3.4e38,
     "t1": "1582-10-10T00:00:00Z", "u1": 1},
)  # fmt: skip
"""What they are over: nothing, ordinary values, and edges."""
_COLUMNS: Final = (
    "s1", "s2", "s3", "i1", "i2", "i3", "l1", "l2", "d1", "d2", "d3", "f1", "b1", "t1", "t2", "ls", "ld",
    "ms", "u1", "`by`", "w1", "rowtime",
)  # fmt: skip
_CONSTANTS: Final = (
    "0", "1", "2", "3", "-1", "13", "2147483647", "-2147483648", "9223372036854775807", "1.5", "-0.001",
    "1e300", "''", "'a'", "','", "'$.a'", "'[0-9]+'", "'(a)|(b)'", "'UTC'", "'Asia/Jakarta'",
    "'yyyy-MM-dd'", "'HOST'", "'N'", "NULL", "TRUE", "FALSE", "DATE '2024-02-29'",
    "TIMESTAMP '1969-12-31 23:59:59'", "X'00ff'", "ARRAY[1, NULL]",
)  # fmt: skip
_OPERATORS: Final = (
    "({0} {sign} {1})", "({0} {sign} {1})", "({0} || {1})", "({0} {than} {1})", "NOT ({0})", "(- {0})",
    "({0} IS DISTINCT FROM {1})", "({0} BETWEEN {1} AND {2})", "({0} IN ({1}, {2}))", "({0} LIKE {1})",
    "CASE WHEN {0} THEN {1} ELSE {2} END", "CAST({0} AS {type})", "({0} IS NULL)", "IF({0}, {1}, {2})",
    "({0} + INTERVAL '36500' DAY)", "({0} - INTERVAL '1' SECOND)", "{0}[{1}]", "EXTRACT({part} FROM {0})",
    "FLOOR({0} TO {unit})", "CEIL({0} TO {unit})", "TIMESTAMPADD({long}, {0}, {1})", "ARRAY[{0}, {1}]",
    "TIMESTAMPDIFF({long}, {0}, {1})", "TRIM(BOTH {0} FROM {1})",
    "OVERLAY({0} PLACING {1} FROM {2} FOR 2)", "SUBSTRING({0} FROM {1} FOR {2})",
    "JSON_VALUE({0}, '$.a' RETURNING {type} DEFAULT {1} ON EMPTY NULL ON ERROR)",
)  # fmt: skip
_WORDS: Final = {
    "sign": ("+", "-", "*", "/", "%"),
    "than": ("<", "<=", "=", "<>", ">=", ">"),
    "type": ("INT", "BIGINT", "DOUBLE", "FLOAT", "STRING", "DECIMAL(20, 5)", "TIMESTAMP(3)", "DATE", "BYTES"),
    "unit": ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "SECOND", "MILLISECOND"),
    "part": ("YEAR", "WEEK", "DOY", "DOW", "HOUR", "SECOND"),
    "long": ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "SECOND"),
}
_LONGEST: Final = 600
_OF_NOW: Final = ("PROCTIME", "NOW", "CURRENT", "LOCAL", "UNIX_TIMESTAMP()")
"""With what is named so no two runs are the same."""
_FUNCTIONS: Final = tuple(
    each
    for each in registry.callable_functions()
    if not (each.aggregate or each.rows or each.name.startswith(("Dart", *_OF_NOW)))
)


def expressions(seed: int, count: int) -> Iterator[str]:
    """So many different ones; later ones are made of earlier ones, which the check has taken."""
    rng = Random(seed)
    pool: dict[str, list[str]] = defaultdict(list)
    for leaf in _COLUMNS:
        _take(leaf, pool)
    seen: set[str] = set()
    while len(seen) < count:
        made = _made(rng, pool)
        if len(made) < _LONGEST and made not in seen and _take(made, pool):
            seen.add(made)
            yield made


def _take(made: str, pool: dict[str, list[str]]) -> bool:
    """Keep what the check takes, by its type."""
    plan = checked_query([made]).plan
    if plan is None:
        return False
    (_, column) = plan.columns
    pool[column.type.partition("(")[0].partition("<")[0]].append(made)
    return True


_TYPES: Final[Mapping[Family, tuple[str, ...]]] = {
    Family.BOOLEAN: ("boolean",),
    Family.INTEGER: ("int", "bigint", "tinyint"),
    Family.DECIMAL: ("decimal",),
    Family.NUMBER: ("double", "float", "int", "bigint", "decimal"),
    Family.TEXT: ("string",),
    Family.BINARY: ("binary",),
    Family.TIMESTAMP: ("timestamp",),
    Family.DATE: ("date",),
    Family.ARRAY: ("array",),
    Family.MAP: ("map",),
}


def _made(rng: Random, pool: Mapping[str, list[str]]) -> str:
    """A call, or an operator, over what is there."""
    if rng.random() < 0.35:
        words = {name: rng.choice(choices) for name, choices in _WORDS.items()}
        return rng.choice(_OPERATORS).format(*(_argument(rng, pool, None) for _ in range(3)), **words)
    function: Function = rng.choice(_FUNCTIONS)
    signature = rng.choice(function.signatures)
    given = [_argument(rng, pool, family) for family in signature.parameters]
    if signature.variadic:
        given += [_argument(rng, pool, signature.parameters[-1]) for _ in range(rng.randrange(2))]
    call = f"{function.name}({', '.join(given)})"
    return "PI()" if call in _OF_NOW else call


def _argument(rng: Random, pool: Mapping[str, list[str]], family: Family | None) -> str:
    if rng.random() < 0.3:
        return rng.choice(_CONSTANTS)
    types = [kind for kind in _TYPES.get(family, ()) if pool.get(kind)] if family else []
    kind = rng.choice(types or sorted(pool))
    # What was made last is nested the deepest.
    of_kind = pool[kind]
    return of_kind[-1 - int(rng.random() ** 2 * len(of_kind))]
