"""What the windows and sessions that are open in a checkpoint are made of: how old their oldest record is.

Spark's state is read as tables. A session's state has its start in the key; groups and rows that are made of
sessions say themselves since when records must be known, in a column `__since` (`daggersql.ir.whole`).
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import StructField, StructType

from daggerspec.columns import SINCE
from runtime.state.store import Place

_log = logging.getLogger(__name__)
_SESSION = "sessionStartTime"


def oldest(session: SparkSession, checkpoint: Place) -> datetime | None:
    """The earliest time that sessions, or what is made of them, began at; None where there are none.

    A state that cannot be read tells nothing: what it would have told of is not written then.
    """
    try:
        stores = session.read.format("state-metadata").load(str(checkpoint))
        names = stores.select("operatorId", "stateStoreName").distinct().collect()
        times = [_oldest(session, checkpoint, row["operatorId"], row["stateStoreName"]) for row in names]
    except PySparkException as problem:
        _log.warning("the state in %s cannot be read: %s", checkpoint, str(problem).splitlines()[0])
        return None
    micros = min((time for time in times if time is not None), default=None)
    return None if micros is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def _oldest(session: SparkSession, checkpoint: Place, operator: int, store: str) -> int | None:
    """The same of one store, in us."""
    reader = session.read.format("statestore").option("operatorId", operator).option("storeName", store)
    rows = reader.load(str(checkpoint))
    row = F.struct("*").cast(_numbered(rows.schema))
    times = [F.min(F.unix_micros(column)) for column in _times(row, rows.schema)]
    if not times:
        return None
    return min((time for time in rows.select(*times).collect()[0] if time is not None), default=None)


def _numbered(of: StructType) -> StructType:
    """The same with fields called by their places: aggregates of one function have one name in a state."""
    kinds = [field_.dataType for field_ in of.fields]
    inside = [_numbered(kind) if isinstance(kind, StructType) else kind for kind in kinds]
    return StructType([StructField(str(number), kind) for number, kind in enumerate(inside)])


def _times(row: Column, of: StructType) -> list[Column]:
    """The columns that tell when sessions began, at any depth of a row whose fields are numbered."""
    columns: list[Column] = []
    for number, field in enumerate(of.fields):
        column = row.getField(str(number))
        if isinstance(field.dataType, StructType):
            columns += _times(column, field.dataType)
        elif field.name in (_SESSION, SINCE):
            columns.append(column)
    return columns
