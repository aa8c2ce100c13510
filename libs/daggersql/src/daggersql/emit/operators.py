"""Spark SQL templates of the dialect's operators and aggregates."""

from __future__ import annotations

from collections.abc import Mapping

from daggersql.emit import exact
from daggersql.exact import PARTS
from daggersql.ir.ops import Op

_SUM = exact.total([f"sum({exact.part('CAST({0} AS DOUBLE)', number)})" for number in PARTS])
_MICROS = "extract(SECOND FROM {0}) * 1000000"
_FLOOR = "date_trunc('{name}', {0})"
# Spark's weeks begin on Monday.
_SUNDAY = "(date_trunc('WEEK', {0} + INTERVAL '1' DAY) - INTERVAL '1' DAY)"

TEMPLATES: Mapping[Op, str] = {
    Op.NULL: "NULL",
    Op.TRUE: "TRUE",
    Op.FALSE: "false",
    Op.NOW: "current_timestamp()",
    Op.AND: "({0} AND {1})",
    Op.OR: "({0} OR {1})",
    Op.NOT: "(NOT {0})",
    Op.IS_NULL: "({0} IS NULL)",
    Op.IS_NOT_NULL: "({0} IS NOT NULL)",
    Op.IS_TRUE: "({0} IS TRUE)",
    Op.IS_FALSE: "({0} IS FALSE)",
    Op.EQUAL: "({0} = {1})",
    Op.UNEQUAL: "({0} <> {1})",
    Op.LESS: "({0} < {1})",
    Op.AT_MOST: "({0} <= {1})",
    Op.GREATER: "({0} > {1})",
    Op.AT_LEAST: "({0} >= {1})",
    Op.SAME: "({0} <=> {1})",
    Op.DIFFERENT: "(NOT ({0} <=> {1}))",
    Op.IN: "({0} IN ({rest}))",
    Op.COALESCE: "coalesce({rest})",
    Op.NULL_IF: "nullif({0}, {1})",
    Op.LIKE: "({0} LIKE {1})",
    Op.LIKE_ESCAPE: "({0} LIKE {1} ESCAPE {2})",
    Op.PLAIN_BACKSLASHES: "replace({0}, '\\\\', '\\\\\\\\')",
    Op.MATCHES: "rlike({0}, {1})",
    Op.ADD: "({0} + {1})",
    Op.SUBTRACT: "({0} - {1})",
    Op.MULTIPLY: "({0} * {1})",
    Op.NEGATE: "(- {0})",
    Op.TRY_ADD: "try_add({0}, {1})",
    Op.TRY_SUBTRACT: "try_subtract({0}, {1})",
    Op.TRY_MULTIPLY: "try_multiply({0}, {1})",
    Op.DIVIDE: "try_divide({0}, {1})",
    Op.REMAINDER: "mod({0}, nullif({1}, 0))",
    Op.WHOLE_QUOTIENT: "({0} div {1})",
    # -1 apart: the smallest number divided by it overflows.
    Op.SAFE_WHOLE_QUOTIENT: "CASE WHEN {1} = -1 THEN try_subtract(0, {0}) ELSE {0} div nullif({1}, 0) END",
    Op.CAST: "try_cast({0} AS {type})",
    Op.STRICT_CAST: "CAST({0} AS {type})",
    Op.AS_TEXT: "CAST({0} AS STRING)",
    # As Flink writes a TIMESTAMP(3).
    Op.CUT_TIME: "timestamp_micros(unix_micros({0}) - pmod(unix_micros({0}), {name}))",
    Op.TEXT_OF_TIME: "date_format({0}, 'yyyy-MM-dd HH:mm:ss.SSS')",
    # Arrow takes no text that is no UTF-8: it would end the job where it is written. format_string makes a
    # text of Java of it, and so reads bytes as Java does: an encoded surrogate is one U+FFFD, not three.
    Op.TEXT_OF_BYTES: "CASE WHEN is_valid_utf8(CAST({0} AS STRING)) THEN CAST({0} AS STRING)"
    " WHEN {0} IS NOT NULL THEN format_string('%s', CAST({0} AS STRING)) END",
    Op.TYPED_NULL: "CAST(NULL AS {TYPE})",
    Op.ZERO: "CAST(0 AS {type})",
    Op.CONCAT: "concat({0}, {1})",
    Op.LEFT: "left({0}, {1})",
    Op.FLOOR_TIME: _FLOOR,
    Op.CEIL_TIME: f"CASE WHEN {_FLOOR} = {{0}} THEN {{0}} ELSE timestampadd({{name}}, 1, {_FLOOR}) END",
    Op.FLOOR_TO_WEEK: _SUNDAY,
    Op.CEIL_TO_WEEK: f"CASE WHEN {_SUNDAY} = {{0}} THEN {{0}} ELSE {_SUNDAY} + INTERVAL '7' DAY END",
    Op.LATER_DAY: "CAST(CAST({0} AS TIMESTAMP) + {1} AS DATE)",
    Op.EARLIER_DAY: "CAST(CAST({0} AS TIMESTAMP) - {1} AS DATE)",
    Op.TIME_SECONDS: "unix_seconds({0})",
    Op.TIME_NANOS: "CAST(pmod(unix_micros({0}), 1000000) * 1000 AS INT)",
    Op.DURATION_SECONDS: "(extract(DAY FROM {0}) * 86400L + extract(HOUR FROM {0}) * 3600L"
    " + extract(MINUTE FROM {0}) * 60L + CAST(extract(SECOND FROM {0}) AS BIGINT))",
    Op.DURATION_NANOS: f"CAST({_MICROS} % 1000000 * 1000 AS INT)",
    Op.LATEST: "greatest({0}, {1})",
    Op.ARRAY: "array({rest})",
    Op.MAP: "map({rest})",
    Op.EMPTY_ARRAY: "CAST(array() AS {type})",
    Op.EMPTY_MAP: "CAST(map() AS {type})",
    Op.POSITION: "get({0}, try_cast({1} AS INT) - 1)",
    Op.SAFE_POSITION: "CASE WHEN {1} > 0 THEN get({0}, try_cast({1} AS INT) - 1) END",
    Op.KEY: "try_element_at({0}, {1})",
    Op.KEY_OF_DECIMAL: "CASE WHEN {0} = {1} THEN {1} END",
    Op.KEY_OF_NUMBER: "CASE WHEN {0} = {1} THEN {1} END",
    Op.ENTRIES: "map_entries({0})",
    Op.ROW: "named_struct({rest})",
    Op.COUNT: "count({0})",
    # BIGINT for every whole number: a sum that Flink would let overflow is right here.
    Op.SUM_OF_WHOLE: "try_sum({0})",
    Op.SUM_OF_DECIMALS: "try_sum(CAST({0} AS DECIMAL(28, 6)))",
    Op.SUM_OF_FLOATS: _SUM,
    # The average of whole numbers is whole, as in Flink, cut off towards zero.
    Op.AVERAGE_OF_WHOLE: "CAST(try_sum({0}) div nullif(count({0}), 0) AS {type})",
    Op.AVERAGE_OF_FLOATS: f"({_SUM} / count({{0}}))",
    Op.MIN: "min({0})",
    Op.MAX: "max({0})",
    # NaN is the greatest to Spark, so it is never the least beside a number. Zero has one sign.
    Op.MIN_OF_FLOATS: "(min({0}) + CAST(0 AS {type}))",
    Op.MAX_OF_FLOATS: "(CAST(0 AS {type}) - min(- {0}))",
    Op.STDDEV_POP: "stddev_pop(CAST({0} AS DOUBLE))",
    Op.STDDEV_SAMP: "stddev_samp(CAST({0} AS DOUBLE))",
    Op.VAR_POP: "var_pop(CAST({0} AS DOUBLE))",
    Op.VAR_SAMP: "var_samp(CAST({0} AS DOUBLE))",
    Op.FIRST_VALUE: "min_by({0}, {1})",
    Op.LAST_VALUE: "max_by({0}, {1})",
    Op.GREATEST_ROWS: "max_by({0}, {1}, {2})",
    Op.LEAST_ROWS: "min_by({0}, {1}, {2})",
}
"""{0}, {1} … for the arguments, {rest} for those behind {0}, or all; {type} for the result's; {name}."""

ORIGINALS: Mapping[Op, str] = {
    Op.TEXT_OF_BYTES: "make_valid_utf8(CAST({0} AS STRING))",
    Op.MIN_OF_FLOATS: "min({0})",
    Op.CUT_TIME: "{0}",
    Op.KEY_OF_DECIMAL: "{1}",
    Op.KEY_OF_NUMBER: "{0}",
}
"""Templates as they were before they were mended: fingerprints go by them (ADR 171)."""

BOUNDS: Mapping[str, str] = {
    "START": "`g`.`w`.`start`",
    "END": "`g`.`w`.`end`",
    # The last instant inside: rows of the next window begin at END. Spark knows it as event time.
    "ROWTIME": "window_time(`g`.`w`)",
}
"""The bounds of groups."""
