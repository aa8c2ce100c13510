"""Checks expressions: from the grammar's tree to typed ones. A node that no rule here knows is refused.

All mistakes are said, each once: what is wrong already fits everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from daggersql.analyse import casts, literals, topn, windows
from daggersql.analyse.calls import call_function, find_function
from daggersql.analyse.scope import Scope
from daggersql.analyse.similar import similar
from daggersql.analyse.units import unit_of_time
from daggersql.findings import Report, Span, Suggestion
from daggersql.functions import names, once, registry
from daggersql.functions.distinct import COUNT_DISTINCT
from daggersql.functions.general import WITHOUT_BRACKETS
from daggersql.functions.times import BY_UNIT
from daggersql.ir.expr import Expr, both, call, constant, null, text_constant, wrong
from daggersql.ir.ops import Op
from daggersql.ir.relations import GroupWindow
from daggersql.ir.types import (
    BOOLEAN,
    INT,
    STRING,
    TIMESTAMP,
)
from daggersql.operators import arithmetic, collections, comparisons
from daggersql.operators.arithmetic import warn_of_whole
from daggersql.operators.coercion import choose, condition
from daggersql.syntax import tree, units
from daggersql.syntax.cursor import span

_SIGNS: dict[type[tree.Node], str] = {
    tree.Add: "+",
    tree.Sub: "-",
    tree.Mul: "*",
    tree.Div: "/",
    tree.Mod: "%",
}
_COMPARISONS: dict[type[tree.Node], str] = {
    tree.EQ: "=", tree.NEQ: "<>", tree.LT: "<", tree.LTE: "<=", tree.GT: ">", tree.GTE: ">=",
    tree.NullSafeEQ: "<=>", tree.NullSafeNEQ: "!<=>",
}  # fmt: skip
_BY_TIME = {"FIRST_VALUE": Op.FIRST_VALUE, "LAST_VALUE": Op.LAST_VALUE}


class Analyser:
    """Checks the expressions of one SELECT; `window` is what it groups by, if anything."""

    def __init__(
        self,
        scope: Scope,
        report: Report,
        window: GroupWindow | None = None,
        *,
        has_group: bool = False,
        group_by: Callable[[], Suggestion] = lambda: None,
    ) -> None:
        """`has_group`: whether the SELECT has a GROUP BY; `group_by`: how it gets one, where it has none."""
        self.has_group = has_group
        self.group_by = group_by
        self.scope = scope
        self.report = report
        self.window = window
        self._rules: dict[type[tree.Node], Callable[[tree.Node], Expr]] = {
            tree.Column: self._name,
            tree.Dot: self._name,
            tree.Bracket: self._element,
            tree.Array: lambda node: collections.make_list(
                self._all(node.expressions), span(node), self.report
            ),
            tree.Map: lambda node: collections.make_map(
                self._all(node.args["keys"]), self._all(node.args["values"]), span(node), self.report
            ),
            tree.Literal: self._literal,
            tree.HexString: lambda node: literals.hexadecimal(node.name, span(node)),
            tree.Boolean: lambda node: constant(str(node.this).upper(), bool(node.this), BOOLEAN, span(node)),
            tree.Null: lambda node: null(span(node)),
            tree.Interval: self._interval,
            tree.Neg: lambda node: arithmetic.negate(self.check(node.this), span(node), self.report),
            tree.Not: self._not,
            tree.And: self._junction,
            tree.Or: self._junction,
            tree.DPipe: self._arithmetic,
            tree.Is: self._is,
            tree.In: self._in,
            tree.Between: self._between,
            tree.Like: self._like,
            tree.Escape: self._like,
            tree.SimilarTo: self._like,
            tree.Case: self._case,
            tree.Cast: self._cast,
            tree.Anonymous: self._call,
            tree.Filter: self._filter,
            tree.Star: self._star,
            tree.Window: self._over,
            tree.Subquery: self._subquery,
            tree.Exists: self._subquery,
            **dict.fromkeys(_SIGNS, self._arithmetic),
            **dict.fromkeys(_COMPARISONS, self._comparison),
        }
        self._call_rules: dict[str, Callable[[tree.Node], Expr]] = {
            **dict.fromkeys(("EXTRACT", "FLOOR TO", "CEIL TO", "CEILING TO"), self._of_time),
            "DATE_TRUNC": self._date_trunc,
        }

    def check(self, node: tree.Node) -> Expr:
        """The checked expression; something `wrong`, with findings, when it cannot be."""
        rule = self._rules.get(type(node))
        if rule is None:
            self.report.error("UNSUPPORTED_OPERATION", span(node), "This is not supported here.")
            return wrong(span(node))
        return rule(node)

    def _all(self, nodes: Sequence[tree.Node]) -> list[Expr]:
        return [self.check(each) for each in nodes]

    def condition(self, node: tree.Node, where: str) -> Expr:
        """An expression that must be true or false."""
        return condition(self.check(node), self.report, where)

    # --- names -----------------------------------------------------------------------------------------

    def _name(self, node: tree.Node) -> Expr:
        fields: list[tree.Identifier] = []
        base = node
        while isinstance(base, tree.Dot):
            field = base.expression
            if not isinstance(field, tree.Identifier):
                self.report.error("SYNTAX_ERROR", span(base), "A star stands only in the SELECT list.")
                return wrong(span(node))
            fields.insert(0, field)
            base = base.this
        if isinstance(base, tree.Column):
            if not fields and (bare := self._bare_function(base)) is not None:
                return bare
            return self.scope.column([base.this, *fields])
        value = self.check(base)
        for field in fields:
            value = self.scope.field(value, field)
        return value

    def _bare_function(self, node: tree.Column) -> Expr | None:
        """CURRENT_TIMESTAMP and its kin, unless a column has that name."""
        name, place = node.name, span(node)
        if node.this.args.get("quoted") or any(name in source.columns for source in self.scope.sources):
            return None
        if name.upper() in WITHOUT_BRACKETS or names.FORBIDDEN.fullmatch(name):
            function = find_function(name, place, self.report)
            return call_function(function, [], place, self.report) if function else wrong(place)
        return None

    def _element(self, node: tree.Node) -> Expr:
        value, index = self.check(node.this), self.check(node.expressions[0])
        return collections.element(value, index, span(node), self.report)

    # --- constants -------------------------------------------------------------------------------------

    def _literal(self, node: tree.Node) -> Expr:
        if isinstance(node, tree.Literal) and node.is_string:
            return text_constant(node.name, STRING, span(node))
        return literals.number(node.name, span(node), self.report)

    def _interval(self, node: tree.Node) -> Expr:
        length = windows.interval(node, self.report)
        return wrong(span(node)) if length is None else literals.interval(length, span(node))

    # --- operators -------------------------------------------------------------------------------------

    def _arithmetic(self, node: tree.Node) -> Expr:
        left, right = self.check(node.this), self.check(node.expression)
        if isinstance(node, tree.DPipe):
            return arithmetic.join_text(left, right, span(node), self.report)
        if isinstance(node, tree.Div):
            warn_of_whole(left, right, self.report)
        return arithmetic.arithmetic(_SIGNS[type(node)], left, right, span(node), self.report)

    def _comparison(self, node: tree.Node) -> Expr:
        left, right = self.check(node.this), self.check(node.expression)
        return comparisons.compare(_COMPARISONS[type(node)], left, right, span(node), self.report)

    def _not(self, node: tree.Node) -> Expr:
        return call(Op.NOT, BOOLEAN, span(node), self.condition(node.this, "NOT"))

    def _junction(self, node: tree.Node) -> Expr:
        op, word = (Op.AND, "AND") if isinstance(node, tree.And) else (Op.OR, "OR")
        left, right = self.condition(node.this, word), self.condition(node.expression, word)
        return call(op, BOOLEAN, span(node), left, right)

    def _is(self, node: tree.Node) -> Expr:
        right = node.expression
        if isinstance(right, tree.Null):
            return call(Op.IS_NULL, BOOLEAN, span(node), self.check(node.this))
        op, word = (Op.IS_TRUE, "TRUE") if right.this else (Op.IS_FALSE, "FALSE")
        return call(op, BOOLEAN, span(node), self.condition(node.this, f"IS {word}"))

    def _in(self, node: tree.Node) -> Expr:
        value = self.check(node.this)
        if node.args.get("query") is not None:
            return self._subquery(node.args["query"])
        choices = []
        for each in node.expressions:
            choice = self.check(each)
            sides = (
                None
                if value.wrong or choice.wrong
                else comparisons.comparable(value, choice, span(node), self.report)
            )
            if sides is not None:
                choices.append(sides[1])
        if not choices:
            return call(Op.NULL, BOOLEAN, span(node))
        return call(Op.IN, BOOLEAN, span(node), value, *choices)

    def _between(self, node: tree.Node) -> Expr:
        value = self.check(node.this)
        low = comparisons.compare(">=", value, self.check(node.args["low"]), span(node), self.report)
        high = comparisons.compare("<=", value, self.check(node.args["high"]), span(node), self.report)
        return call(Op.AND, BOOLEAN, span(node), low, high)

    def _like(self, node: tree.Node) -> Expr:
        escape = self.check(node.expression) if isinstance(node, tree.Escape) else None
        like = node.this if isinstance(node, tree.Escape) else node
        value, pattern = self.check(like.this), self.check(like.expression)
        compare = similar if isinstance(like, tree.SimilarTo) else comparisons.like
        return compare(value, pattern, escape, span(node), self.report)

    def _case(self, node: tree.Node) -> Expr:
        operand = self.check(node.this) if node.this is not None else None
        conditions, values = [], []
        for branch in node.args["ifs"]:
            if operand is None:
                conditions.append(self.condition(branch.this, "WHEN"))
            else:
                asked = self.check(branch.this)
                conditions.append(comparisons.compare("=", operand, asked, asked.span, self.report))
            values.append(self.check(branch.args["true"]))
        if node.args.get("default") is not None:
            values.append(self.check(node.args["default"]))
        chosen = choose(values, self.report)
        if chosen is None:
            return wrong(span(node))
        return call(Op.CASE, chosen[0], span(node), *conditions, *chosen[1])

    def _cast(self, node: tree.Node) -> Expr:
        if node.args.get("default"):
            return literals.of_type(node.args["to"].this.name, node.name, span(node), self.report)
        return casts.check_cast(self.check(node.this), node.args["to"], span(node), self.report)

    # --- calls -----------------------------------------------------------------------------------------

    def _call(self, node: tree.Node, where: Expr | None = None) -> Expr:
        name, place = node.name.upper(), span(node)
        if isinstance(node, tree.Anonymous) and (name in windows.KINDS or windows.is_bound(node)):
            return self._window_call(node, name)
        if (rule := self._call_rules.get(name)) is not None:
            return rule(node)
        if name == "MOD" and len(node.expressions) == 2:
            left, right = (self.check(each) for each in node.expressions)
            return arithmetic.arithmetic("%", left, right, place, self.report)
        if name == "IF" and len(node.expressions) == 3:
            branch = tree.If(this=node.expressions[0], true=node.expressions[1])
            case = tree.Case(ifs=[branch], default=node.expressions[2])
            case.meta.update(node.meta)
            return self._case(case)
        first = node.expressions[0] if node.expressions else None
        if name in BY_UNIT and isinstance(first, tree.Column | tree.Literal):
            return self._by_unit(node, name, first)
        if isinstance(first, tree.Distinct):
            return self._distinct(node, first, where)
        arguments = (
            [constant("1", 1, INT, span(first))]
            if isinstance(first, tree.Star) and name == "COUNT" and len(node.expressions) == 1
            else [self.check(each) for each in node.expressions]
        )
        if name in _BY_TIME and self.window is not None and len(arguments) == 1:
            return self._by_time(_BY_TIME[name], arguments[0], place, where)
        function = find_function(node.name, place, self.report)
        if function is None:
            return wrong(place)
        if function.rows is not None:
            self.report.error(
                "UNSUPPORTED_FUNCTION",
                place,
                f"{function.name} gives rows: write FROM …, LATERAL TABLE({function.name}(…)) AS t(…).",
                f"LATERAL TABLE({function.name}(…))",
            )
            return wrong(place)
        if function.aggregate and (inner := next((each for each in arguments if each.has_aggregate), None)):
            self.report.error("AGGREGATE_NOT_ALLOWED", inner.span, "An aggregate cannot be aggregated again.")
            return wrong(place)
        if where is not None and not function.aggregate:
            self.report.error(
                "TYPE_MISMATCH", place, f"FILTER belongs to an aggregate, which {node.name} is not."
            )
            return wrong(place)
        return call_function(function, arguments, place, self.report, where)

    def check_rows(self, node: tree.Node) -> Expr:
        """A call that gives rows, which stands in FROM."""
        function = find_function(node.name, span(node), self.report)
        arguments = [self.check(each) for each in node.expressions]
        if function is None:
            return wrong(span(node))
        return call_function(function, arguments, span(node), self.report)

    def _window_call(self, node: tree.Anonymous, name: str) -> Expr:
        if name not in windows.KINDS:
            return windows.bound(node, self)
        self.report.error(
            "WINDOW_MISMATCH",
            span(node),
            f"{node.name} stands in GROUP BY; its bounds are {name}_START and {name}_END.",
        )
        return wrong(span(node))

    def _by_time(self, op: Op, value: Expr, place: Span, where: Expr | None) -> Expr:
        """FIRST_VALUE and LAST_VALUE: by event time, the same whatever the order in which rows come."""
        assert self.window is not None
        if value.has_aggregate:
            self.report.error("AGGREGATE_NOT_ALLOWED", value.span, "An aggregate cannot be aggregated again.")
            return wrong(place)
        known = call(Op.IS_NOT_NULL, BOOLEAN, place, value)
        when = both(known, where) or known
        time = call(Op.CASE, TIMESTAMP, place, when, self.window.time)
        return Expr(op, value.type, place, (value, time), aggregate=True)

    def _by_unit(self, node: tree.Node, name: str, unit: tree.Node) -> Expr:
        """TIMESTAMPADD(DAY, n, time) and TIMESTAMPDIFF(DAY, from, to)."""
        functions = BY_UNIT[name]
        function = functions.get(unit.name.upper().removeprefix("SQL_TSI_").removesuffix("S"))
        if function is None:
            units.refuse(unit.name, span(unit), self.report, functions)
            return wrong(span(node))
        arguments = [self.check(each) for each in node.expressions[1:]]
        return call_function(function, arguments, span(node), self.report)

    def _distinct(self, node: tree.Node, distinct: tree.Distinct, where: Expr | None) -> Expr:
        values = [self.check(each) for each in distinct.expressions]
        name = node.name.upper()
        function = COUNT_DISTINCT if name == "COUNT" and len(values) == 1 else once.FORMS.get(name)
        if (
            name in ("MIN", "MAX", "DISTINCTCOUNT") or registry.find(name) is None
        ):  # the same without it, or nothing
            function = find_function(name, span(node), self.report)
            if function is None:
                return wrong(span(node))
        if function is None:
            self.report.error(
                "UNSUPPORTED_FUNCTION",
                span(node),
                f"{node.name}(DISTINCT …) is not supported on a stream: COUNT(DISTINCT x) of one value"
                " is, and so are LISTAGG, CollectArray, MIN and MAX.",
                "COUNT(DISTINCT x)",
            )
            return wrong(span(node))
        if values[0].has_aggregate:
            self.report.error(
                "AGGREGATE_NOT_ALLOWED", values[0].span, "An aggregate cannot be aggregated again."
            )
            return wrong(span(node))
        return call_function(function, values, span(node), self.report, where)

    def _filter(self, node: tree.Node) -> Expr:
        where = self.condition(node.expression.this, "FILTER")
        if where.has_aggregate:
            self.report.error("AGGREGATE_NOT_ALLOWED", where.span, "FILTER goes by single rows.")
            return wrong(span(node))
        return replace(self._call(node.this, where), span=span(node))

    def _of_time(self, node: tree.Node) -> Expr:
        """EXTRACT(unit FROM time), FLOOR(time TO unit), CEIL(time TO unit)."""
        name = node.name.upper()
        first, second = node.expressions[:2]
        unit, value = (first, second) if name == "EXTRACT" else (second, first)
        return unit_of_time(name, unit, self.check(value), span(node), self.report)

    def _date_trunc(self, node: tree.Node) -> Expr:
        """DATE_TRUNC('unit', time) is FLOOR(time TO unit)."""
        unit = node.expressions[0] if len(node.expressions) == 2 else None
        if not isinstance(unit, tree.Literal) or not unit.is_string:
            self.report.error(
                "INVALID_ARGUMENT",
                span(node),
                "DATE_TRUNC takes a constant unit and a time: 'HOUR', rowtime.",
            )
            return wrong(span(node))
        word = tree.Var(this=unit.name.upper())
        word.meta.update(unit.meta)
        value = self.check(node.expressions[1])
        return unit_of_time("FLOOR TO", word, value, span(node), self.report, constant=True)

    # --- what stands elsewhere -------------------------------------------------------------------------

    def _star(self, node: tree.Node) -> Expr:
        self.report.error(
            "SYNTAX_ERROR", span(node), "A star stands only in the SELECT list and in COUNT(*)."
        )
        return wrong(span(node))

    def _over(self, node: tree.Node) -> Expr:
        return topn.refuse(span(node), self.report) if "order" in node.args else wrong(span(node))

    def _subquery(self, node: tree.Node) -> Expr:
        self.report.error(
            "UNSUPPORTED_SUBQUERY",
            span(node),
            "A query inside an expression is not supported on streams: use a join.",
        )
        return wrong(span(node))
