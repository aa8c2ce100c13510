"""JsonUpdate(document, path, value)."""

from __future__ import annotations

from daggersql.functions.jsonpaths import check_json_path
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.families import Family
from daggersql.ir.types import STRING


def _handing_over(value: str, name: str = "v") -> str:
    written = f"to_json(named_struct('{name}', {value}), map('ignoreNullFields', 'false'))"
    return f"jsonupdate({{0}}, {{1}}, {written})"


FUNCTION = Function(
    "JsonUpdate",
    (
        Signature((Family.TEXT, Family.TEXT, Family.INTEGER), STRING, _handing_over("{2}")),
        Signature((Family.TEXT, Family.TEXT, Family.DECIMAL), STRING, _handing_over("{2}")),
        # JSON has no NaN and no infinity.
        Signature(
            (Family.TEXT, Family.TEXT, Family.NUMBER),
            STRING,
            _handing_over("CASE WHEN abs({2}) < double('inf') THEN {2} END"),
        ),
        # Under another name, so that its members are put in order: a map has none of its own.
        Signature((Family.TEXT, Family.TEXT, Family.MAP), STRING, _handing_over("{2}", "m")),
        Signature((Family.TEXT, Family.TEXT, Family.ANY), STRING, _handing_over("{2}")),
    ),
    own=True,
    check=check_json_path(1, place_only=True),
    doc=Doc(
        "A JSON document with another value where a path leads. A last name that is missing is added; a path"
        " that leads nowhere else leaves the document as it is. NULL for a NULL document or path and, counted"
        " as bad data, for what is no JSON.",
        (
            ("document", "JSON text"),
            ("path", "a JSON path, a constant"),
            ("value", "anything: messages and maps (by key) become objects, lists lists, NULL null"),
        ),
        (
            ("""JsonUpdate('{"a": 1}', '$.a', 2.5)""", '{"a":2.5}'),
            ("""JsonUpdate('{"a": [1, 2]}', '$.b', 'x')""", '{"a":[1,2],"b":"x"}'),
        ),
        dagger="ends the job on NULL, on what is no JSON, on a path that leads nowhere, on a negative"
        " position and on $, the whole document: it is never replaced here, and the check warns of it.",
    ),
)
