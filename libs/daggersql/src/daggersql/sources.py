"""FROM: which stream is read, and under which name."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from daggersql.calls import find_function
from daggersql.findings import Report, Span, nearest
from daggersql.grammar.cursor import span
from daggersql.plan import Table
from daggersql.scope import Source

_FORMATS = {
    "csv", "json", "text", "parquet", "orc", "avro", "binaryfile", "delta", "iceberg", "hudi", "jdbc", "hive",
    "xml", "kafka", "image", "libsvm", "rate", "socket", "statestore", "python", "noop", "file",
}  # fmt: skip


def single(select: exp.Select, tables: Sequence[Table], report: Report) -> Source | None:
    """The one stream that the SELECT reads; None, with findings, when it reads none or more."""
    clause = select.args.get("from_")
    if clause is None:
        first = select.expressions[0]
        report.error(
            "NO_STREAM", span(first), "The query reads no stream: add FROM and a stream's name.", "FROM"
        )
        return None
    source = _source(clause.this, tables, report)
    for join in select.args.get("joins") or ():
        _refuse_join(join, tables, report)
        source = None
    return source


def _source(node: exp.Expr, tables: Sequence[Table], report: Report) -> Source | None:
    place = span(node)
    if isinstance(node, exp.Subquery):
        report.error(
            "UNSUPPORTED_SUBQUERY", place, "A query in FROM is not supported yet: read the stream itself."
        )
        return None
    if isinstance(node, exp.Anonymous):
        if find_function(node.name, place, report) is not None:
            report.error("UNSUPPORTED_FUNCTION", place, f"{node.name} does not give rows to read.")
        return None
    if not isinstance(node, exp.Table) or isinstance(node.this, exp.Anonymous):
        report.error(
            "UNSUPPORTED_WINDOW",
            place,
            "Table functions in FROM are not supported yet: group by TUMBLE or HOP.",
        )
        return None
    table = find_table(node.meta["parts"], tables, report)
    if table is None:
        return None
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        report.error(
            "UNSUPPORTED_CLAUSE", place, "The columns of a stream keep their names: use AS in SELECT."
        )
    return Source(alias.name if alias is not None else table.name, table, "s0")


def find_table(parts: Sequence[exp.Identifier], tables: Sequence[Table], report: Report) -> Table | None:
    """The stream of that name; None, with a finding, when there is none."""
    place: Span = (span(parts[0])[0], span(parts[-1])[1])
    name = ".".join(part.name for part in parts)
    if len(parts) > 1 and (parts[0].name.lower() in _FORMATS or "/" in parts[-1].name):
        report.error("FORBIDDEN_SOURCE", place, "Files and other data sources cannot be read: name a stream.")
        return None
    found = next((table for table in tables if len(parts) == 1 and table.name == name), None)
    if found is None:
        known = [table.name for table in tables]
        suggestion = nearest(name, known)
        hint = f": did you mean {suggestion}?" if suggestion else f": there is {', '.join(known)}."
        report.error("UNKNOWN_TABLE", place, f"The dagger has no stream called {name}{hint}", suggestion)
    return found


def _refuse_join(join: exp.Expr, tables: Sequence[Table], report: Report) -> None:
    kind = join.args.get("kind") or ""
    operator: Span = join.meta["operator"]
    node = join.this
    if isinstance(node, exp.Table) and not isinstance(node.this, exp.Anonymous):
        find_table(node.meta["parts"], tables, report)
    if (
        kind.startswith("LEFT")
        and join.args.get("on") is not None
        and "Between" not in _kinds(join.args["on"])
    ):
        report.error(
            "UNBOUNDED_STATE", operator, "A join without a bound in time remembers every row for ever."
        )
        return
    place = operator if kind == "COMMA" else (span(join)[0], operator[1])
    report.error("UNSUPPORTED_JOIN", place, "Joins are not supported yet: read one stream.")


def _kinds(node: exp.Expr) -> set[str]:
    return {type(each).__name__ for each in node.walk()}
