"""FROM: which streams and queries, what is unfolded, and what is joined to what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from daggersql.analyse import scope, windows
from daggersql.analyse.callforms import check_rows
from daggersql.analyse.calls import find_function
from daggersql.analyse.expressions import Analyser
from daggersql.analyse.joins import JoinChecker
from daggersql.analyse.scope import Scope, Source
from daggersql.analyse.tablenames import apart, find_table
from daggersql.findings import Report, Span, instead
from daggersql.functions import registry
from daggersql.ir.expr import Expr, ExprKind, Ref, both, call, column
from daggersql.ir.ops import Op
from daggersql.ir.relations import (
    Join,
    Names,
    Projection,
    QueryRelation,
    Relation,
    Stream,
    Unnest,
    ordinality,
)
from daggersql.ir.types import Array, MapOf, Message, Struct, Type
from daggersql.ir.walk import METADATA, tables
from daggersql.limits import Budget
from daggersql.plan import Table
from daggersql.syntax import tree
from daggersql.syntax.cursor import behind, more_names, quote_path, span_of

_INNER, _LEFT = {"", "INNER", "CROSS", "COMMA"}, {"LEFT", "LEFT OUTER"}


@dataclass(frozen=True, slots=True)
class From:
    """A checked FROM."""

    sources: tuple[Source, ...]
    relation: Relation
    where: Expr | None
    """Conditions of its sub-queries."""


class FromChecker:
    """Checks one FROM clause. `source_of` checks a sub-query or finds one under WITH."""

    def __init__(
        self,
        tables: Sequence[Table],
        report: Report,
        budget: Budget,
        names: Names,
        source_of: Callable[[tree.Node], Source | bool | None],
    ) -> None:
        """`source_of` gives False for what is neither."""
        self._tables = tables
        self._report = report
        self._budget = budget
        self._names = names
        self._source_of = source_of

    def check(self, select: tree.Select) -> From | None:
        """Check the clause; None, with findings, when it cannot be used."""
        clause = select.args.get("from_")
        if clause is None:
            span = span_of(select.expressions[0])
            only = f"FROM {quote_path(self._tables[0].name)}" if len(self._tables) == 1 else None
            rewrite = behind(select.expressions[-1], only) if only else "FROM"
            self._report.error("NO_STREAM", span, "The query reads no stream: add FROM.", rewrite)
            return None
        nodes = [clause.this, *(join.this for join in select.args.get("joins") or ())]
        if not apart(nodes, self._report):
            for node in nodes:
                if not isinstance(node, tree.Lateral | tree.Unnest):
                    self._source(node)  # for what else is wrong, and what is read
            return None
        first = self._source(clause.this)
        joined = From((first,), first.relation, first.where) if first else None
        for join in select.args.get("joins") or ():
            joined = self._join(joined, join, select)
        return joined

    # --- one source ------------------------------------------------------------------------------------

    def _source(self, node: tree.Node) -> Source | None:
        span, alias, report = span_of(node), node.args.get("alias"), self._report
        given = self._source_of(node)
        if given is not False:
            return given if isinstance(given, Source) else None
        if isinstance(node, tree.TableFromRows):
            return self._window_table(node)
        if isinstance(node, tree.Lateral | tree.Unnest):
            report.error(
                "UNSUPPORTED_JOIN", span, "Rows are unfolded beside a stream: FROM stream, LATERAL TABLE(…)."
            )
            return None
        if not isinstance(node, tree.Table):
            if find_function(node.name, span, report) is not None:
                report.error("UNSUPPORTED_FUNCTION", span, f"{node.name} does not give rows to read.")
            return None
        if alias is not None and alias.args.get("columns"):
            report.error("UNSUPPORTED_CLAUSE", span, "Columns of a stream keep their names.")
        parts = node.meta["parts"]
        if len(parts) == 1 and parts[0].name in report.environment.unknown:
            name = parts[0].name
            return scope.unknown_stream(alias.name if alias else name, name, self._names.fresh("s"))
        table = find_table(parts, self._tables, report)
        if table is None:
            return None
        return scope.stream(alias.name if alias else table.name, table, self._names.fresh("s"))

    def _window_table(self, node: tree.Node) -> Source | None:
        """TABLE(TUMBLE(TABLE stream, DESCRIPTOR(rowtime), …)): the stream, and the bounds of its windows."""
        function = node.this
        below = self._source(function.expressions[0])
        if below is None:
            return None
        analyser = Analyser(Scope([below], self._report, self._tables, self._budget), self._report)
        if function.name.upper() not in windows.KINDS:
            self._report.error(
                "UNSUPPORTED_WINDOW",
                span_of(function),
                f"{function.name} is not supported: use TUMBLE or HOP.",
            )
            return None
        times = tree.Anonymous(this=function.this, expressions=function.expressions[1:])
        times.meta.update(function.meta)
        read = windows.read_window(times, analyser)
        if read is None:
            return None
        window = replace(read, table=True)
        alias = node.args.get("alias")
        columns = {name: value for name, value in below.columns.items() if name not in METADATA}
        columns |= windows.bounds_as_columns()
        columns |= {name: value for name, value in below.columns.items() if name in METADATA}
        return replace(below, alias=alias.name if alias else below.alias, columns=columns, window=window)

    # --- joins -----------------------------------------------------------------------------------------

    def _join(self, left: From | None, join: tree.Node, select: tree.Select) -> From | None:
        kind, node, operator = join.args.get("kind") or "", join.this, join.meta["operator"]
        unfolds = isinstance(node, tree.Unnest | tree.Lateral)
        span: Span = operator if kind == "COMMA" else (span_of(join)[0], operator[1])
        right = None if unfolds else self._source(node)
        if kind not in _INNER | _LEFT or join.args.get("using"):
            form = "USING: write ON" if kind in _INNER | _LEFT else f"{kind} JOIN: use JOIN or LEFT JOIN"
            self._report.error("UNSUPPORTED_JOIN", span, f"A stream cannot have {form}.")
            return None
        if kind == "CROSS" and not unfolds:
            self._report.error(
                "UNSUPPORTED_JOIN",
                span,
                "Every row with every row has no end: use JOIN … ON a key and a time.",
            )
            return None
        if left is None or (right is not None and self._is_unknown(left.relation, right.relation)):
            return None
        if unfolds:
            return self._unfold(left, join, outer=kind in _LEFT)
        if right is None:
            return None
        if any(source.window for source in (*left.sources, right)):
            self._report.error(
                "UNSUPPORTED_JOIN", span, "Join the streams first, and group the rows by a window then."
            )
            return None
        if isinstance(left.relation, Unnest | Join):
            left = self._project(left)
        outer = kind in _LEFT
        if outer or not isinstance(right.relation, Stream | Projection | QueryRelation):
            right = self._alone(right, outer=outer)
        checker = JoinChecker(
            Scope((*left.sources, right), self._report, self._tables, self._budget), self._report
        )
        relation = checker.check(join, select.args.get("where"), left.relation, right.relation, span)
        if relation is None:
            return None
        return From((*left.sources, right), relation, both(left.where, right.where))

    def _is_unknown(self, *relations: Relation) -> bool:
        """Tell whether a stream without a known schema is read, whose keys and times cannot be checked."""
        return any(table.name in self._report.environment.unknown for table in tables(relations))

    def _alone(self, source: Source, *, outer: bool) -> Source:
        """Make the source a side of a join, whose conditions and columns are computed before the join."""
        plain = all(value.kind is ExprKind.COLUMN for value in source.columns.values())
        single = isinstance(source.relation, Stream | Projection | QueryRelation)
        if single and plain and (source.where is None or not outer):
            return source
        return self._project(From((source,), source.relation, source.where)).sources[0]

    def _project(self, below: From) -> From:
        """Turn the sources of a FROM into one table of its own."""
        name = self._names.fresh("p")
        columns: dict[str, Expr] = {}
        sources = []
        for number, source in enumerate(below.sources):
            above = {}
            for field, value in source.columns.items():
                own = f"{number}.{field}"
                columns[own] = value
                above[field] = column(Ref(name, (own,)), value.type, value.span, value.read)
            sources.append((source, above))
        relation = Projection(below.relation, name, columns, below.where)
        return From(
            tuple(replace(source, columns=above, relation=relation, where=None) for source, above in sources),
            relation,
            None,
        )

    # --- lists unfolded --------------------------------------------------------------------------------

    def _unfold(self, left: From, join: tree.Node, *, outer: bool) -> From | None:
        node, on, report = join.this, join.args.get("on"), self._report
        if on is not None and not (isinstance(on, tree.Boolean) and on.this):
            report.error(
                "UNSUPPORTED_JOIN",
                span_of(on),
                "Unfolded rows belong to their record: write ON TRUE.",
                instead(span_of(on), "TRUE"),
            )
            return None
        if outer and on is None:
            report.error(
                "SYNTAX_ERROR", span_of(node), "LEFT JOIN needs ON TRUE here.", behind(join, "ON TRUE")
            )
            return None
        analyser = Analyser(Scope(left.sources, report, self._tables, self._budget), report)
        if isinstance(node, tree.Lateral):
            value, columns = self._rows_of_function(node.this, analyser)
        else:
            value = analyser.check(node.expressions[0])
            columns = self._elements(value)
        if value is None or value.wrong or columns is None:
            return None
        if value.has_aggregate:
            report.error("AGGREGATE_NOT_ALLOWED", value.span, "FROM goes by single rows.")
            return None
        name = self._names.fresh("u")
        unfolded = Unnest(left.relation, _as_list(value), name, outer)
        of_element = {
            field: column(Ref(name, ("c", *step)), kind, (0, 0)) for field, (step, kind) in columns.items()
        }
        if node.args.get("offset"):
            of_element["ordinality"] = ordinality(name, (0, 0))
        named = self._rename(node, of_element)
        if named is None:
            return None
        alias = node.args.get("alias")
        source = Source(alias.name if alias else "", named, unfolded)
        sources = tuple(replace(source, relation=unfolded) for source in left.sources)
        return From((*sources, source), unfolded, left.where)

    def _rows_of_function(
        self, node: tree.Node, analyser: Analyser
    ) -> tuple[Expr | None, dict[str, tuple[tuple[str, ...], Type]] | None]:
        function = registry.find(node.name)
        if function is not None and function.rows is None:
            self._report.error(
                "UNSUPPORTED_FUNCTION",
                span_of(node),
                f"{node.name} gives a value, not rows: call it in SELECT.",
            )
            return None, None
        value = check_rows(node, analyser)
        rows = function.rows if function is not None else None
        return value, {name: ((name,), kind) for name, kind in rows} if rows else None

    def _elements(self, value: Expr) -> dict[str, tuple[tuple[str, ...], Type]] | None:
        """Map the columns of an element of a list or a map to paths and types."""
        match value.type:
            case Array(element=Message() | Struct() as element):
                return {name: ((name,), kind) for name, kind in element.fields().items()}
            case Array(element=element):
                return {"EXPR$0": ((), element)}
            case MapOf(key=key, value=kind):
                return {"KEY": (("key",), key), "VALUE": (("value",), kind)}
        if not value.wrong:
            self._report.error("TYPE_MISMATCH", value.span, "UNNEST takes a list or a map.")
        return None

    def _rename(self, node: tree.Node, columns: Mapping[str, Expr]) -> dict[str, Expr] | None:
        """Give the columns the names of the alias, all or none; None, with findings, on errors."""
        alias = node.args.get("alias")
        names = alias.args.get("columns") if alias is not None else None
        if alias is None or not names:
            if alias is None or "EXPR$0" not in columns:
                return dict(columns)
            return {alias.name if name == "EXPR$0" else name: value for name, value in columns.items()}
        if len(names) != len(columns):
            given = ", ".join("value" if name == "EXPR$0" else name for name in columns)
            self._report.error(
                "COLUMN_COUNT_MISMATCH",
                (span_of(alias.this)[0], span_of(names[-1])[1]),
                f"An element has {len(columns)} columns ({given}), here are {len(names)} names.",
                more_names(names, given.split(", "), given),
            )
            return None
        for index, name in enumerate(names):
            if name.name in {before.name for before in names[:index]}:
                message = f"Two columns are called {name.name}."
                self._report.object_to("DUPLICATE_COLUMN", span_of(name), message)
        return {name.name: value for name, value in zip(names, columns.values(), strict=True)}


def _as_list(value: Expr) -> Expr:
    """Convert a map to the list of its entries; a list stays."""
    if isinstance(value.type, MapOf):
        return call(Op.ENTRIES, value.type, value.span, value)
    return value
