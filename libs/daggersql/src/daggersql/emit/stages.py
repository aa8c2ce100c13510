"""Rows as they come to the first thing that keeps state, each set of them a stage of its own.

That is where Spark drops what comes too late, and where it can be counted: above WHERE and what unfolds
lists, so that what no window would have had is not missing from one. How many windows a row is too late for
is said where it is read, in a column for each kind of window (`daggersql.plan.Stage`); here it is carried
along.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from daggerspec.query import quote_name
from daggersql.emit.expressions import sql
from daggersql.ir.conditions import conjuncts
from daggersql.ir.expr import Expr
from daggersql.ir.ops import Op
from daggersql.ir.relations import Join, Projection, QueryRelation, Relation, Stream, Union, Unnest
from daggersql.ir.walk import columns_in
from daggersql.ir.whole import has_session
from daggersql.plan import LATE, Stage, Window

_NONE = "CAST(NULL AS INT)"


class Stages:
    """The stages of one query, while its SQL is made."""

    def __init__(self, closing: Mapping[str, Sequence[Window]]) -> None:
        """`closing`: as in `Plan`."""
        self.found: list[Stage] = []
        self._tables = list(closing)
        self._marks = {
            (table, window): f"{LATE}{number}"
            for table, windows in closing.items()
            for number, window in enumerate(windows)
        }

    def late(self, of: Relation, window: Window) -> dict[str, str]:
        """Write by table the number of such windows for which a row of this relation is too late.

        Empty for a relation above windows or joins, as these have dropped late rows.
        """
        match of:
            case Stream(table=table, name=name):
                return {table.name: f"{quote_name(name)}.`{self._marks[table.name, window]}`"}
            case Unnest(below=below):
                return self.late(below, window)
            case Projection(below=below, name=name):
                return {table: f"`{name}`.`{self._name(table)}`" for table in self.late(below, window)}
            case QueryRelation(name=name, query=Union(branches=branches)):
                below_all = [branch.relation for branch in branches if branch.window is None]
                tables = (table for below in below_all for table in self.late(below, window))
                return {table: f"`{name}`.`{self._name(table)}`" for table in dict.fromkeys(tables)}
            case _:
                return {}

    def late_columns(self, late: Mapping[str, str]) -> dict[str, str]:
        """Name the columns that pass the numbers on."""
        return {self._name(table): text for table, text in late.items()}

    def columns(self, late: Mapping[str, str], tables: Sequence[str] = ()) -> list[str]:
        """Write the columns that pass the numbers on; for further `tables` they are NULL."""
        columns = self.late_columns({**dict.fromkeys(tables, _NONE), **late})
        return [f"{text} AS `{name}`" for name, text in columns.items()]

    def add(self, text: str, late: Mapping[str, str], weight: str = "") -> str:
        """Add a stage of rows that pass the numbers on; return its quoted name."""
        name = f"__stage{len(self.found)}"
        columns = tuple((self._name(table), table) for table in late)
        self.found.append(Stage(name, text, columns, weight))
        return f"`{name}`"

    def _name(self, table: str) -> str:
        return f"{LATE}_of_{self._tables.index(table)}"


def conditions_of_sides(
    join: Join, above: Sequence[Expr]
) -> tuple[list[Expr], list[str], list[Expr], list[str]]:
    """Find the conditions that rows of either side of a join must meet before they are joined.

    Returns those of the left side, and its keys as SQL; then of the right. `above`: conditions on the pairs.
    Spark counts no row as late that one of these drops. An outer join keeps left rows without a partner, so
    that only ON may drop rows of its right side, and no part of ON those of the left.
    """
    if has_session(join):
        return [], [], [], []
    on = list(conjuncts(join.on))
    sides = _names(join.left), _names(join.right)
    of_left = [*above, *([] if join.outer else on)]
    of_right = [*on, *([] if join.outer else above)]
    keys = [*on, *([] if join.outer else above)]
    return (
        list(_of(sides[0], of_left)),
        [] if join.outer else list(_keys(sides[0], sides[1], keys)),
        list(_of(sides[1], of_right)),
        list(_keys(sides[1], sides[0], keys)),
    )


def _of(names: frozenset[str], conditions: Sequence[Expr]) -> Iterator[Expr]:
    """Select the conditions that name only these relations, and call none of our own functions: these count
    unusable arguments, which must happen once."""
    for condition in conditions:
        relations = {ref.relation for ref in columns_in([condition])}
        if relations and relations <= names and not any(node.function for node in condition.nodes()):
            yield condition


def _keys(own: frozenset[str], others: frozenset[str], conditions: Sequence[Expr]) -> Iterator[str]:
    """Yield the keys of one side, as SQL: a row whose key is NULL has no partner."""
    for condition in conditions:
        if condition.op is not Op.EQUAL:
            continue
        for one, other in (condition.args, condition.args[::-1]):
            if list(_of(own, [one])) and list(_of(others, [other])):
                yield f"{sql(one)} IS NOT NULL"


def _names(of: Relation) -> frozenset[str]:
    """Collect the names of the relations whose columns it has."""
    match of:
        case Unnest(below=below, name=name):
            return _names(below) | {name}
        case Join(left=left, right=right):
            return _names(left) | _names(right)
        case _:
            return frozenset({of.name})
