"""Limits of reference tables that alert rules read, as columns of a batch.

A batch has one version of each table. A table that cannot be read costs no batch: its last good version stays
in use, and heartbeats say so; where there never was one, no row has limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
from daggers.v1 import spec_pb2
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from daggerspec.query import quote_name
from daggersql.rules.compiled import CompiledRule, RuleLimits
from runtime.references.content import NumberColumns
from runtime.references.loading import References

SEPARATOR: Final = "/"
"""Between the values of several columns in a key of a table."""
_LIMITS, _ROW = "limits", "row"
Numbers = Mapping[str, Sequence[float | None]]


class LimitTables:
    """The tables that the rules of a launch read."""

    def __init__(self, references: References) -> None:
        """references: of the launch's rules alone."""
        self._references = references
        self._built: dict[RuleLimits, tuple[str, pa.Table]] = {}
        """Version and table, as rows are joined with it."""

    def choose(self, rules: Sequence[CompiledRule], tables: Iterable[spec_pb2.ReferenceTable]) -> None:
        """Go on with the tables that rules read, out of `tables`. Raises: JobError (EXTERNAL) for one that is
        missing.
        """
        limits = dict.fromkeys(rule.text.limits for rule in rules if rule.text.limits is not None)
        checks: dict[str, list[NumberColumns]] = {}
        for one in limits:
            checks.setdefault(one.reference, []).append(NumberColumns(one.columns))
        self._references.choose(checks, tables)
        self._built.clear()

    def join(self, rows: DataFrame, rules: Sequence[CompiledRule]) -> DataFrame:
        """Add the columns that rules read of tables, and whether a table has the row's key."""
        by_key: dict[tuple[str, tuple[str, ...]], dict[str, None]] = {}
        for limits in (rule.text.limits for rule in rules if rule.text.limits is not None):
            by_key.setdefault((limits.reference, limits.key), {}).update(dict.fromkeys(limits.columns))
        if by_key:
            self._references.reload()
        for (reference, key), columns in by_key.items():
            rows = self._join(rows, RuleLimits(reference, key, tuple(columns)))
        return rows

    def _join(self, rows: DataFrame, limits: RuleLimits) -> DataFrame:
        joined, table = rows.alias(_ROW), self._build(limits)
        if table is None:
            missing = [F.lit(None).cast("double").alias(limits.column(name)) for name in limits.columns]
            return joined.select(f"{_ROW}.*", F.lit(False).alias(limits.present), *missing)
        limits_by_key = F.broadcast(rows.sparkSession.createDataFrame(table).alias(_LIMITS))
        joined = joined.join(limits_by_key, _build_key(limits.key) == F.col(f"{_LIMITS}.k"), "left")
        columns = [F.col(f"{_LIMITS}.{quote_name(limits.column(name))}") for name in limits.columns]
        present = F.col(f"{_LIMITS}.k").isNotNull().alias(limits.present)
        return joined.select(f"{_ROW}.*", present, *columns)

    def _build(self, limits: RuleLimits) -> pa.Table | None:
        """Build the table that rows are joined with; None where there are no limits."""
        version = self._references.find(limits.reference)
        if version is None or not version.content:
            return None
        built = self._built.get(limits)
        if built is None or built[0] != version.id:
            built = version.id, _build_table(NumberColumns(limits.columns)(version.content), limits)
            self._built[limits] = built
        return built[1]


def _build_table(numbers: Numbers, limits: RuleLimits) -> pa.Table:
    columns = {
        limits.column(name): pa.array([of_key[place] for of_key in numbers.values()], pa.float64())
        for place, name in enumerate(limits.columns)
    }
    return pa.table({"k": pa.array(list(numbers), pa.string()), **columns})


def _build_key(columns: Sequence[str]) -> Column:
    """Build the key of a row, as tables have keys; NULL where one of its parts is."""
    texts = [F.col(f"{_ROW}.{quote_name(name)}").cast("string") for name in columns]
    parts = [part for text in texts for part in (F.lit(SEPARATOR), text)]
    return F.concat(*parts[1:])
