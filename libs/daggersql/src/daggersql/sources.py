"""Streams by name, and what cannot be read or joined."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from daggersql.findings import Report, Span, nearest
from daggersql.grammar.cursor import span
from daggersql.plan import Table

_FORMATS = {
    "csv", "json", "text", "parquet", "orc", "avro", "binaryfile", "delta", "iceberg", "hudi", "jdbc", "hive",
    "xml", "kafka", "image", "libsvm", "rate", "socket", "statestore", "python", "noop", "file",
}  # fmt: skip


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


def refuse_join(join: exp.Expr, tables: Sequence[Table], report: Report) -> None:
    """Joins are known, and not supported yet: say so, or what will never be."""
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
