"""Groups in two steps: whoever reads a stream adds up records of a pane that agree, Spark adds up the sums.

It can be where the groups of one stream are counted, added up, or searched for their least and greatest, and
all else that the query looks at are plain columns or functions that the reader knows. The answers are the
same; a row for thousands of records takes the way into the JVM, not each of them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from math import gcd

from daggerspec.query import quote_name
from daggersql.emit import exact, queries
from daggersql.emit.expressions import originally, sql
from daggersql.emit.stages import Stages
from daggersql.exact import PARTS
from daggersql.functions import registry
from daggersql.ir import closing, gates
from daggersql.ir.conditions import equalities
from daggersql.ir.expr import Expr, ExprKind, Ref, call, column
from daggersql.ir.families import Family, family
from daggersql.ir.ops import Form, Op
from daggersql.ir.relations import Result, Select, Stream
from daggersql.ir.types import BIGINT, DOUBLE, FLOAT, INTEGERS, ROWTIME, Type
from daggersql.ir.walk import METADATA, columns_in, over_groups
from daggersql.plan import Call, Constant, Field, Part, Partial, PartialAggregation, StagedQuery, Value

_GROUPED = frozenset(
    {Family.BOOLEAN, Family.INTEGER, Family.NUMBER, Family.TEXT, Family.BINARY, Family.TIMESTAMP}
)
_NUMBERS = (*INTEGERS, FLOAT, DOUBLE)
_MILLISECOND = timedelta(milliseconds=1)


class _ImpossibleError(Exception):
    """This query needs every record."""


def aggregation(query: Result) -> tuple[PartialAggregation | None, str | None]:
    """Rewrite a query for rows that the reader has aggregated.

    Returns it, and the text of its state for `queries.fingerprint`; both None where it needs every record.
    """
    windowed = gates.find_windowed_stream(query)
    if windowed is None:
        return None, None
    select, stream = windowed
    try:
        with originally():
            _, state = _Columns(select).aggregation(stream)
        result, _ = _Columns(select).aggregation(stream)
    except _ImpossibleError:
        return None, None
    return result, state


class _Columns:
    """The columns that rows which were added up must have, found while the query is put in their terms."""

    def __init__(self, select: Select) -> None:
        self._select = select
        self._keys: dict[Value, str] = {}
        self._partials: dict[Partial, str] = {}
        equal = equalities(select)
        # The reader drops rows that are not equal. With further conditions in WHERE, rows that these drop
        # are still there, and arguments that functions cannot use must not be counted in those.
        self._all_wanted = None not in equal

    def aggregation(self, stream: Stream) -> tuple[PartialAggregation, str]:
        select = self._select
        assert select.window is not None
        keys = [self._over(key, "s") for key in select.keys]
        merged = [self._aggregate(aggregate) for aggregate in select.aggregates]
        where = ""
        if select.where is not None and not self._all_wanted:
            where = f" WHERE {sql(self._over(select.where, 's'))}"
        columns = [*self._keys.values(), *self._partials.values(), "n"]
        inner = {f"k{index}": f"{sql(key)} AS `k{index}`" for index, key in enumerate(keys)}
        inner |= {"t": "`s`.`rowtime` AS `t`"} | {name: f"`s`.`{name}`" for name in columns}
        inner |= queries.columns_of_gates(select.window.window, replace(stream, name="s"))
        source = f"{quote_name(stream.table.name)} AS `s`{where}"
        window = select.window.window

        def groups(stages: Stages | None = None) -> str:
            late = stages.late(replace(stream, name="s"), window) if stages is not None else {}
            constants = [f"k{index}" for index, key in enumerate(keys) if not columns_in([key])]
            rows = queries.rows_of(inner, source, stages, late, constants=constants, weight="n")
            named = [f"{text} AS `a{index}`" for index, text in enumerate(merged)]
            return queries.group_rows(window, rows, [f"k{index}" for index in range(len(keys))], named)

        text = groups()
        called = {node.function for top in over_groups(select) for node in top.nodes()}
        stages = None if closing.is_counted_where_read(select) else Stages(closing.closing(select))
        pane = gcd(window.size // _MILLISECOND, window.slide // _MILLISECOND)
        result = PartialAggregation(
            spark_sql=queries.spark_sql(select, text),
            pane=pane * _MILLISECOND,
            keys=tuple(self._keys),
            partials=tuple(self._partials),
            functions=tuple(sorted(name for name in called if name)),
            staged=None
            if stages is None
            else StagedQuery(queries.spark_sql(select, groups(stages)), tuple(stages.found)),
        )
        wanted = sql(select.where) if select.where else ""
        return result, json.dumps([text, wanted, repr(result.keys), repr(result.partials)])

    def _over(self, expression: Expr, alias: str) -> Expr:
        """Rewrite an expression for the columns of the view `alias`."""

        def change(part: Expr) -> Expr | None:
            value = self._value(part)
            if value is not None:
                return self._key(part, value, alias)
            if part.kind is ExprKind.COLUMN or part.function:
                raise _ImpossibleError
            return part if part.is_constant else None

        return expression.rebuild(change)

    def _key(self, of: Expr, value: Value, alias: str) -> Expr:
        """Add a key to the view, by whose value records are aggregated; return its column."""
        name = self._keys.setdefault(value, f"c{len(self._keys)}")
        return column(Ref(alias, (name,)), of.type, of.span)

    def _partial(self, function: str, value: Value, kind: Type) -> str:
        """Add a partial aggregate to the view; return its column as SQL."""
        wanted = Partial(function, value, kind.spark)
        name = self._partials.setdefault(wanted, f"p{len(self._partials)}")
        return f"`r`.`{name}`"

    def _value(self, expression: Expr) -> Value | None:
        """Convert an expression to a value that the reader can compute; None when it cannot."""
        if expression.kind is ExprKind.COLUMN:
            if expression.read is None or family(expression.type) not in _GROUPED:
                return None
            path = expression.read[1]
            # Records have the time of their pane, and each has a place of its own.
            return None if expression.type == ROWTIME or path in METADATA else Field(path)
        if expression.function and self._all_wanted:
            return self._call(expression.function, expression)
        return None

    def _call(self, name: str, expression: Expr) -> Value | None:
        function = registry.find(name)
        for signature in function.signatures if function else ():
            if signature.computed and signature.form == expression.op:
                arguments = [
                    self._argument(argument, to)
                    for argument, to in zip(expression.args, signature.computed, strict=True)
                ]
                if None in arguments:
                    return None
                return Call(
                    name,
                    tuple(argument for argument in arguments if argument is not None),
                    tuple(kind.spark for kind in signature.computed),
                    expression.type.spark,
                )
        return None

    def _argument(self, expression: Expr, to: Type) -> Value | None:
        """Convert an argument if Arrow casts it as Spark does; None otherwise."""
        if expression.is_constant and isinstance(expression.value, int | float):
            return Constant(float(expression.value) if to == DOUBLE else expression.value)
        if expression.type == to or (to == DOUBLE and expression.type in _NUMBERS):
            return self._value(expression)
        return None

    def _aggregate(self, expression: Expr) -> str:
        """Rewrite an aggregate of records for aggregated rows."""
        if len(expression.args) != 1:
            raise _ImpossibleError
        return self._merge(expression.op, expression.args[0])

    def _exact_sum(self, value: Value) -> str:
        return exact.total([f"sum({self._partial('sum', Part(value, number), DOUBLE)})" for number in PARTS])

    def _merge(self, op: Op | Form, argument: Expr) -> str:
        value = self._value(argument)
        whole, real = argument.type in INTEGERS, argument.type in (FLOAT, DOUBLE)
        match op:
            case Op.COUNT if argument.is_constant and argument.value is not None:
                return "sum(`r`.`n`)"
            case Op.COUNT if value is not None:
                return f"coalesce(sum({self._partial('count', value, BIGINT)}), 0)"
            case Op.COUNT:
                count = f"CASE WHEN {sql(self._over(argument, 'r'))} IS NOT NULL THEN `r`.`n` END"
                return f"coalesce(sum({count}), 0)"
            case Op.SUM_OF_WHOLE if whole and value is not None:
                return f"try_sum({self._partial('sum', value, BIGINT)})"
            case Op.SUM_OF_WHOLE if whole and argument.type != BIGINT:
                return f"try_sum(CAST({sql(self._over(argument, 'r'))} AS BIGINT) * `r`.`n`)"
            case Op.SUM_OF_FLOATS if real and value is not None:
                return self._exact_sum(value)
            case Op.AVERAGE_OF_FLOATS if real and value is not None:
                return f"({self._exact_sum(value)} / sum({self._partial('count', value, BIGINT)}))"
            case Op.MIN | Op.MAX if whole and value is not None:
                name = "min" if op is Op.MIN else "max"
                return f"{name}({self._partial(name, value, argument.type)})"
            case Op.MIN | Op.MAX | Op.MIN_OF_FLOATS | Op.MAX_OF_FLOATS:
                return sql(call(op, argument.type, argument.span, self._over(argument, "r")))
            case Op.AVERAGE_OF_WHOLE if whole and value is not None:
                total, count = self._partial("sum", value, BIGINT), self._partial("count", value, BIGINT)
                return f"CAST(try_sum({total}) div nullif(sum({count}), 0) AS {argument.type.spark})"
        raise _ImpossibleError
