"""JsonDelete(document, path): a JSON document without what a path leads to; unchanged when that is nothing.

NULL for NULL and for what is no JSON. Fast form: each different document of an Arrow batch is read once
(`jsonpath.for_distinct` tells why in Python).
"""

from __future__ import annotations

import pyarrow as pa

from runtime.values import jsonpath
from runtime.values.jsonfilter import MissingError
from runtime.values.registration import Registration


def reference(document: str | None, path: str | None) -> str | None:
    """Delete that part of one document; None for NULL and for what is no JSON."""
    if document is None or path is None:
        return None
    try:
        return delete(document, path)
    except jsonpath.BadDocumentError:
        return None


def delete(document: str, path: str) -> str:
    """Delete that part of a document. Raises `BadDocumentError`."""
    root = [jsonpath.loads(document)]
    try:
        selected = jsonpath.follow(root, jsonpath.compile_path(path))
    except MissingError:
        selected = []
    # From the back, so that positions in a list stay true. Where a path leads to an element more than once,
    # as two `..` do, json-path deletes as many. The document itself stays.
    places = [(place[0], key) for place in selected for key in jsonpath.names(place) if place[0] is not root]
    for holder, key in sorted(places, key=lambda place: isinstance(place[1], int) and -place[1]):
        if key < len(holder) if isinstance(holder, list) else key in holder:
            del holder[key]
    return jsonpath.dumps(root[0])


def compute(document: pa.Array, path: pa.Array) -> pa.Array:
    """Delete the parts of many documents: texts in, texts out, all of one length."""
    return jsonpath.for_distinct((document, path), delete)[0]


def register(session: Registration) -> None:
    """Bring `jsondelete(STRING, STRING) -> STRING` to the session."""
    session.function("jsondelete", compute, "string")
