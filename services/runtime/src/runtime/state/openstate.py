"""Find the start of the oldest open session in a checkpoint's state.

Spark's state is read as tables. A session's start is in its key; groups and rows that are computed from
sessions have the time since which they need records in a column `__since` (`daggersql.ir.whole`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import StructField, StructType

from chassis.logging import logger
from daggerspec.columns import SINCE
from runtime.state.store import Place

_SESSION = "sessionStartTime"


def oldest(session: SparkSession, checkpoint: Place) -> datetime | None:
    """Return the earliest start of open sessions, and of what is computed from them; None where there are
    none.

    Also None for state that cannot be read: incomplete sessions are then dropped, not written.
    """
    try:
        stores = session.read.format("state-metadata").load(str(checkpoint))
        names = stores.select("operatorId", "stateStoreName").distinct().collect()
        times = [_oldest(session, checkpoint, row["operatorId"], row["stateStoreName"]) for row in names]
    except PySparkException as problem:
        logger().warning("state.read_failed", checkpoint=str(checkpoint), why=str(problem).splitlines()[0])
        return None
    micros = min((time for time in times if time is not None), default=None)
    return None if micros is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def _oldest(session: SparkSession, checkpoint: Place, operator: int, store: str) -> int | None:
    """Return the earliest start in one store, in us; None where it has none."""
    reader = session.read.format("statestore").option("operatorId", operator).option("storeName", store)
    rows = reader.load(str(checkpoint))
    row = F.struct("*").cast(_with_numbered_fields(rows.schema))
    times = [F.min(F.unix_micros(column)) for column in _times(row, rows.schema)]
    if not times:
        return None
    return min((time for time in rows.select(*times).collect()[0] if time is not None), default=None)


def _with_numbered_fields(schema: StructType) -> StructType:
    """Name the fields of a schema by position: several aggregates of one function have equal names."""
    kinds = [field_.dataType for field_ in schema.fields]
    inside = [_with_numbered_fields(kind) if isinstance(kind, StructType) else kind for kind in kinds]
    return StructType([StructField(str(number), kind) for number, kind in enumerate(inside)])


def _times(row: Column, schema: StructType) -> list[Column]:
    """Return the columns with starts of sessions, at any depth of a row with numbered fields."""
    columns: list[Column] = []
    for number, field in enumerate(schema.fields):
        column = row.getField(str(number))
        if isinstance(field.dataType, StructType):
            columns += _times(column, field.dataType)
        elif field.name in (_SESSION, SINCE):
            columns.append(column)
    return columns
