"""Words for units of time, and which one a misspelt word means."""

from __future__ import annotations

from collections.abc import Iterable

from daggerspec.nearest import nearest
from daggersql.findings import Report, Span, instead, instead_of_constant, unless

_OFTEN = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "MILLISECOND")
UNITS = frozenset(
    (*_OFTEN, "MICROSECOND", "DOW", "ISODOW", "DOY", "ISOYEAR", "EPOCH", "CENTURY", "DECADE", "MILLENNIUM")
)
"""All that the dialect reads as units; each place says which it takes. An S behind one is forgiven."""
_SHORT = {"S": "SECOND", "M": "MINUTE", "H": "HOUR", "D": "DAY", "W": "WEEK", "MS": "MILLISECOND"}


def refuse(
    word: str, span: Span, report: Report, allowed: Iterable[str] = UNITS, *, constant: bool = False
) -> None:
    """Report a word that is no unit of time, or none of `allowed`, and suggest one."""
    change = instead_of_constant if constant else instead
    if word.upper().removesuffix("S") in UNITS:
        report.error(
            "UNSUPPORTED_OPERATION", span, f"The unit is one of {', '.join(allowed)}.", change(span, "DAY")
        )
        return
    near = _SHORT.get(word.upper()) or nearest(word, _OFTEN, cutoff=0.5)
    others = unless(near, f": there are {', '.join(_OFTEN)}")
    report.error(
        "BAD_INTERVAL",
        span,
        f"There is no unit of time called {word[:40]}{others}.",
        change(span, near),
    )
