"""`outside(number, band => 4, season => 'hour of week')` in conditions of rules: whether a number is none
that rows with the same tags usually have in this hour.

What is usual is known to the driver alone (`rules.sketch`), behind Spark: so a condition is compiled for each
answer, TRUE, FALSE, and NULL where too little is known, and the driver takes that of the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Final

from daggerspec.alertrules import digest_texts
from daggerspec.columns import BAND
from daggerspec.nearest import nearest
from daggersql.emit.expressions import sql as sql_of
from daggersql.findings import Report, Span, instead_of_constant
from daggersql.ir.expr import Expr, cast, constant, null
from daggersql.ir.families import Family, fits
from daggersql.ir.relations import ROW
from daggersql.ir.types import BOOLEAN, Type
from daggersql.rules.compiled import SeasonalBand
from daggersql.rules.past import tells_rows_apart
from daggersql.rules.sketch import SEASONS
from daggersql.syntax import tree
from daggersql.syntax.cursor import span_of

NAME: Final = "outside"
DEFAULT_BAND: Final = 4.0
MOST_BAND: Final = 1_000
_WORDS: Final = [season for season in SEASONS if season]


class BandCalls:
    """Calls in the conditions of one rule, which has one band at most."""

    def __init__(self, tags: Mapping[str, Type]) -> None:
        """tags: their types."""
        self._tags = tags
        self.band: SeasonalBand | None = None

    def read(
        self, call: tree.Anonymous, text: str, check: Callable[[tree.Node], Expr], report: Report
    ) -> str:
        """Read a call in a condition; return its column, empty where it is wrong, which is reported. check:
        checks the expression of the number.
        """
        numbers = [one for one in call.expressions if not isinstance(one, tree.NamedArgument)]
        named = {one.name.lower(): one for one in call.expressions if isinstance(one, tree.NamedArgument)}
        if len(numbers) != 1 or len(numbers) + len(named) != len(call.expressions):
            message = f"{NAME} takes a number, and by name band and season: {NAME}(n, band => 4)."
            report.error("WRONG_ARGUMENT_COUNT", span_of(call), message)
            return ""
        for name, argument in named.items():
            if name not in ("band", "season"):
                message = f"{NAME} has no argument {name}: it has band and season."
                report.error("INVALID_ARGUMENT", span_of(argument), message)
        band = self._read_band(named["band"].expression, report) if "band" in named else DEFAULT_BAND
        season = self._read_season(named["season"].expression, report) if "season" in named else ""
        number = check(numbers[0])
        if not number.wrong and not fits(number.type, Family.NUMBER):
            report.error("TYPE_MISMATCH", number.span, f"{NAME} judges a number.")
        for name, kind in self._tags.items():
            if not tells_rows_apart(kind):
                message = f"{NAME} knows rows by their tags: {name} is no text or whole number."
                report.error("TYPE_MISMATCH", span_of(call), message)
        if report.failed:
            return ""
        return self._take(call, text, number, band, season, report)

    def _take(
        self, call: tree.Anonymous, text: str, number: Expr, band: float, season: str, report: Report
    ) -> str:
        (begin, end), (first, last) = span_of(call), number.span
        columns = dict.fromkeys(node.ref.path[0] for node in number.nodes() if node.ref is not None)
        call_band = SeasonalBand(
            text[begin:end], text[first:last], f"nullif(CAST({sql_of(number)} AS DOUBLE), double('NaN'))",
            tuple(self._tags), tuple(columns), band, season,
        )  # fmt: skip
        if self.band is not None and not self.band.is_same(call_band):
            message = f"A rule has one {NAME}, and this one has {self.band.text} already: write two rules."
            report.error("UNSUPPORTED_OPERATION", span_of(call), message)
            return ""
        self.band = self.band or call_band
        return column_of(self.band)

    def _read_band(self, node: tree.Node, report: Report) -> float:
        try:
            band = Decimal(node.name if isinstance(node, tree.Literal) and not node.is_string else "")
        except InvalidOperation:
            band = Decimal(0)
        if not 0 < band <= MOST_BAND:
            message = (
                f"A band is a number above 0, and {MOST_BAND:,} at most: a multiple of the usual distance."
            )
            report.error("INVALID_ARGUMENT", span_of(node), message)
        return float(band)

    def _read_season(self, node: tree.Node, report: Report) -> str:
        word = node.name.lower() if isinstance(node, tree.Literal) and node.is_string else ""
        if word not in _WORDS:
            near, span = nearest(word, _WORDS), span_of(node)
            message = f"A season is {' or '.join(map(repr, _WORDS))}; without one, leave it out."
            report.error("INVALID_ARGUMENT", span, message, instead_of_constant(span, near))
        return word


def column_of(band: SeasonalBand) -> str:
    """Name the column that stands for a call while its condition is checked."""
    return BAND + digest_texts((band.series, repr(band.band)))


def answer(condition: Expr, band: SeasonalBand, *, outside: bool | None) -> Expr:
    """Return a condition for one answer of its call."""

    def replace(node: Expr) -> Expr | None:
        if node.ref is None or node.ref.relation != ROW or node.ref.path != (column_of(band),):
            return None
        return _literal(outside, node.span)

    return condition.rebuild(replace)


def _literal(value: bool | None, span: Span) -> Expr:
    if value is None:
        return cast(null(span), BOOLEAN)
    return constant("TRUE" if value else "FALSE", value, BOOLEAN, span)
