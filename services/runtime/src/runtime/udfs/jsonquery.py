"""JsonQuery(document, path): the part of a JSON document that a path leads to, as JSON text.

A path to one place gives what stands there, NULL for nothing and for null; a path that may lead to several
gives a list, with null where the last name is missing. NULL for NULL and for what is no JSON. Fast form: each
different document of an Arrow batch is read once (`jsonpath.for_distinct` tells why in Python).
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from daggersql.functions.jsonsteps import Names
from runtime import badvalues, jsonpath
from runtime.jsonpath import Absent


def reference(document: str | None, path: str | None) -> str | None:
    """The part of one document."""
    if document is None or path is None:
        return None
    try:
        return query(document, path)
    except jsonpath.BadDocumentError:
        return None


def query(document: str, path: str) -> str | None:
    """The same. Raises `BadDocumentError`."""
    root, way = [jsonpath.loads(document)], jsonpath.compiled(path)
    try:
        found = jsonpath.places(root, way, Absent.AMONG_SEVERAL)
    except jsonpath.MissingError:
        return None
    if way.length:
        holder = jsonpath.value(found[0])
        return str(len(holder)) if isinstance(holder, list | dict) else None
    last = way.steps[-1] if way.steps else None
    if way.definite and isinstance(last, Names) and len(last.names) > 1:
        holder = found[0][0]
        return jsonpath.dumps({name: holder.get(name) for name in last.names})
    values = [jsonpath.value(place) for place in found]
    if not way.definite:
        return jsonpath.dumps(values)
    return None if values[0] is None else jsonpath.dumps(values[0])


def register(spark: SparkSession) -> None:
    """Bring `jsonquery(STRING, STRING) -> STRING` to the session."""
    tally = badvalues.tally(spark, "jsonquery")

    def compute(document: pa.Array, path: pa.Array) -> pa.Array:
        answers, bad = jsonpath.for_distinct((document, path), query)
        tally.add(bad)
        return answers

    # The stub wants the kind of UDF named; pyspark itself warns when it is, and goes by the annotations.
    spark.udf.register("jsonquery", arrow_udf(compute, "string"))  # type: ignore[call-overload]
