"""JsonDelete(document, path)."""

from __future__ import annotations

from daggersql.functions.jsonpaths import check_json_path
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.families import Family
from daggersql.ir.types import STRING

FUNCTION = Function(
    "JsonDelete",
    (Signature((Family.TEXT, Family.TEXT), STRING, "jsondelete({0}, {1})"),),
    own=True,
    check=check_json_path(1, place_only=True),
    doc=Doc(
        "A JSON document without what a path leads to; a path that leads nowhere leaves it as it is. One that"
        " leads to an element of a list more than once, as two .. do, deletes as many elements there. NULL"
        " for NULL and, counted as bad data, for what is no JSON.",
        (("document", "JSON text"), ("path", "a JSON path, a constant")),
        (
            ("""JsonDelete('{"a": 1, "b": 2}', '$.b')""", '{"a":1}'),
            ("""JsonDelete('{"a": [1, 2, 3]}', '$.a[-1]')""", '{"a":[1,2]}'),
        ),
        dagger="ends the job on NULL, on what is no JSON, on a path that leads nowhere, on a negative"
        " position and on $, the whole document: it is never deleted here, and the check warns of it.",
    ),
)
