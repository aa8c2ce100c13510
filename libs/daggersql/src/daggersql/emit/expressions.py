"""Expressions as SQL of Spark: every operator and form is filled into its template here, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal as Exact

from daggerspec.query import quote_name
from daggersql.emit.casts import cast_template
from daggersql.emit.comparisons import comparison_template
from daggersql.emit.operators import BOUNDS, ORIGINALS, TEMPLATES
from daggersql.findings import QueryError
from daggersql.ir.expr import Expr, Ref
from daggersql.ir.ops import Form, Op
from daggersql.ir.types import Decimal
from daggersql.limits import MAX_EMITTED
from daggersql.quoting import quote_text

_ORIGINALLY: ContextVar[bool] = ContextVar("originally", default=False)
_BOUNDED: ContextVar[bool] = ContextVar("bounded", default=False)
_TOO_LONG = "Functions in functions make this too long for Spark: nest fewer of them."


def sql(expression: Expr) -> str:
    """Write an expression in Spark SQL; within `originally`, by the templates before corrections."""
    originally = _ORIGINALLY.get()
    slot = "spelt_originally" if originally else "spelt"
    if getattr(expression, slot) is None:
        # Without recursion: columns of sub-queries are replaced by whole expressions, so trees may be deep.
        stack, ordered = [expression], []
        while stack:
            node = stack.pop()
            ordered.append(node)
            stack += [argument for argument in node.args if getattr(argument, slot) is None]
        for node in reversed(ordered):
            texts = [getattr(argument, slot) or "" for argument in node.args]
            text = _spell(node, texts, originally=originally)
            if len(text) > MAX_EMITTED and _BOUNDED.get():
                raise QueryError("QUERY_TOO_LARGE", node.span, _TOO_LONG)
            object.__setattr__(node, slot, text)
    spelt: str | None = getattr(expression, slot)
    assert spelt is not None
    return spelt


@contextmanager
def length_limit(*, bound: bool) -> Iterator[None]:
    """Let `sql` refuse an expression as soon as its text is too long, before it takes memory.

    Raises: QueryError QUERY_TOO_LARGE.
    """
    token = _BOUNDED.set(bound)
    try:
        yield
    finally:
        _BOUNDED.reset(token)


@contextmanager
def originally() -> Iterator[None]:
    """Let `sql` write every form as it was before it was mended.

    The fingerprint of state goes by that: a mended form does not make running daggers begin anew (ADR 171).
    """
    token = _ORIGINALLY.set(True)
    try:
        yield
    finally:
        _ORIGINALLY.reset(token)


def original_sql(expression: Expr) -> str:
    """Write an expression by the templates before corrections, to identify and order expressions."""
    with originally():
        return sql(expression)


def column(ref: Ref) -> str:
    """Write a column in Spark SQL."""
    return ".".join(quote_name(name) for name in (ref.relation, *ref.path))


def _spell(node: Expr, texts: list[str], *, originally: bool) -> str:
    """Write an expression, from the texts of its arguments."""
    match node.op:
        case Op.COLUMN:
            assert node.ref is not None
            return column(node.ref)
        case Op.CONSTANT:
            return _constant(node)
        case Op.BOUND:
            assert node.ref is not None
            return BOUNDS[node.ref.path[-1]]
        case Op.VARIABLE:
            return node.name
        case Op.FIELD:
            return f"{texts[0]}.{quote_name(node.name)}"
        case Op.CASE:
            return _case(texts)
        case Form() as form:
            template = form.original if originally and form.original else form.template
            return _fill(template, texts, node, form.separator)
        case Op() as op:
            return _fill(_template(op, node, originally=originally), texts, node)


def _template(op: Op, node: Expr, *, originally: bool) -> str:
    """Return the template of an operator, which may depend on the types of its arguments."""
    if originally:
        return ORIGINALS.get(op, TEMPLATES[op])
    if op is Op.CAST:
        return cast_template(node)
    return comparison_template(node) or TEMPLATES[op]


def _fill(template: str, texts: list[str], node: Expr, separator: str = ", ") -> str:
    words: dict[str, str] = {}
    if "{rest}" in template:
        words["rest"] = separator.join(texts[1:] if "{0}" in template else texts)
    if "{type}" in template:
        words["type"] = node.type.spark
    if "{TYPE}" in template:
        words["TYPE"] = node.type.spark.upper()
    return template.format(*texts, name=node.name, **words)


def _case(texts: list[str]) -> str:
    """Write CASE; `texts`: all conditions, then the value of each, then that of ELSE."""
    count = len(texts) // 2
    whens = "".join(f" WHEN {texts[index]} THEN {texts[count + index]}" for index in range(count))
    default = f" ELSE {texts[-1]}" if len(texts) % 2 else ""
    return f"CASE{whens}{default} END"


# --- constants ------------------------------------------------------------------------------------------


def _constant(node: Expr) -> str:
    if node.literal is None:
        return "NULL"
    write = _exact if isinstance(node.type, Decimal) else _LITERALS.get(node.type.spark, quote_text)
    text = write(node.literal.text)
    for _ in range(node.literal.minus):
        text = f"(-{text})"
    return text


def _exact(digits: str) -> str:
    return f"{Exact(digits):f}BD"


def _interval(micros: str) -> str:
    sign, number = ("-", -int(micros)) if micros.startswith("-") else ("", int(micros))
    return f"INTERVAL '{sign}{number // 1_000_000}.{number % 1_000_000:06d}' SECOND"


_LITERALS: Mapping[str, Callable[[str], str]] = {
    "boolean": str.upper,
    "int": str,
    "bigint": lambda digits: f"{digits}L",
    "double": lambda digits: f"{float(digits)!r}D",
    "binary": lambda digits: f"X'{digits}'",
    "date": lambda text: f"DATE'{text}'",
    "timestamp": lambda text: f"TIMESTAMP'{text}Z'",
    "interval": _interval,
}
