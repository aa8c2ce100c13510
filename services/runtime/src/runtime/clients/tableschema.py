"""Agree on the columns of a table of files, their numbers, names and types, in versions.

A version is a small file that is created once; a writer with more columns creates the next one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from runtime.clients.files import Files
from runtime.errors import user

FOLDER: Final = "_daggers/schema"
COMPUTED: Final = 1_000_000_000
"""First number of columns that are no fields of a message: fields have lower numbers."""
_WIDER: Final = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a table."""

    id: int
    name: str
    type: str
    """Type in Spark SQL."""
    message: str = ""
    """Message whose field it is, and whose field number is its id; empty for a computed column."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version of a table's columns."""

    version: int
    columns: tuple[TableColumn, ...]

    def of(self, names: Sequence[str]) -> list[TableColumn]:
        """Return the columns of these names, in their order."""
        by_name = {column.name: column for column in self.columns}
        return [by_name[name] for name in names]


def agree(
    files: Files, where: str, types: Mapping[str, str], fields: Mapping[str, tuple[str, int]]
) -> TableSchema:
    """Return the version that has these columns, created where there is none.

    types: Spark types by column. fields: message and field number of the columns that are fields.

    Raises: JobError (USER) where a column is of another type there.
    """
    while True:
        names = files.names(FOLDER)
        existing = _read_version(files, names[-1]) if names else TableSchema(0, ())
        columns = merge(where, existing.columns, types, fields)
        if columns == existing.columns:
            return existing
        next_version = TableSchema(existing.version + 1, columns)
        if files.put_once(
            f"{FOLDER}/{next_version.version:06}.json", json.dumps(asdict(next_version), indent=1).encode()
        ):
            return next_version


def merge(
    where: str,
    existing: Sequence[TableColumn],
    types: Mapping[str, str],
    fields: Mapping[str, tuple[str, int]],
) -> tuple[TableColumn, ...]:
    """Merge columns of a query into those of a table. Raises: JobError (USER) for incompatible types."""
    columns = {column.name: column for column in existing}
    for name, type_ in types.items():
        message, number = fields.get(name, ("", 0))
        column = columns.get(name) or _find_renamed(columns.values(), types, message, number)
        if column is not None:
            wide = wider(column.type, type_)
            if wide is None:
                detail = f"the column {name} of {where} is {column.type}, and {type_} in the query"
                raise user("COLD_SCHEMA_INCOMPATIBLE", f"{detail}: cast it, or name another table.")
            columns.pop(column.name)
            columns[name] = TableColumn(column.id, name, wide, column.message)
            continue
        used_ids = {column.id for column in columns.values()}
        if number and number not in used_ids:
            columns[name] = TableColumn(number, name, type_, message)
        else:
            columns[name] = TableColumn(max(COMPUTED - 1, *used_ids, 0) + 1, name, type_)
    return tuple(sorted(columns.values(), key=lambda column: column.id))


def wider(one: str, other: str) -> str | None:
    """Return the type that holds the values of both; None where none does."""
    if one == other:
        return one
    for types in _WIDER:
        if one in types and other in types:
            return max(one, other, key=types.index)
    return None


def _find_renamed(
    columns: Iterable[TableColumn], types: Mapping[str, str], message: str, number: int
) -> TableColumn | None:
    """Find the column of a field that the query calls by another name now."""
    for column in columns:
        if message and (column.message, column.id) == (message, number) and column.name not in types:
            return column
    return None


def _read_version(files: Files, name: str) -> TableSchema:
    existing = json.loads(files.get(f"{FOLDER}/{name}") or b"{}")
    return TableSchema(existing["version"], tuple(TableColumn(**column) for column in existing["columns"]))
