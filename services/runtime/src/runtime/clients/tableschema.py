"""The columns of a table of files, in versions: their numbers, names and types.

A version is a small file that is made once; who has more columns makes the next one.
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
"""The least number of a column that is no field of a message: fields have less."""
_WIDER: Final = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a table."""

    id: int
    name: str
    type: str
    """In Spark SQL."""
    message: str = ""
    """The message whose field it is, if it is one: there its number is from."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version."""

    version: int
    columns: tuple[TableColumn, ...]

    def of(self, names: Sequence[str]) -> list[TableColumn]:
        """The columns of these names."""
        known = {column.name: column for column in self.columns}
        return [known[name] for name in names]


def agreed(
    files: Files, where: str, types: Mapping[str, str], fields: Mapping[str, tuple[str, int]]
) -> TableSchema:
    """The version of a table that has these columns, made where there is none; `fields` are the messages and
    numbers of those that are fields.

    Raises: JobError (USER) where a column is of another type there.
    """
    while True:
        names = files.names(FOLDER)
        held = _read(files, names[-1]) if names else TableSchema(0, ())
        columns = merged(where, held.columns, types, fields)
        if columns == held.columns:
            return held
        made = TableSchema(held.version + 1, columns)
        if files.put_once(f"{FOLDER}/{made.version:06}.json", json.dumps(asdict(made), indent=1).encode()):
            return made


def merged(
    where: str,
    held: Sequence[TableColumn],
    types: Mapping[str, str],
    fields: Mapping[str, tuple[str, int]],
) -> tuple[TableColumn, ...]:
    """The columns of a table when these are written to it as well."""
    columns = {column.name: column for column in held}
    for name, type_ in types.items():
        message, number = fields.get(name, ("", 0))
        known = columns.get(name) or _renamed(columns.values(), types, message, number)
        if known is not None:
            wide = wider(known.type, type_)
            if wide is None:
                told = f"the column {name} of {where} is {known.type}, and {type_} in the query"
                raise user("COLD_SCHEMA_INCOMPATIBLE", f"{told}: cast it, or name another table.")
            columns.pop(known.name)
            columns[name] = TableColumn(known.id, name, wide, known.message)
            continue
        taken = {column.id for column in columns.values()}
        if number and number not in taken:
            columns[name] = TableColumn(number, name, type_, message)
        else:
            columns[name] = TableColumn(max(COMPUTED - 1, *taken, 0) + 1, name, type_)
    return tuple(sorted(columns.values(), key=lambda column: column.id))


def wider(one: str, other: str) -> str | None:
    """The type that holds the values of both; None where none does."""
    if one == other:
        return one
    for types in _WIDER:
        if one in types and other in types:
            return max(one, other, key=types.index)
    return None


def _renamed(
    columns: Iterable[TableColumn], types: Mapping[str, str], message: str, number: int
) -> TableColumn | None:
    """The column of a field that has another name now."""
    for column in columns:
        if message and (column.message, column.id) == (message, number) and column.name not in types:
            return column
    return None


def _read(files: Files, name: str) -> TableSchema:
    held = json.loads(files.get(f"{FOLDER}/{name}") or b"{}")
    return TableSchema(held["version"], tuple(TableColumn(**column) for column in held["columns"]))
