"""JSON paths as Jayway reads them (https://github.com/json-path/JsonPath), which is what Dagger uses.

    $  .name  ['name']  ['a','b']  [0]  [-1]  [0,2]  [1:3]  [*]  .*  ..name  ..*  [?(@.price > 10 && @.sku)]

A path without the dollar begins at the root too; a path to one place may end with .length(). Not taken:
Jayway's other functions, and the filters' operators other than == != < <= > >= in nin && || !.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from daggersql.findings import Report, Span
from daggersql.functions.checks import is_null
from daggersql.functions.jsonsteps import (
    Comparison,
    Condition,
    Deep,
    Everything,
    Indexes,
    Inner,
    Junction,
    Literal,
    Matching,
    Names,
    Path,
    Slice,
    Step,
)
from daggersql.functions.signature import Check
from daggersql.tree import Expr

MAX_PATH = 1024
_NAME = re.compile(r"[^\s.\[\]()]+")
_WHOLE = re.compile(r"-?\d{1,9}", re.ASCII)
_SLICE = re.compile(r"(-?\d{1,9})?\s*:\s*(-?\d{1,9})?", re.ASCII)
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_OPERATOR = re.compile(r"==|!=|<=|>=|<|>|(?:nin|in)\b", re.IGNORECASE)
_DEEPEST = 20
_LENGTH = ".length()"
_Part = TypeVar("_Part")


def parse(text: str) -> Path:
    """Read a path. Raises `ValueError` with a sentence about what is wrong."""
    if len(text) > MAX_PATH:
        raise ValueError(f"A JSON path has at most {MAX_PATH:,} characters.")
    trimmed = text.strip()
    if not trimmed:
        raise ValueError("A JSON path is not empty.")
    length = trimmed.endswith(_LENGTH)
    trimmed = trimmed.removesuffix(_LENGTH)
    reader = _Reader(trimmed if trimmed[:1] == "$" else f"$.{trimmed}", at=1)
    steps = reader.steps()
    if reader.rest:
        raise ValueError(f"A JSON path goes on with . or [, not with {reader.rest[:20]!r}.")
    path = Path(steps, length)
    if length and not path.definite:
        raise ValueError("A JSON path to several places has no length().")
    return path


def constant_path(path: Expr, report: Report) -> Path | None:
    """The JSON path that an argument is; nothing, once that is reported, when it is none, and for NULL."""
    if path.wrong or is_null(path):
        return None
    if not isinstance(path.value, str):
        report.error("INVALID_ARGUMENT", path.span, "The path is written as a constant.", "'$.a'")
        return None
    try:
        return parse(path.value)
    except ValueError as wrong:
        report.error("INVALID_JSON_PATH", path.span, str(wrong), re.sub(r"\s+", "", path.value))
        return None


def check_json_path(number: int, *, place_only: bool = False) -> Check:
    """A check that argument `number` is a constant JSON path; with `place_only` to places in a document."""

    def check(arguments: Sequence[Expr], place: Span, report: Report) -> None:
        found = constant_path(arguments[number], report)
        if found is not None and place_only and (found.length or not found.steps):
            detail = "The path leads to a place in the document: not to all of it, and not to a length."
            report.error("INVALID_JSON_PATH", arguments[number].span, detail)

    return check


@dataclass(slots=True)
class _Reader:
    """Reads a path from left to right."""

    text: str
    at: int
    depth: int = 0

    @property
    def rest(self) -> str:
        """What is still to be read."""
        return self.text[self.at :]

    def steps(self) -> tuple[Step, ...]:
        """All steps up to what is none."""
        found: list[Step] = []
        while True:
            if self.take(".."):
                found += [Deep(), self.bracket() if self.take("[") else self.name()]
            elif self.take("."):
                found.append(self.name())
            elif self.take("["):
                found.append(self.bracket())
            else:
                return tuple(found)

    def name(self) -> Step:
        """Behind a dot."""
        if self.take("*"):
            return Everything()
        name = self.match(_NAME)
        if name is None:
            raise ValueError("A name or * must follow a dot; names with blanks stand in brackets: ['a b'].")
        if self.rest.startswith("("):
            raise ValueError(f"Functions such as {name[0]}() are not supported in JSON paths.")
        return Names((name[0],))

    def bracket(self) -> Step:
        """Behind an opening bracket, which is closed."""
        self.blanks()
        step: Step
        if self.take("*"):
            step = Everything()
        elif self.take("?"):
            step = self.filter()
        elif (part := self.match(_SLICE)) is not None:
            step = Slice(*(None if each is None else int(each) for each in part.groups()))
        elif self.rest[:1] in ("'", '"'):
            step = Names(tuple(self.several(self.quoted)))
        else:
            step = Indexes(tuple(self.several(self.whole)))
        self.blanks()
        self.must("]")
        return step

    def filter(self) -> Step:
        """Behind the question mark."""
        self.blanks()
        self.must("(")
        condition = self.either()
        self.must(")")
        return Matching(condition)

    def either(self) -> Condition:
        """Conditions with || between them; && binds closer."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ValueError("The filter of this JSON path is nested too deeply.")
        choices = [self.both()]
        while self.take("||"):
            choices.append(self.both())
        self.depth -= 1
        return choices[0] if len(choices) == 1 else Junction("any", tuple(choices))

    def both(self) -> Condition:
        """Conditions with && between them."""
        parts = [self.condition()]
        while self.take("&&"):
            parts.append(self.condition())
        return parts[0] if len(parts) == 1 else Junction("all", tuple(parts))

    def condition(self) -> Condition:
        """One condition, and the blanks around it."""
        self.blanks()
        found: Condition
        if self.take("!"):
            found = Junction("not", (self.condition(),))
        elif self.take("("):
            found = self.either()
            self.must(")")
        else:
            found = self.comparison()
        self.blanks()
        return found

    def comparison(self) -> Condition:
        """Two sides, or a path that must exist."""
        left = self.side()
        self.blanks()
        operator = self.match(_OPERATOR)
        if operator is None:
            if not isinstance(left, Inner):
                raise ValueError("A constant alone is no filter of a JSON path.")
            return Comparison("exists", left)
        self.blanks()
        word = operator[0].lower()
        if word in ("in", "nin"):
            self.must("[")
            choices = tuple(self.several(self.literal))
            self.must("]")
            return Comparison(word, left, choices)
        return Comparison(word, left, self.side())

    def side(self) -> Inner | Literal:
        """A path or a constant."""
        if self.rest[:1] in ("@", "$"):
            self.at += 1
            return Inner(self.text[self.at - 1] == "$", self.steps())
        return self.literal()

    def literal(self) -> Literal:
        """A constant."""
        if self.rest[:1] in ("'", '"'):
            return self.quoted()
        for word, value in (("true", True), ("false", False), ("null", None)):
            if self.take(word):
                return value
        number = self.match(_NUMBER)
        if number is None:
            raise ValueError(f"The filter of this JSON path does not go on with {self.rest[:20]!r}.")
        return float(number[0])

    def several(self, read: Callable[[], _Part]) -> list[_Part]:
        """One or more, with commas between them."""
        found: list[_Part] = []
        while not found or self.take(","):
            self.blanks()
            found.append(read())
            self.blanks()
        return found

    def quoted(self) -> str:
        """A text in quotes."""
        found = self.match(_QUOTED)
        if found is None:
            raise ValueError("A quote is not closed in this JSON path.")
        return re.sub(r"\\(.)", r"\1", found[1] if found[1] is not None else found[2], flags=re.DOTALL)

    def whole(self) -> int:
        """A position."""
        found = self.match(_WHOLE)
        if found is None:
            raise ValueError("Brackets hold 'names', positions, a slice, * or ?(a filter).")
        return int(found[0])

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """What comes next, if it is this."""
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def take(self, text: str) -> bool:
        """Whether this comes next; if so, it is read."""
        found = self.text.startswith(text, self.at)
        self.at += len(text) * found
        return found

    def must(self, text: str) -> None:
        """This comes next."""
        if not self.take(text):
            raise ValueError(f"There is a {text} missing in this JSON path.")

    def blanks(self) -> None:
        """Blanks do not matter here."""
        while self.rest[:1] == " ":
            self.at += 1
