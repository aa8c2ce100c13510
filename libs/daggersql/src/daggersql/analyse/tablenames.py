"""Names of the tables of FROM: unique ones, and those of streams."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span, instead, unless
from daggersql.plan import Table
from daggersql.syntax import tree
from daggersql.syntax.cursor import quote_path, span_of

_FORMATS = {
    "csv", "json", "text", "parquet", "orc", "avro", "binaryfile", "delta", "iceberg", "hudi", "jdbc", "hive",
    "xml", "kafka", "image", "libsvm", "rate", "socket", "statestore", "python", "noop", "file",
}  # fmt: skip


def apart(nodes: Sequence[tree.Node], report: Report) -> bool:
    """Report tables of the same name, as columns could be of either; False if there are any."""
    seen: set[str] = set()
    fine = True
    for node in nodes:
        name = name_of(node)
        if name in seen:
            fine = False
            report.error(
                "DUPLICATE_TABLE",
                span_of(node),
                f"FROM has {name} twice: give one another name.",
                f"{name}_2",
            )
        seen |= {name} if name else set()
    return fine


def name_of(node: tree.Node) -> str:
    """Return the query's name of a table; empty when it has none."""
    alias = node.args.get("alias")
    if alias is not None:
        return str(alias.name)
    if isinstance(node, tree.TableFromRows):
        return name_of(node.this.expressions[0])
    return str(node.meta["parts"][-1].name) if isinstance(node, tree.Table) else ""


def find_table(parts: Sequence[tree.Identifier], tables: Sequence[Table], report: Report) -> Table | None:
    """Find a stream by its name; None, with a finding, when there is none."""
    span: Span = (span_of(parts[0])[0], span_of(parts[-1])[1])
    name = ".".join(part.name for part in parts)
    if len(parts) > 1 and (parts[0].name.lower() in _FORMATS or "/" in parts[-1].name):
        report.error("FORBIDDEN_SOURCE", span, "Files and other data sources cannot be read: name a stream.")
        return None
    stream = next((table for table in tables if len(parts) == 1 and table.name == name), None)
    if stream is None:
        names = [*(table.name for table in tables), *sorted(report.environment.unknown)]
        suggestion = report.nearest(name, names)
        report.error(
            "UNKNOWN_TABLE",
            span,
            f"The dagger has no stream called {name}" + unless(suggestion, f": there is {', '.join(names)}"),
            instead(span, suggestion and quote_path(suggestion)),
        )
    return stream
