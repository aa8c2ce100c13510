"""JsonUpdate(document, path, value): a JSON document with another value where a path leads.

A last name that is missing in an object is added at its end; a path that leads nowhere else leaves the
document as it is. NULL is written as null. NULL for a NULL document or path and for what is no JSON. Fast
form: the query hands the value over as JSON that Spark writes, `{"v": …}`, a map as `{"m": …}`; each
different pair of document and value of an Arrow batch is read once (`jsonpath.for_distinct`
tells why in Python).
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from daggersql.functions.jsonsteps import Number
from runtime.values import jsonpath
from runtime.values.featurerows import java_text
from runtime.values.jsonfilter import MissingError
from runtime.values.registration import Registration


def reference(document: str | None, path: str | None, new: Any) -> str | None:
    """Write the new value into one document; None for NULL and for what is no JSON."""
    if document is None or path is None:
        return None
    try:
        return _update(document, path, as_json(new))
    except jsonpath.BadDocumentError:
        return None


def update(document: str, path: str, new: str) -> str:
    """Write the new value, as the query hands it over, into a document. Raises `BadDocumentError`."""
    handed = jsonpath.loads(new)
    members = handed.get("m")
    new_value = handed.get("v") if members is None else dict(sorted(members.items()))
    return _update(document, path, new_value)


def compute(document: pa.Array, path: pa.Array, new: pa.Array) -> pa.Array:
    """Update many documents: texts in, texts out, all of one length."""
    return jsonpath.for_distinct((document, path, new), update)[0]


def register(session: Registration) -> None:
    """Bring `jsonupdate(STRING, STRING, STRING) -> STRING` to the session."""
    session.function("jsonupdate", compute, "string")


def as_json(new: Any) -> Any:
    """Convert a SQL value to JSON, the way Spark writes it."""
    match new:
        case bool() | str() | None:
            return new
        case int():
            return Number(new)
        case float():
            return Number(java_text(new)) if math.isfinite(new) else None
        case Decimal():
            return Number(f"{new:f}")
        case bytes():
            return base64.b64encode(new).decode()
        case datetime():
            return f"{new:%Y-%m-%dT%H:%M:%S}.{new.microsecond // 1000:03}Z"
        case Mapping():
            return {str(name): as_json(inner) for name, inner in new.items()}
    return [as_json(value) for value in new]


def _update(document: str, path: str, new: Any) -> str:
    root = [jsonpath.loads(document)]
    try:
        places = jsonpath.follow(root, jsonpath.compile_path(path))
    except MissingError:
        places = []
    for place in places:
        if place[0] is not root:  # the document itself stays
            for key in jsonpath.names(place):
                place[0][key] = new
    return jsonpath.dumps(root[0])
