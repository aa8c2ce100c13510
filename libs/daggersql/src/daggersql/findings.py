"""Findings about a query: problem, place and suggestion.

Offsets are 0-based characters of the text, ends are exclusive; only a `Finding` has lines and columns.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from typing import TypeAlias

from daggerspec.nearest import nearest
from daggerspec.violation import Edit, Violation, line_starts
from daggersql.environment import Environment, Reference

Span: TypeAlias = tuple[int, int]
"""Start and end offset of a part of the query."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Suggestion that can be applied: a replacement of a part of the text."""

    span: Span
    text: str
    words: str | None = None
    """Suggestion for a person, where it is not the text itself."""
    problem: str = ""
    """A sentence on the mistake, where this change mends it; empty: what is said of the place."""
    alone: bool = False
    """True: meant only where nothing else is wrong with the text."""


Suggestion: TypeAlias = str | Rewrite | None
"""Suggestion: words for a person, or a change of the text."""


def instead(span: Span, text: str | None) -> Rewrite | None:
    """Replace a part of the text; None without a replacement."""
    return None if text is None else Rewrite(span, text)


def quote_constant(text: str) -> str:
    """Quote a text constant of the dialect."""
    return "'" + text.replace("'", "''") + "'"


def instead_of_constant(span: Span, text: str | None) -> Rewrite | None:
    """Replace a text constant; None without a replacement."""
    return None if text is None else Rewrite(span, quote_constant(text), text)


def instead_of_step(span: Span, steps: Iterable[str], wrong: str, right: str | None) -> Rewrite | None:
    """Replace a step in a text constant of dotted steps; None without a replacement."""
    if right is None:
        return None
    path = ".".join(right if step == wrong else step for step in steps)
    return Rewrite(span, quote_constant(path), right)


# A pathological query must not make its own report a bomb.
MAX_FINDINGS = 100
MOST_SUGGESTED = 20
"""Misspelt names of a query for which the nearest name is searched: that costs more than all other checks."""


