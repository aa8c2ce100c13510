"""SQL's own functions of JSON. The document becomes a VARIANT: native, and exact for every scalar."""

from __future__ import annotations

import re
from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.jsonpaths import constant_path
from daggersql.functions.signature import Signature, overloaded
from daggersql.ir.expr import Expr
from daggersql.ir.families import Family
from daggersql.ir.types import BOOLEAN, STRING

# What Spark reads as a path of a VARIANT.
_ONE_PLACE = re.compile(r"""\$(?:\.[^\s.\[\]()'"]+|\[\d{1,9}\]|\['[^'\\]+'\]|\["[^"\\]+"\])*""", re.ASCII)
_AT = "try_variant_get(try_parse_json({0}), {1}, 'variant')"
_KIND = f"schema_of_variant({_AT})"
_NESTED = f"({_KIND} LIKE 'OBJECT%' OR {_KIND} LIKE 'ARRAY%')"


def _check_path(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    """The path is a constant that leads to one place."""
    path = arguments[1]
    if constant_path(path, report) is not None and not _ONE_PLACE.fullmatch(str(path.value)):
        report.object_to(
            "INVALID_JSON_PATH",
            path.span,
            "The path begins with $ and leads to one place by names and positions: JsonQuery takes others.",
            "JsonQuery",
        )


FUNCTIONS = (
    overloaded(
        "JSON_VALUE",
        Signature(
            (Family.TEXT, Family.TEXT),
            STRING,
            f"CASE WHEN NOT {_NESTED} THEN try_variant_get(try_parse_json({{0}}), {{1}}, 'string') END",
        ),
        check=_check_path,
    ),
    overloaded(
        "JSON_QUERY",
        Signature((Family.TEXT, Family.TEXT), STRING, f"CASE WHEN {_NESTED} THEN to_json({_AT}) END"),
        check=_check_path,
    ),
    overloaded(
        "JSON_EXISTS",
        Signature(
            (Family.TEXT, Family.TEXT),
            BOOLEAN,
            f"CASE WHEN {{0}} IS NOT NULL AND {{1}} IS NOT NULL THEN {_AT} IS NOT NULL END",
        ),
        check=_check_path,
    ),
)
