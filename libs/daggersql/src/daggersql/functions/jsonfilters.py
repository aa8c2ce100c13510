"""The filters of JSON paths as Jayway's json-path 2.4 reads them: what stands in `[?( )]`.

What it reads in a way that nobody means (an operator that never holds, a name with && in it) is refused.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from daggersql.functions.javaregexes import compile_pattern
from daggersql.functions.jsonsteps import (
    Comparison,
    Condition,
    Constant,
    Inner,
    Junction,
    Number,
    Path,
    Regex,
)
from daggersql.functions.regexes import what_is_wrong

_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
_NUMBER = re.compile(r"-?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_OPERATOR = re.compile(r"[<>=!~]+|[a-zA-Z]+\b")
_PATTERN = re.compile(r"/((?:[^/\\]|\\.)*)/(i?)", re.DOTALL)
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_EQUAL = ("==", "!=", "===", "!==")
_RELATIONS = (*_EQUAL, "<", "<=", ">", ">=", "=~")
_OF_LISTS = ("in", "nin", "subsetof")
_WORDS = (*_OF_LISTS, "contains", "size", "empty")
# Words that json-path knows too, but that never hold in it.
_INSTEAD = {
    "exists": "the path alone asks whether it leads anywhere",
    "all": "subsetof, with the sides exchanged, asks that",
    "type": "it asks for no type",
    "matches": "=~ takes a pattern",
    "anyof": "json-path 2.4 has subsetof only",
    "noneof": "json-path 2.4 has subsetof only",
}
_DEEPEST = 20
_Part = TypeVar("_Part")


@dataclass(slots=True)
class FilterReader:
    """Reads from left to right; where a filter names a path, `path` reads it. Raises: ValueError."""

    text: str
    offset: int
    depth: int = 0
    inside: int = 0
    """Number of filters that are open at this place."""
    objections: list[str] = field(default_factory=list)
    """Sentences about what can be read, but not as json-path reads it."""

    @abstractmethod
    def path(self) -> Path:
        """Read the steps from here on."""

    @property
    def rest(self) -> str:
        """Text that is not read yet."""
        return self.text[self.offset :]

    def filter(self) -> Condition:
        """Behind the question mark."""
        self.inside += 1
        self.blanks()
        self.must("(")
        condition = self.either()
        self.must(")")
        self.inside -= 1
        return condition

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
        """Read a condition, with the blanks around it."""
        self.blanks()
        parsed: Condition
        if self.take("!"):
            self.blanks()
            path = self.rest[:1] in ("@", "$")
            parsed = self.condition()
            if path and isinstance(parsed, Comparison) and parsed.operator != "exists":
                self.objections.append("What ! is about stands in parentheses: !(@.a == 1).")
            parsed = Junction("not", (parsed,))
        elif self.take("("):
            parsed = self.either()
            self.must(")")
        else:
            parsed = self.comparison()
        self.blanks()
        return parsed

    def comparison(self) -> Condition:
        """Read a comparison, or a path that must lead somewhere."""
        left = self.side()
        self.blanks()
        operator = self.match(_OPERATOR)
        if operator is None:
            if not isinstance(left, Inner):
                raise ValueError("A constant alone is no filter of a JSON path.")
            if left.from_root:
                self.objections.append("Alone, a path from $ asks about the element in json-path: write @.a.")
            return Comparison("exists", left, left)
        word = operator[0].lower()
        self.blanks()
        if word not in (*_RELATIONS, *_WORDS):
            operators = f"{', '.join(_RELATIONS)}, {', '.join(_WORDS)}"
            why = _INSTEAD.get(word, f"there are {operators}")
            raise ValueError(f"There is no operator {operator[0]} in a JSON path's filter: {why}.")
        right = self.side()
        _check_sides(word, left, right)
        return Comparison(word, left, right)

    def side(self) -> Inner | Constant | Regex:
        """Read a path, a pattern or a constant."""
        if self.rest[:1] in ("@", "$"):
            self.offset += 1
            inner = Inner(self.text[self.offset - 1] == "$", self.path())
            if self.rest[:1] in ("&", "|"):
                self.objections.append("A blank stands between a path and && or || in a filter.")
            return inner
        pattern = self.match(_PATTERN)
        if pattern is None:
            return Constant(self.literal())
        wrong = what_is_wrong(pattern[1], native=False)
        if wrong is not None and wrong[0] != "REGEX_TOO_COSTLY":
            raise ValueError(wrong[1])
        if wrong is not None:
            self.objections.append(wrong[1])
        return Regex(compile_pattern(pattern[1], ignore_case=bool(pattern[2])))

    def literal(self) -> Any:
        """Read a constant, a list of constants or an object of them."""
        if self.rest[:1] in ("'", '"'):
            return self.quotation()
        for word, value in (("true", True), ("false", False), ("null", None)):
            if self.take(word):
                return value
        if self.take("["):
            return self.several(self.literal, "]")
        if self.take("{"):
            return dict(self.several(self.member, "}"))
        number = self.match(_NUMBER)
        if number is None:
            raise ValueError(f"The filter of this JSON path does not go on with {self.rest[:20]!r}.")
        return Number(number[0])

    def member(self) -> tuple[str, Any]:
        """Read a name and its value."""
        name = self.quotation()
        self.blanks()
        self.must(":")
        self.blanks()
        return name, self.literal()

    def several(self, read: Callable[[], _Part], end: str) -> list[_Part]:
        """Read any number of elements, separated by commas, up to `end`."""
        values: list[_Part] = []
        self.blanks()
        while not self.take(end):
            if values:
                self.must(",")
                self.blanks()
            values.append(read())
            self.blanks()
        return values

    def quotation(self) -> str:
        """Read a text in quotes."""
        match = self.match(_QUOTED)
        if match is None:
            raise ValueError("A text in quotes is missing, or a quote is not closed, in this JSON path.")
        return _ESCAPED.sub(_unescape, match[1] if match[1] is not None else match[2])

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Read the next text if it matches; None, and nothing is read, if it does not."""
        match = pattern.match(self.text, self.offset)
        if match is not None:
            self.offset = match.end()
        return match

    def take(self, text: str) -> bool:
        """Read this text if it is next; True if it was."""
        is_next = self.text.startswith(text, self.offset)
        self.offset += len(text) * is_next
        return is_next

    def must(self, text: str) -> None:
        """Read this text. Raises: ValueError when it is not next."""
        if not self.take(text):
            raise ValueError(f"There is a {text} missing in this JSON path.")

    def blanks(self) -> None:
        """Blanks do not matter here."""
        while self.rest[:1] == " ":
            self.offset += 1


def _check_sides(word: str, left: object, right: object) -> None:
    """Sides with which this operator can ever hold."""
    if (word == "=~") != (isinstance(left, Regex) != isinstance(right, Regex)):
        raise ValueError("The operator =~, and no other, has a pattern on one side: @.a =~ /x.*/i.")
    if word in _EQUAL and isinstance(left, Constant) and isinstance(left.value, list | dict):
        raise ValueError("A list or an object stands on the right: on the left it equals nothing.")
    if not isinstance(right, Constant):
        return
    if word in _OF_LISTS and not isinstance(right.value, list):
        raise ValueError(f"The operator {word} is followed by a list: @.a {word} ['x', 'y'].")
    if word == "empty" and not isinstance(right.value, bool):
        raise ValueError("The operator empty is followed by true or false.")
    if word == "size" and not isinstance(right.value, Number):
        raise ValueError("The operator size is followed by a number.")


def _unescape(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _CONTROLS.get(escape[2], escape[2])