class Severity(Enum):
    """Severity: a query with an error cannot run."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """Error or warning about a query.

    `line` and `column` count from 1, in characters (a tab is one); `end_line` and `end_column` are the place
    just behind the last character. `code` is UPPER_SNAKE and listed in docs/dialect.md.
    """

    code: str
    severity: Severity
    message: str
    line: int
    column: int
    end_line: int
    end_column: int
    suggestion: str | None = None
    """Suggested text, for a person; not always at the place."""
    edit: Edit | None = None
    """The suggestion as an edit of the text; None where only a person can apply it."""

    def violation(self, field: str) -> Violation:
        """Convert it to a violation of the field that has the query."""
        return Violation(
            field,
            self.message,
            self.code,
            self.line,
            self.column,
            self.end_line,
            self.end_column,
            self.suggestion,
            self.edit,
        )


@dataclass(slots=True)
class Report:
    """Collects the findings about one text."""

    text: str
    environment: Environment = field(default_factory=Environment)
    """Names that the text may use beside the streams' columns."""
    accepted: bool = False
    """True if an earlier version accepted the text, and may be running it."""
    references: list[Reference] = field(default_factory=list)
    """Reference tables that the text reads, in the order of checking."""
    patterns: set[str] = field(default_factory=set)
    """Regular expressions of the text that were checked."""
    _errors: list[Finding] = field(default_factory=list)
    _warnings: list[Finding] = field(default_factory=list)
    _starts: list[int] | None = None
    _searches: int = 0

    def error(self, code: str, span: Span, message: str, suggestion: Suggestion = None) -> None:
        """Report an error: the query cannot run."""
        self._add(Severity.ERROR, code, span, message, suggestion)

    def warn(self, code: str, span: Span, message: str, suggestion: Suggestion = None) -> None:
        """Report a warning: the query can run."""
        self._add(Severity.WARNING, code, span, message, suggestion)

    def object_to(self, code: str, span: Span, message: str, suggestion: Suggestion = None) -> None:
        """Report an error that earlier versions did not find; for a text that one accepted, a warning.

        Use it where Spark can run the query all the same: a running query must not end because its check
        became stricter.
        """
        severity = Severity.WARNING if self.accepted else Severity.ERROR
        self._add(severity, code, span, message, suggestion)

    def nearest(self, wrong: str, names: Iterable[str]) -> str | None:
        """Find the name that was probably meant; None if none is near, and after MOST_SUGGESTED searches."""
        self._searches += 1
        return nearest(wrong, names) if self._searches <= MOST_SUGGESTED else None

    def note_reference(self, reference: Reference) -> None:
        """Note a reference table that the text reads."""
        self.references.append(reference)

    def together(self, words: str, *rewrites: Rewrite) -> Rewrite:
        """Join rewrites to one that replaces everything between the first and the last."""
        ordered = sorted(rewrites, key=lambda rewrite: rewrite.span)
        start, end = ordered[0].span[0], ordered[-1].span[1]
        parts, offset = [], start
        for rewrite in ordered:
            parts += [self.text[offset : rewrite.span[0]], rewrite.text]
            offset = rewrite.span[1]
        return Rewrite((start, end), "".join(parts), words)

    @property
    def failed(self) -> bool:
        """True if an error was reported."""
        return bool(self._errors)

    def place(self, span: Span) -> tuple[int, int, int, int]:
        """Return line and column of a part of the text, and those just behind it."""
        return *self._place(span[0]), *self._place(max(span))

    def findings(self) -> tuple[Finding, ...]:
        """List every finding once, errors first, each severity in the order of the text."""
        return tuple(
            finding
            for kind in (self._errors, self._warnings)
            for finding in sorted(dict.fromkeys(kind), key=lambda finding: (finding.line, finding.column))
        )[:MAX_FINDINGS]

    def _add(self, severity: Severity, code: str, span: Span, message: str, suggestion: Suggestion) -> None:
        kind = self._errors if severity is Severity.ERROR else self._warnings
        if len(kind) < MAX_FINDINGS:
            words, edit = self._split(suggestion)
            kind.append(Finding(code, severity, end_sentence(message), *self.place(span), words, edit))
        elif kind is self._errors:
            raise TooManyErrors(code, span, message)

    def _split(self, suggestion: Suggestion) -> tuple[str | None, Edit | None]:
        """Split a suggestion into words for a person, and an edit if it can be applied."""
        if not isinstance(suggestion, Rewrite):
            return suggestion, None
        edit = Edit(*self.place(suggestion.span), suggestion.text)
        return suggestion.words or suggestion.text, edit

    def _place(self, offset: int) -> tuple[int, int]:
        if self._starts is None:
            self._starts = line_starts(self.text)
        line = bisect_right(self._starts, min(offset, len(self.text)))
        return line, min(offset, len(self.text)) - self._starts[line - 1] + 1


def unless(suggestion: object, otherwise: str) -> str:
    """Return how a sentence about a misspelt name goes on; a suggestion already says which name is meant."""
    return "" if suggestion else otherwise


def end_sentence(sentence: str) -> str:
    """Return a sentence with one full stop at its end."""
    return f"{sentence.rstrip('. ')}."


class QueryError(Exception):
    """Error that ends the reading of a text."""

    def __init__(
        self,
        code: str,
        span: Span,
        problem: str,
        suggestion: Suggestion = None,
        *,
        repairs: Sequence[Rewrite] = (),
    ) -> None:
        """`repairs`: rewrites, one of which may make the text a query. Else `suggestion` is shown."""
        super().__init__(problem)
        self.repairs = repairs
        self.code = code
        self.span = span
        self.problem = problem
        self.suggestion = suggestion


class TooManyErrors(QueryError):  # noqa: N818 - reads as what happened
    """The text has more errors than are reported; checking stops."""


def all_near(wrong: str, words: Iterable[str]) -> list[str]:
    """Find at most three words that may have been meant, the nearest first."""
    return [word for word in get_close_matches(wrong[:128], sorted(words), n=3) if word != wrong]
