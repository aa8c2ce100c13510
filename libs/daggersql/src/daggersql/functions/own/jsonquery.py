"""JsonQuery(document, path)."""

from __future__ import annotations

from daggersql.functions.jsonpaths import check_json_path
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.families import Family
from daggersql.ir.types import STRING

FUNCTION = Function(
    "JsonQuery",
    (Signature((Family.TEXT, Family.TEXT), STRING, "jsonquery({0}, {1})"),),
    own=True,
    check=check_json_path(1),
    doc=Doc(
        "The part of a JSON document that a path leads to, as JSON text: text comes in quotes, numbers as"
        " they were written. A path that may lead to several places gives a list, with null where the last"
        " name is missing. A path may end with a function: length() size() sum() avg() min() max() stddev()"
        " concat(). NULL when there is nothing or null, for NULL, and, counted as bad data, for what is no"
        " JSON. Paths are those of json-path 2.4, filters included: == != === !== < <= > >= =~ in nin"
        " subsetof contains size empty, && || !.",
        (("document", "JSON text"), ("path", "a JSON path, a constant")),
        (
            ("""JsonQuery('{"a": {"b": [1, 2]}}', '$.a.b[-1]')""", "2"),
            ("""JsonQuery('{"a": [{"b": "x"}, {}]}', '$.a[*].b')""", '["x",null]'),
            ("""JsonQuery('{"a": [{"b": 1}, {"b": 5}]}', '$.a[?(@.b > 2 || @.b == null)].b')""", "[5]"),
            ("""JsonQuery('{"a": [1, 2.5]}', '$.a.sum()')""", "3.5"),
            ("""JsonQuery('{"a": 1}', '$.z')""", "NULL"),
        ),
        dagger="ends the job on NULL, on what is no JSON, and on a position behind a list's end; max() of"
        " numbers that are all negative is 4.9E-324.",
    ),
)
