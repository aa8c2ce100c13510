"""JsonQuery(document, path): the part of a JSON document that a path leads to, as JSON text.

A path to one place gives what stands there, NULL for nothing and for null; a path that may lead to several
gives a list, with null where the last name is missing. A function at the end of the path gives what it makes
of that, NULL where it has nothing to go by. NULL for NULL and for what is no JSON. Fast form: each different
document of an Arrow batch is read once (`jsonpath.for_distinct` tells why in Python).
"""

from __future__ import annotations

import pyarrow as pa

from runtime.values import jsonpath
from runtime.values.jsonfilter import MissingError
from runtime.values.registration import Registration


def reference(document: str | None, path: str | None) -> str | None:
    """Return that part of one document as JSON; None for nothing, NULL, and what is no JSON."""
    if document is None or path is None:
        return None
    try:
        return query(document, path)
    except jsonpath.BadDocumentError:
        return None


def query(document: str, path: str) -> str | None:
    """Return that part of a document. Raises `BadDocumentError`."""
    way = jsonpath.compile_path(path)
    try:
        answers = jsonpath.answers([jsonpath.loads(document)], way)
    except MissingError:
        return None
    if not way.definite:
        return jsonpath.dumps(answers)
    return None if answers[0] is None else jsonpath.dumps(answers[0])


def register(session: Registration) -> None:
    """Bring `jsonquery(STRING, STRING) -> STRING` to the session."""
    counter = session.invalid_input("jsonquery")

    def compute(document: pa.Array, path: pa.Array) -> pa.Array:
        answers, invalid = jsonpath.for_distinct((document, path), query)
        counter.add(invalid)
        return answers

    session.register_uncounted("jsonquery", compute, "string")
