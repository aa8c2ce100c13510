"""Casts that mean something else to Spark than to the dialect: times of texts, whole numbers at an edge."""

from __future__ import annotations

from daggersql.emit.operators import TEMPLATES
from daggersql.ir.expr import AS_WRITTEN, Expr
from daggersql.ir.families import Family, family
from daggersql.ir.ops import Op
from daggersql.ir.types import BIGINT, DATE, DOUBLE, FLOAT, INT, TIMESTAMP

# Spark puts the day of the batch before a time without one, and knows words such as `now` and `today`.
_WITH_A_DAY = "^\\\\s*[0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}"
_WITH_A_YEAR = "^\\\\s*[0-9]{{4}}([^0-9]|$)"
_TIME_OF_TEXT = f"CASE WHEN rlike({{0}}, '{_WITH_A_DAY}') THEN try_cast({{0}} AS {{type}}) END"
_DAY_OF_TEXT = f"CASE WHEN rlike({{0}}, '{_WITH_A_YEAR}') THEN try_cast({{0}} AS {{type}}) END"
# The greatest BIGINT is no float: Spark takes 2^63, the next one, for it.
_BIGINT_OF_FLOAT = "CASE WHEN {0} < 9.223372036854775807E18D THEN try_cast({0} AS {type}) END"
# In the same way, the greatest INT is no FLOAT.
_INT_OF_FLOAT = "try_cast(CAST({0} AS DOUBLE) AS {type})"
CAST_TEMPLATES = (_TIME_OF_TEXT, _DAY_OF_TEXT, _BIGINT_OF_FLOAT, _INT_OF_FLOAT)
"""For the list of functions of Spark that emitted SQL may call."""


def cast_template(node: Expr) -> str:
    """Return the template of a cast that is NULL where the type has no such value."""
    (given,) = node.args
    if family(given.type) is Family.TEXT and node.name != AS_WRITTEN:
        if node.type == DATE:
            return _DAY_OF_TEXT
        if node.type.spark == TIMESTAMP.spark:
            return _TIME_OF_TEXT
    if given.type in (FLOAT, DOUBLE) and node.type == BIGINT:
        return _BIGINT_OF_FLOAT
    if given.type == FLOAT and node.type == INT:
        return _INT_OF_FLOAT
    return TEMPLATES[Op.CAST]
