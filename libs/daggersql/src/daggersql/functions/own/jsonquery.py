"""JsonQuery(document, path)."""

from __future__ import annotations

from daggersql.functions.jsonpaths import check_json_path
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.types import STRING, Family

FUNCTION = Function(
    "JsonQuery",
    (Signature((Family.TEXT, Family.TEXT), STRING, "jsonquery({0}, {1})"),),
    own=True,
    check=check_json_path(1),
    doc=Doc(
        "The part of a JSON document that a path leads to, as JSON text: text comes in quotes, numbers as"
        " they were written. A path that may lead to several places gives a list, with null where the last"
        " name is missing. NULL when there is nothing or null, for NULL, and, counted as bad data, for what"
        " is no JSON.",
        (("document", "JSON text"), ("path", "a JSON path, a constant")),
        (
            ("""JsonQuery('{"a": {"b": [1, 2]}}', '$.a.b[-1]')""", "2"),
            ("""JsonQuery('{"a": [{"b": "x"}, {}]}', '$.a[*].b')""", '["x",null]'),
            ("""JsonQuery('{"a": 1}', '$.z')""", "NULL"),
        ),
        dagger="ends the job on NULL, on what is no JSON, and on a position behind a list's end.",
    ),
)
