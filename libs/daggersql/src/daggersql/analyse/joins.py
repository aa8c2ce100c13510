"""Joins of streams: a side keeps rows while a partner can come, so the condition must say how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

from daggersql.analyse import windows
from daggersql.analyse.conditions import conjuncts
from daggersql.analyse.expressions import Analyser
from daggersql.analyse.results import object_to_join
from daggersql.analyse.scope import Scope, Source
from daggersql.findings import Report, Span
from daggersql.ir import reach
from daggersql.ir.expr import Expr, ExprKind, Ref, call
from daggersql.ir.ops import Op
from daggersql.ir.relations import Alone, Join, Projection, Relation
from daggersql.ir.types import BOOLEAN
from daggersql.ir.whole import has_session
from daggersql.limits import MAX_JOIN_BOUND
from daggersql.syntax import tree
from daggersql.syntax.cursor import behind, span_of

_BOUND = "AND {right}.rowtime BETWEEN {left}.rowtime AND {left}.rowtime + INTERVAL '5' MINUTE"
_ORDER: dict[type[tree.Node], int] = {tree.GT: 1, tree.GTE: 1, tree.LT: -1, tree.LTE: -1, tree.EQ: 0}
_NEVER = timedelta.max


class JoinChecker:
    """Checks one join; the last source of the scope is its right side."""

    def __init__(self, scope: Scope, report: Report) -> None:
        self._scope = scope
        self._report = report
        self._analyser = Analyser(scope, report)
        self._right: Source = scope.sources[-1]
        self._times: dict[Ref, Expr] = {}
        """The left side's event times that the condition names."""
        self._partners: dict[Ref, Expr] = {}
        """And those of the right side."""
        self._names = {value.ref.relation for value in self._right.columns.values() if value.ref}

    def check(
        self, join: tree.Node, where: tree.Node | None, left: Relation, right: Relation, span: Span
    ) -> Join | None:
        """Check a join; None, with findings, if it has errors."""
        outer, comma = (join.args.get("kind") or "").startswith("LEFT"), join.args.get("kind") == "COMMA"
        node = where.this if comma and where is not None else join.args.get("on")
        if node is None:
            self._say_unbounded(span, comma=comma)
            return None
        before = self._report.failed
        on = self._analyser.condition(node, "ON")
        if on.has_aggregate:
            self._report.error("AGGREGATE_NOT_ALLOWED", on.span, "A join goes by single rows.")
        if self._report.failed and not before:
            return None
        conditions = list(conjuncts(node))
        if not outer and not comma and where is not None:
            conditions += conjuncts(where.this)
        lower, upper = self._bounds(conditions)
        if lower is None or upper is None:
            self._say_unbounded(span, comma=comma, on=node if any(map(self._is_key, conditions)) else None)
            return None
        if not any(map(self._is_key, conditions)):
            self._report.error(
                "UNSUPPORTED_JOIN", span, "A join needs a key that both sides have: ON a.id = b.id AND …."
            )
            return None
        if max(abs(lower), abs(upper)) > MAX_JOIN_BOUND:
            self._report.error(
                "INTERVAL_TOO_LONG", span_of(node), f"A join reaches at most {MAX_JOIN_BOUND.days} days."
            )
            return None
        if isinstance(left, Projection):
            # Spark allows one event time on a side: of a join below, the one that this join goes by.
            left = replace(left, time=_first(self._times).ref)
        # Under a comma the condition is WHERE, which stays where it is.
        on = call(Op.TRUE, BOOLEAN, on.span) if comma else on
        if not outer and where is not None and (has_session(left) or has_session(right)):
            on = self._with_where(on, conjuncts(where.this))
        joined = Join(left, right, on, outer, lower, upper, self._alone(right, lower))
        object_to_join(joined, span, self._report)
        return joined

    def _with_where(self, on: Expr, conditions: Iterator[tree.Node]) -> Expr:
        """Add keys and bounds of WHERE to the condition: partial sessions pass WHERE."""
        for node in conditions:
            if self._is_key(node) or self._bounds([node]) != (None, None):
                on = call(Op.AND, BOOLEAN, on.span, on, self._analyser.check(node))
        return on

    def _alone(self, right: Relation, lower: timedelta) -> Alone:
        """Compute since when records must have been read for a row without a partner."""
        before = max(reach.furthest(right) - lower, timedelta())
        return Alone(_first(self._partners), _first(self._times), before)

    def _say_unbounded(self, span: Span, *, comma: bool, on: tree.Node | None = None) -> None:
        """Report a join without bounds in time. `on`: the condition, if it lacks only these."""
        left = self._scope.sources[0].alias or "a"
        bound = _BOUND.format(left=left, right=self._right.alias or "b")
        if comma:
            self._report.error(
                "UNSUPPORTED_JOIN",
                span,
                f"Join streams with JOIN … ON a key {bound}.",
                f"JOIN … ON … {bound}",
            )
            return
        timed = all("rowtime" in source.columns for source in (self._scope.sources[0], self._right))
        whole = on is not None and timed and not isinstance(on, tree.Or)
        self._report.error(
            "UNBOUNDED_STATE",
            span,
            f"A join without a bound in time remembers every row for ever: add {bound}.",
            behind(on, bound) if on is not None and whole else bound,
        )

    # --- what the condition says -----------------------------------------------------------------------

    def _is_key(self, node: tree.Node) -> bool:
        """Tell whether a condition compares values of both sides for equality."""
        if not isinstance(node, tree.EQ):
            return False
        sides = [self._relations(part) for part in (node.this, node.expression)]
        return all(sides) and any(
            one <= self._names and not other & self._names for one, other in (sides, sides[::-1])
        )

    def _relations(self, node: tree.Node) -> set[str]:
        """Collect the relations whose columns an expression names."""
        return {
            expression.ref.relation
            for expression in self._analyser.check(node).nodes()
            if expression.ref and expression.kind is ExprKind.COLUMN
        }

    def _bounds(self, conditions: list[tree.Node]) -> tuple[timedelta | None, timedelta | None]:
        """Find the minimum and maximum of the right time minus the left time; None: unbounded."""
        lower: timedelta | None = None
        upper: timedelta | None = None
        for node in conditions:
            for least, most in self._differences(node):
                lower = least if least is not None and (lower is None or least > lower) else lower
                upper = most if most is not None and (upper is None or most < upper) else upper
        return lower, upper

    def _differences(self, node: tree.Node) -> Iterator[tuple[timedelta | None, timedelta | None]]:
        if isinstance(node, tree.Between):
            yield from self._bounds_of_comparison(node.this, 1, node.args["low"])
            yield from self._bounds_of_comparison(node.this, -1, node.args["high"])
        elif type(node) in _ORDER:
            order = _ORDER[type(node)]
            for sign in (1, -1) if order == 0 else (order,):
                yield from self._bounds_of_comparison(node.this, sign, node.expression)

    def _bounds_of_comparison(
        self, left: tree.Node, sign: int, right: tree.Node
    ) -> Iterator[tuple[timedelta | None, timedelta | None]]:
        """Yield the bounds that `left >= right` (sign 1) or `left <= right` (-1) sets to the difference."""
        one, other = self._instant(left), self._instant(right)
        if one is None or other is None or one[0] == other[0]:
            return
        # one.time + a >= other.time + b: the difference one - other is at least b - a.
        least = other[1] - one[1]
        of_right = one[0]
        if sign > 0:
            yield (least, None) if of_right else (None, -least)
        else:
            yield (None, least) if of_right else (-least, None)

    def _instant(self, node: tree.Node) -> tuple[bool, timedelta] | None:
        """Parse an event time with a constant span added; True: of the right side. None for anything else."""
        if isinstance(node, tree.Add | tree.Sub) and isinstance(node.expression, tree.Interval):
            below = self._instant(node.this)
            # `interval` reports a wrong span; the condition counts as a bound all the same.
            length = windows.interval(node.expression, self._report) or timedelta()
            if below is None:
                return None
            return below[0], below[1] + (length if isinstance(node, tree.Add) else -length)
        if not isinstance(node, tree.Column | tree.Dot):
            return None
        value = self._analyser.check(node)
        if not value.is_event_time:
            return None
        assert value.ref is not None
        of_right = value.ref.relation in self._names
        (self._partners if of_right else self._times)[value.ref] = value
        return of_right, timedelta()


def _first(columns: Mapping[Ref, Expr]) -> Expr:
    """Choose a column independently of the order in the condition, as state depends on the choice."""
    return columns[min(columns, key=lambda ref: "`".join((ref.relation, *ref.path, "")))]
