"""What is wrong with a query, where, and what to write instead.

Offsets are 0-based characters of the text, ends are exclusive; only a `Finding` speaks of lines and columns.
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
    """A suggestion that can be applied: what to write instead of a part of the text."""

    span: Span
    text: str
    words: str | None = None
    """What a person reads, where it is not the text."""
    problem: str = ""
    """A sentence on the mistake, where this change mends it; empty: what is said of the place."""
    alone: bool = False
    """True: meant only where nothing else is wrong with the text."""


Suggestion: TypeAlias = str | Rewrite | None
"""What to write instead: words for a person, or a change of the text."""


def instead(span: Span, text: str | None) -> Rewrite | None:
    """Another text at this place; None when there is none."""
    return None if text is None else Rewrite(span, text)


def quoted(text: str) -> str:
    """A text constant as the dialect writes it."""
    return "'" + text.replace("'", "''") + "'"


def instead_of_constant(span: Span, text: str | None) -> Rewrite | None:
    """Another text constant at this place; None when there is none."""
    return None if text is None else Rewrite(span, quoted(text), text)


def instead_of_step(span: Span, steps: Iterable[str], wrong: str, meant: str | None) -> Rewrite | None:
    """Another step in a text constant of steps with dots between; None when there is none."""
    if meant is None:
        return None
    return Rewrite(span, quoted(".".join(meant if step == wrong else step for step in steps)), meant)


# A pathological query must not make its own report a bomb.
MAX_FINDINGS = 100
MOST_SUGGESTED = 20
"""For how many misspelt names of a query the nearest one is looked for: that costs more than all else."""


class Severity(Enum):
    """Whether a query with this finding may run."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to say about a query.

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
    """What to write, for a person; not always at the place."""
    edit: Edit | None = None
    """The suggestion as an edit of the text; None where only a person can apply it."""

    def violation(self, field: str) -> Violation:
        """It as one of the field that holds the query."""
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
    """What the text may name beside the streams' columns."""
    accepted: bool = False
    """Whether an earlier version took the text and may be running it."""
    references: list[Reference] = field(default_factory=list)
    """Reference tables that the text reads, as they were come across."""
    patterns: set[str] = field(default_factory=set)
    """Regular expressions of the text that were looked at."""
    _errors: list[Finding] = field(default_factory=list)
    _warnings: list[Finding] = field(default_factory=list)
    _starts: list[int] | None = None
    _looked: int = 0

    def error(self, code: str, span: Span, message: str, suggestion: Suggestion = None) -> None:
        """The query cannot run."""
        self._add(Severity.ERROR, code, span, message, suggestion)

    def warn(self, code: str, span: Span, message: str, suggestion: Suggestion = None) -> None:
        """The query runs, but someone should know."""
        self._add(Severity.WARNING, code, span, message, suggestion)

    def object_to(self, code: str, span: Span, message: str, suggestion: Suggestion = None) -> None:
        """What an earlier version let through: an error, but a warning for a text that it accepted.

        For what Spark can run all the same. A query that runs must not end because its check has learnt more.
        """
        severity = Severity.WARNING if self.accepted else Severity.ERROR
        self._add(severity, code, span, message, suggestion)

    def nearest(self, wrong: str, known: Iterable[str]) -> str | None:
        """The known name that was probably meant; None when none is near, or nobody reads on that far."""
        self._looked += 1
        return nearest(wrong, known) if self._looked <= MOST_SUGGESTED else None

    def note_reference(self, reference: Reference) -> None:
        """The text reads a reference table."""
        self.references.append(reference)

    def together(self, words: str, *rewrites: Rewrite) -> Rewrite:
        """Several changes of the text as one, of all that lies between the first and the last."""
        ordered = sorted(rewrites, key=lambda rewrite: rewrite.span)
        start, end = ordered[0].span[0], ordered[-1].span[1]
        parts, offset = [], start
        for rewrite in ordered:
            parts += [self.text[offset : rewrite.span[0]], rewrite.text]
            offset = rewrite.span[1]
        return Rewrite((start, end), "".join(parts), words)

    @property
    def failed(self) -> bool:
        """Whether an error was found."""
        return bool(self._errors)

    def place(self, span: Span) -> tuple[int, int, int, int]:
        """Line and column of a part of the text, and those of what stands just behind it."""
        return *self._place(span[0]), *self._place(max(span))

    def findings(self) -> tuple[Finding, ...]:
        """Every finding once, errors first, each kind in the order of the text."""
        return tuple(
            finding
            for kind in (self._errors, self._warnings)
            for finding in sorted(dict.fromkeys(kind), key=lambda finding: (finding.line, finding.column))
        )[:MAX_FINDINGS]

    def _add(self, severity: Severity, code: str, span: Span, message: str, suggestion: Suggestion) -> None:
        kind = self._errors if severity is Severity.ERROR else self._warnings
        if len(kind) < MAX_FINDINGS:
            words, edit = self._suggested(suggestion)
            kind.append(Finding(code, severity, message, *self.place(span), words, edit))
        elif kind is self._errors:
            raise Enough(code, span, message)

    def _suggested(self, suggestion: Suggestion) -> tuple[str | None, Edit | None]:
        if not isinstance(suggestion, Rewrite):
            return suggestion, None
        edit = Edit(*self.place(suggestion.span), suggestion.text)
        return suggestion.words or suggestion.text, edit

    def _place(self, offset: int) -> tuple[int, int]:
        if self._starts is None:
            self._starts = line_starts(self.text)
        line = bisect_right(self._starts, min(offset, len(self.text)))
        return line, min(offset, len(self.text)) - self._starts[line - 1] + 1


class Refused(Exception):  # noqa: N818 - reads as what happened
    """The text cannot be read any further; carries the one error that stopped it."""

    def __init__(
        self,
        code: str,
        span: Span,
        problem: str,
        suggestion: Suggestion = None,
        *,
        repairs: Sequence[Rewrite] = (),
        guess: str | None = None,
    ) -> None:
        """`repairs` may make a query of the text. If none does: `suggestion`, and `guess`, a keyword."""
        super().__init__(problem)
        self.repairs = repairs
        self.code = code
        self.span = span
        self.problem = problem
        self.suggestion = suggestion
        self.guess = guess


class Enough(Refused):
    """So much is wrong with the text that nobody reads more of it."""


def all_near(wrong: str, known: Iterable[str]) -> list[str]:
    """The few known words that may have been meant, the nearest first."""
    return [word for word in get_close_matches(wrong[:128], sorted(known), n=3) if word != wrong]
