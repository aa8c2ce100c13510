"""SQL's own functions of JSON. The document becomes a VARIANT: native, and exact for every scalar."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from daggersql.findings import Report, Span
from daggersql.functions.jsonpaths import constant_path
from daggersql.functions.signature import Signature, corrected_form, overloads
from daggersql.ir.expr import Expr
from daggersql.ir.families import Family
from daggersql.ir.ops import Form
from daggersql.ir.types import BOOLEAN, STRING

# What Spark reads as a path of a VARIANT.
_ONE_PLACE = re.compile(r"""\$(?:\.[^\s.*\[\]()'"]+|\[\d{1,9}\]|\['[^'\\]+'\]|\["[^"\\]+"\])*""", re.ASCII)
# A half of a character that is written by its number: Spark takes a text with one for no JSON. To Java it is
# one character, and to whoever reads bytes of it a question mark.
_HALF = (
    r"(?<!\\)((?:\\\\)*)(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_QUOTED = _HALF.replace("\\", "\\\\").replace("{", "{{").replace("}", "}}")
_GIVEN = "try_parse_json({0})"
_READ = f"coalesce({_GIVEN}, try_parse_json(regexp_replace({{0}}, '{_QUOTED}', '$1?')))"


def _at(document: str) -> str:
    return f"try_variant_get({document}, {{1}}, 'variant')"


def _is_nested(document: str) -> str:
    """Write the condition that a value is an object or a list."""
    kind = f"schema_of_variant({_at(document)})"
    return f"({kind} LIKE 'OBJECT%' OR {kind} LIKE 'ARRAY%')"


def _form(template: Callable[[str], str]) -> Form:
    """Build a form over a document."""
    return corrected_form(template(_READ), template(_GIVEN))


def _check_path(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    """Check that the path is a constant that leads to one place."""
    path = arguments[1]
    if constant_path(path, report) is not None and not _ONE_PLACE.fullmatch(str(path.value)):
        report.object_to(
            "INVALID_JSON_PATH",
            path.span,
            "The path begins with $ and leads to one place by names and positions: JsonQuery takes others.",
            "JsonQuery",
        )


FUNCTIONS = (
    overloads(
        "JSON_VALUE",
        Signature(
            (Family.TEXT, Family.TEXT),
            STRING,
            _form(
                lambda of: f"CASE WHEN NOT {_is_nested(of)} THEN try_variant_get({of}, {{1}}, 'string') END"
            ),
        ),
        check=_check_path,
    ),
    overloads(
        "JSON_QUERY",
        Signature(
            (Family.TEXT, Family.TEXT),
            STRING,
            _form(lambda of: f"CASE WHEN {_is_nested(of)} THEN to_json({_at(of)}) END"),
        ),
        check=_check_path,
    ),
    overloads(
        "JSON_EXISTS",
        Signature(
            (Family.TEXT, Family.TEXT),
            BOOLEAN,
            _form(
                lambda of: f"CASE WHEN {{0}} IS NOT NULL AND {{1}} IS NOT NULL THEN {_at(of)} IS NOT NULL END"
            ),
        ),
        check=_check_path,
    ),
)
