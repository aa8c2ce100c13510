"""DartGet(name, key[, refresh hours][, default])."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.references import use
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.tree import Expr, call, cast, constant
from daggersql.types import NULL, STRING, Family, family

TEXT, WHOLE = Family.TEXT, Family.INTEGER


def _check(arguments: Sequence[Expr], place: Span, report: Report) -> None:
    use(arguments, report, entries=False)


def _build(arguments: Sequence[Expr], place: Span, report: Report, where: Expr | None) -> Expr:
    given = [each for each in arguments[2:] if family(each.type) is TEXT]
    default = given[0] if given else constant("NULL", None, NULL, place)
    parts = [cast(each, STRING) for each in (*arguments[:2], default)]
    return call("dartget({0}, {1}, {2})", STRING, place, *parts)


FUNCTION = Function(
    "DartGet",
    (
        Signature((TEXT, TEXT), STRING, "{0}"),
        Signature((TEXT, TEXT, WHOLE), STRING, "{0}"),
        Signature((TEXT, TEXT, TEXT), STRING, "{0}"),
        Signature((TEXT, TEXT, WHOLE, TEXT), STRING, "{0}"),
    ),
    own=True,
    check=_check,
    build=_build,
    doc=Doc(
        about="The value that a reference table has for a key, as text; objects as compact JSON. A key that"
        " is not there gives the default, or NULL. NULL for NULL. All rows of a batch see one version of the"
        " table.",
        parameters=(
            ("name", "a constant: the name of a registered reference table"),
            ("key", "text; letter case matters"),
            (
                "refresh hours",
                "a constant: how old the table may grow; 1 when left out, 0 reads it for each batch",
            ),
            ("default", "text for a key that is not there"),
        ),
        examples=(),
        dagger="Ends the job for a key that is not there, and for a value that is no text.",
    ),
)
