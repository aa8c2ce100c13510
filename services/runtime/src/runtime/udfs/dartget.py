"""DartGet(name, key[, refresh hours][, default]): the value that a reference table has for a key.

The fast form looks each different key of a batch up once.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from runtime.references import Tables, mapping, worker


def reference(
    name: str,
    key: str | None,
    refresh: int | str | None = 1,
    default: str | None = None,
    *,
    tables: Tables,
) -> str | None:
    """The value of one key; the third argument may be the default. Raises: InvalidContent."""
    hours = refresh if isinstance(refresh, int) else 1
    default = refresh if isinstance(refresh, str) else default
    values = mapping(tables.get(name, hours))
    return None if key is None else values.get(key, default)


def compute(names: pa.Array, keys: pa.Array, defaults: pa.Array) -> pa.Array:
    """The values of many keys, of the tables of the running batch."""
    answers = pa.nulls(len(keys), pa.string())
    for name in pc.unique(names).to_pylist():
        if name is None:
            continue
        values = worker.table(name).mapping
        coded = keys.dictionary_encode()
        known = coded.dictionary.to_pylist()
        found = pa.array([values.get(key) for key in known], pa.string()).take(coded.indices)
        there = pa.array([key in values for key in known], pa.bool_()).take(coded.indices)
        given = pc.if_else(there, found, pc.if_else(keys.is_valid(), defaults, pa.scalar(None, pa.string())))
        answers = pc.if_else(pc.equal(names, name), given, answers)
    return answers


def register(spark: SparkSession) -> None:
    """Bring `dartget(STRING, STRING, STRING) -> STRING` to the session."""
    # The stub wants the kind of UDF named; pyspark itself warns when it is, and goes by the annotations.
    spark.udf.register("dartget", arrow_udf(compute, "string"))  # type: ignore[call-overload]
