"""Fields of streams that the values of output columns are made of. Pure.

A value is made of all fields that its expression reads, in any function or condition, even if they are only
counted: this module does not judge how much a value reveals. WHERE, HAVING and ON choose rows, and are no
part of values (`daggersql.ir.influences`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from daggersql.ir.expr import Expr, ExprKind, Ref
from daggersql.ir.ops import Op
from daggersql.ir.relations import (
    GROUPS,
    ROW,
    Identity,
    Join,
    Projection,
    QueryRelation,
    Relation,
    Result,
    Select,
    Stream,
    Union,
    Unnest,
)
from daggersql.ir.walk import RECORD, columns_of, expressions, identity, tables

Fields: TypeAlias = frozenset[tuple[str, str]]
"""Fields: table and dotted Protobuf path."""
NONE: Fields = frozenset()


def origins(query: Result) -> tuple[Fields, ...]:
    """Find the fields of each output column; of a whole record, all fields of its message."""
    whole = fields_of_records(query)
    return tuple(spelled_out(fields, whole) for fields in Lineage().outputs(query))


def selects(query: Result) -> tuple[Select, ...]:
    """Return the branches of a UNION ALL; of any other query, itself."""
    return query.branches if isinstance(query, Union) else (query,)


def fields_of_records(query: Result) -> Mapping[str, Fields]:
    """Map tables whose whole records may be selected to all their fields."""
    return {
        table.name: frozenset((table.name, str(field_.name)) for field_ in table.message.fields)
        for table in tables([select.relation for select in selects(query)])
        if table.records
    }


def spelled_out(fields: Fields, whole: Mapping[str, Fields]) -> Fields:
    """Replace whole records by all fields of their table."""
    records = {table for table, path in fields if path in RECORD and table in whole}
    return fields.union(*(whole[table] for table in records))


def origins_of_condition(condition: Expr, query: Result) -> Fields:
    """Find the fields of a condition on the rows of a query (`relations.ROW`)."""
    by_name = {output.name: fields for output, fields in zip(query.outputs, origins(query), strict=True)}
    named = (
        node.ref.path[0] for node in condition.nodes() if node.ref is not None and node.ref.relation == ROW
    )
    return NONE.union(*(by_name[name] for name in named))


def copies(query: Result) -> tuple[tuple[str, str] | None, ...]:
    """Return for each output column the field that it copies unchanged; None where it is computed."""
    if isinstance(query, Select):
        return tuple(Lineage().copy(output.value, query) for output in query.outputs)
    of_branches = [
        [Lineage().copy(value, branch) for value in values]
        for branch, values in zip(query.branches, query.values, strict=True)
    ]
    return tuple(origins[0] if len(set(origins)) == 1 else None for origins in zip(*of_branches, strict=True))


def calls(query: Result) -> tuple[str | None, ...]:
    """Return for each output column our own function that computes it, casts apart; None without one."""
    return Lineage().calls(query)


@dataclass(slots=True)
class Lineage:
    """Resolves columns through relations, whose names are unique in a query."""

    relations: dict[str, Relation] = field(default_factory=dict)
    """Relations by name."""
    of_columns: dict[tuple[int, str], Fields] = field(default_factory=dict)
    """Cache by relation and column: a query that is read twice is resolved once."""

    def outputs(self, query: Result) -> tuple[Fields, ...]:
        """Find the fields of each column of a query."""
        if isinstance(query, Select):
            self.bind(query.relation)
            return tuple(self.of(output.value, query) for output in query.outputs)
        for branch in query.branches:
            self.bind(branch.relation)
        by_column = [
            self._unite(
                self.of(values[index], branch)
                for branch, values in zip(query.branches, query.values, strict=True)
            )
            for index in range(len(query.outputs))
        ]
        return tuple(by_column)

    def bind(self, relation: Relation) -> None:
        """Register a relation and all relations that it is made of."""
        match relation:
            case Stream(name=name) | QueryRelation(name=name):
                self.relations[name] = relation
            case Unnest(below=below, name=name) | Projection(below=below, name=name):
                self.relations[name] = relation
                self.bind(below)
            case Join(left=left, right=right):
                self.bind(left)
                self.bind(right)

    def of_all(self, values: Iterable[Expr], select: Select | None) -> Fields:
        """Find the fields of several expressions together."""
        return self._unite(self.of(value, select) for value in values)

    def copy(self, value: Expr, select: Select) -> tuple[str, str] | None:
        """Return the field that a value copies unchanged; None where it is computed."""
        if value.ref is None or value.ref.relation != GROUPS:
            return value.read if value.kind is ExprKind.COLUMN or value.op is Op.FIELD else None
        letter, number = value.ref.path[0][:1], value.ref.path[0][1:]
        return self.copy(select.keys[int(number)], select) if letter == "k" else None

    def calls(self, query: Result) -> tuple[str | None, ...]:
        """Return for each column of a query our own function that computes it; None without one."""
        if isinstance(query, Select):
            self.bind(query.relation)
            return tuple(self.call(output.value, query) for output in query.outputs)
        for branch in query.branches:
            self.bind(branch.relation)
        of_branches = [
            [self.call(value, branch) for value in values]
            for branch, values in zip(query.branches, query.values, strict=True)
        ]
        return tuple(named[0] if len(set(named)) == 1 else None for named in zip(*of_branches, strict=True))

    def call(self, value: Expr, select: Select | None) -> str | None:
        """Return our own function whose result a value is; None without one."""
        if value.op is Op.CAST:
            return self.call(value.args[0], select)
        if value.ref is None:
            return value.function
        name = value.ref.path[0] if value.ref.path else ""
        if value.ref.relation == GROUPS:
            is_key = select is not None and name[:1] == "k"
            return self.call(select.keys[int(name[1:])], select) if select is not None and is_key else None
        match self.relations.get(value.ref.relation):
            case Projection(columns=columns) if name in columns:
                return self.call(columns[name], None)
            case QueryRelation(query=Select(outputs=outputs) as query) if name in [
                out.name for out in outputs
            ]:
                return self.calls(query)[[out.name for out in outputs].index(name)]
            case QueryRelation(query=Union() as query) if name[:1] == "c" and name[1:].isdigit():
                return self.calls(query)[int(name[1:])]
        return None

    def of(self, value: Expr, select: Select | None) -> Fields:
        """Find the fields of an expression. `select`: the SELECT over whose groups it may be; None: rows."""
        return self._unite(fields for _, fields in self.leaves(value, select))

    def leaves(self, value: Expr, select: Select | None) -> Iterator[tuple[Expr, Fields]]:
        """Yield the columns that an expression names, with their fields. `select`: that of its groups."""
        stack = [value]
        while stack:
            node = stack.pop()
            if node.read is not None:
                yield node, frozenset({node.read})
                stack += node.args[1:]  # the first argument is the parent, which the path includes
                continue
            stack += node.args
            if node.ref is not None:
                yield node, self._of_column(node.ref, select)

    def _of_column(self, ref: Ref, select: Select | None) -> Fields:
        if ref.relation == GROUPS and select is not None:
            return self._of_group(ref, select)
        relation = self.relations.get(ref.relation)
        name = ref.path[0] if ref.path else ""
        match relation:
            case Stream(table=table):
                return frozenset({(table.name, ".".join(ref.path))})
            case Unnest(value=value):
                if value.read is not None and name == "c":
                    stream, path = value.read
                    return frozenset({(stream, ".".join((path, *ref.path[1:])))})
                return self.of(value, None)
            case Projection(columns=columns) if name in columns:
                return self._once(relation, name, lambda: self.of(columns[name], None))
            case Projection(below=below):
                return self._once(relation, name, lambda: self._of_identity(identity(below), name, None))
            case QueryRelation():
                return self._once(relation, name, lambda: self._of_query(relation, name))
        return NONE

    def _of_group(self, ref: Ref, select: Select) -> Fields:
        letter, number = ref.path[0][:1], ref.path[0][1:]
        if letter == "w":
            return self.of(select.window.time, None) if select.window else NONE
        return self.of((select.keys if letter == "k" else select.aggregates)[int(number)], None)

    def _of_query(self, relation: QueryRelation, name: str) -> Fields:
        query = relation.query
        names = (
            [f"c{index}" for index in range(len(query.outputs))]
            if isinstance(query, Union)
            else [output.name for output in query.outputs]
        )
        if name in names:
            return self.outputs(query)[names.index(name)]
        if isinstance(query, Select):
            self.bind(query.relation)
            return self._of_identity(identity(query), name, query)
        return self._unite(_everything(query))  # each branch has its own identity

    def _of_identity(self, of: Identity, name: str, select: Select | None) -> Fields:
        """Find the fields of a column that carries an identity out of a sub-query (`walk.columns_of`)."""
        carried = {column: value for value, column in columns_of(of)}
        return self.of(carried[name], select) if name in carried else self.of_all(carried.values(), select)

    def _once(self, relation: Relation, name: str, look: Callable[[], Fields]) -> Fields:
        key = (id(relation), name)
        if key not in self.of_columns:
            self.of_columns[key] = look()
        return self.of_columns[key]

    @staticmethod
    def _unite(fields: Iterable[Fields]) -> Fields:
        return NONE.union(*fields)


def _everything(query: Result) -> Iterator[Fields]:
    """Yield all fields that a query reads."""
    for select in selects(query):
        for expression in expressions(select):
            yield frozenset(node.read for node in expression.nodes() if node.read is not None)
