"""Words for the types of CAST, and which one a word of other databases, or a misspelt one, means."""

from __future__ import annotations

from typing import Final

from daggersql.findings import Report, Span, instead, unless
from daggersql.syntax import tree

_Type = tree.TypeName
TYPES: Final = {
    "BOOLEAN": _Type.BOOLEAN, "TINYINT": _Type.TINYINT, "SMALLINT": _Type.SMALLINT, "INT": _Type.INT,
    "INTEGER": _Type.INT, "BIGINT": _Type.BIGINT, "FLOAT": _Type.FLOAT, "DOUBLE": _Type.DOUBLE,
    "DECIMAL": _Type.DECIMAL, "DEC": _Type.DECIMAL, "NUMERIC": _Type.DECIMAL, "CHAR": _Type.STRING,
    "VARCHAR": _Type.STRING, "STRING": _Type.STRING, "BINARY": _Type.BINARY, "VARBINARY":
    _Type.BINARY, "BYTES": _Type.BINARY, "DATE": _Type.DATE, "TIMESTAMP": _Type.TIMESTAMP,
    "TIMESTAMP_LTZ": _Type.TIMESTAMP,
}  # fmt: skip
"""All that the dialect reads as types."""
_ELSEWHERE: Final = {
    "TEXT": "STRING", "NVARCHAR": "STRING", "BPCHAR": "STRING", "BOOL": "BOOLEAN", "BYTE": "TINYINT",
    "SHORT": "SMALLINT", "LONG": "BIGINT", "INT2": "SMALLINT", "INT4": "INT", "INT8": "BIGINT",
    "INT32": "INT", "INT64": "BIGINT", "SIGNED": "BIGINT", "UNSIGNED": "BIGINT", "REAL": "FLOAT",
    "FLOAT4": "FLOAT", "FLOAT8": "DOUBLE", "FLOAT32": "FLOAT", "FLOAT64": "DOUBLE", "NUMBER": "DECIMAL",
    "BIGNUMERIC": "DECIMAL", "BYTEA": "BYTES", "BLOB": "BYTES", "TIMESTAMPTZ": "TIMESTAMP",
    "TIMESTAMP_NTZ": "TIMESTAMP", "DATETIME": "TIMESTAMP",
}  # fmt: skip
"""Types by their names in other databases and languages."""


def refuse(word: str, span: Span, report: Report) -> None:
    """Report a word that is no type, and suggest one."""
    near = _ELSEWHERE.get(word.upper()) or report.nearest(word, TYPES)
    others = unless(near, f": {', '.join(sorted(TYPES))} are")
    report.error(
        "UNSUPPORTED_TYPE",
        span,
        f"{word[:40]} is not a type one can cast to{others}.",
        instead(span, near),
    )
