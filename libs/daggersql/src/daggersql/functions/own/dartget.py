"""DartGet(name, key[, refresh hours][, default])."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.references import HOURS, builds, signatures, use
from daggersql.functions.signature import Doc, Function
from daggersql.ir.expr import Expr
from daggersql.ir.families import Family
from daggersql.ir.ops import Form
from daggersql.ir.types import STRING


def _check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    use(arguments, report, entries=False)


_FORM = Form("dartget({0}, {1}, {2})")

FUNCTION = Function(
    "DartGet",
    signatures(STRING, Family.INTEGER, Family.TEXT),
    own=True,
    check=_check,
    build=builds(_FORM, STRING),
    doc=Doc(
        about="The value that a reference table has for a key, as text; objects as compact JSON. A key that"
        " is not there, or has null, gives the default, or NULL. NULL for NULL. All rows of a batch see one"
        " version of the table.",
        parameters=(
            ("name", "a constant: the name of a registered reference table"),
            ("key", "text; letter case matters"),
            HOURS,
            ("default", "text for a key that is not there"),
        ),
        examples=(),
        dagger="Ends the job for a key that is not there, and for a value that is no text.",
    ),
)
