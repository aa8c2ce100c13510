"""JSON paths as Jayway's json-path 2.4 reads them (https://github.com/json-path/JsonPath), which Dagger uses.

    $  .name  ['name']  ['a','b']  [0]  [-1]  [0,2]  [1:3]  [*]  .*  ..name  ..*  [?(@.price > 10 && @.sku)]

A path without the dollar begins at the root too, and @ is the root as well. The last step may be a function:
length() size() sum() avg() min() max() stddev() concat(). What json-path takes but reads as something else (a
slice from one end to the other, a position behind `..` that goes on) is refused: it would be silently wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from daggersql.findings import Report, Span, instead, instead_of_constant
from daggersql.functions.checks import is_null
from daggersql.functions.jsonfilters import FilterReader
from daggersql.functions.jsonsteps import (
    Constant,
    Deep,
    Everything,
    Function,
    Indexes,
    Inner,
    Matching,
    Names,
    Number,
    Path,
    Slice,
    Step,
)
from daggersql.functions.signature import Check
from daggersql.ir.expr import Expr

MAX_PATH = 1024
_NAME = re.compile(r"[^\s.\[\]()]+")
# In a filter a path ends before an operator.
_INNER_NAME = re.compile(r"[^\s.\[\](),<>=!~&|]+")
_WHOLE = re.compile(r"-?\d{1,9}", re.ASCII)
_SLICE = re.compile(r"(-?\d{1,9})?\s*:\s*(-?\d{1,9})?", re.ASCII)
# What json-path reads as a parameter, and as what it is.
_PARAMETER = re.compile(r"(\d+(?:\.\d+)?)|\"([^\"\\,()\[\]{}]*)\"", re.ASCII)
_Part = TypeVar("_Part")
_OF_LENGTH = ("length", "size")
_OF_VALUES = ("sum", "avg", "min", "max", "stddev", "concat")


def parse(text: str) -> Path:
    """Read a path. Raises `ValueError` with a sentence about what is wrong."""
    return _read(text)[0]


def _read(text: str) -> tuple[Path, list[str]]:
    """Read a path, with sentences about parts that json-path accepts and reads differently.

    Raises: ValueError with the problem.
    """
    if len(text) > MAX_PATH:
        raise ValueError(f"A JSON path has at most {MAX_PATH:,} characters.")
    trimmed = text.strip()
    if not trimmed:
        raise ValueError("A JSON path is not empty.")
    reader = _PathReader(trimmed if trimmed[0] in "$@" else f"$.{trimmed}", offset=1)
    path = reader.path()
    if reader.rest:
        raise ValueError(f"A JSON path goes on with . or [, not with {reader.rest[:20]!r}.")
    return path, reader.objections


def constant_path(path: Expr, report: Report) -> Path | None:
    """Read an argument as a JSON path; None for NULL, and, with a finding, when it is none."""
    if path.wrong or is_null(path):
        return None
    if not isinstance(path.value, str):
        report.error(
            "INVALID_ARGUMENT", path.span, "The path is written as a constant.", instead(path.span, "'$.a'")
        )
        return None
    try:
        parsed, objections = _read(path.value)
    except ValueError as wrong:
        joined = re.sub(r"\s+", "", path.value)
        rewrite = instead_of_constant(path.span, joined if _reads(joined) else None)
        report.error("INVALID_JSON_PATH", path.span, str(wrong), rewrite)
        return None
    for objection in objections:
        report.object_to("INVALID_JSON_PATH", path.span, objection)
    return parsed


def _reads(path: str) -> bool:
    """Tell whether a text is a JSON path without errors."""
    try:
        return not _read(path)[1]
    except ValueError:
        return False


def check_json_path(number: int, *, place_only: bool = False) -> Check:
    """Check that argument `number` is a constant JSON path; `place_only`: to places in a document."""

    def check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
        path = constant_path(arguments[number], report)
        if path is None or not place_only:
            return
        if path.function is not None:
            detail = "A function has no place in the document that could be changed."
            report.error("INVALID_JSON_PATH", arguments[number].span, detail)
        elif any(_turns_back(path.steps[index:]) for index in range(len(path.steps))):
            detail = "With a filter behind ..* json-path changes the list around what the filter finds."
            report.object_to("INVALID_JSON_PATH", arguments[number].span, detail)
        elif not path.steps:
            detail = "The path leads to the whole document, which stays as it is."
            report.warn("INVALID_JSON_PATH", arguments[number].span, detail)

    return check


@dataclass(slots=True)
class _PathReader(FilterReader):
    """Reads a path from left to right."""

    def path(self) -> Path:
        """Read all steps, and a function behind them."""
        steps: list[Step] = []
        function = None
        while function is None:
            if self.take(".."):
                steps += [Deep(), self.bracket() if self.take("[") else self.name()]
            elif self.take("."):
                function = self.function()
                if function is None:
                    steps.append(self.bracket() if self.take("[") else self.name())
            elif self.take("["):
                steps.append(self.bracket())
            else:
                break
        behind = steps[1:] if function else steps[1:-1]
        if any(
            isinstance(step, Deep) and isinstance(following, Indexes | Slice)
            for step, following in zip(steps, behind, strict=False)
        ):
            self.objections.append("A position behind .. ends a JSON path: json-path would not look at it.")
        return Path(tuple(steps), function)

    def name(self) -> Step:
        """Behind a dot."""
        if self.take("*"):
            return Everything()
        name = self.match(_INNER_NAME if self.inside else _NAME)
        if name is None:
            raise ValueError("A name or * must follow a dot; names with blanks stand in brackets: ['a b'].")
        if self.rest.startswith("("):
            raise ValueError(f"There is no function {name[0]}() in a JSON path, or not at this place.")
        return Names((name[0],))

    def function(self) -> Function | None:
        """Behind a dot, the function that ends a path; None, and nothing is read, for a name."""
        start = self.offset
        name = self.match(_INNER_NAME)
        if name is None or not self.take("("):
            self.offset = start
            return None
        if name[0] not in (*_OF_LENGTH, *_OF_VALUES):
            functions = ", ".join((*_OF_LENGTH, *_OF_VALUES))
            raise ValueError(f"There is no function {name[0]}() in a JSON path: there are {functions}.")
        first = self.offset
        parameters = tuple(self.several(self.parameter, ")"))
        if parameters and (self.inside or name[0] in _OF_LENGTH):
            raise ValueError(f"The function {name[0]}() has no parameters here.")
        if self.offset - first == 2 and parameters:
            raise ValueError("A parameter of one character is not seen by json-path: write 4.0 for 4.")
        if self.rest[:1] in (".", "["):
            raise ValueError("A function ends a JSON path.")
        return Function(name[0], parameters)

    def parameter(self) -> Constant | Inner:
        """Read a number without a sign, a text in double quotes, or a path to one place."""
        if self.rest[:1] in ("$", "@"):
            self.offset += 1
            self.inside += 1
            path = self.path()
            self.inside -= 1
            if not path.definite:
                raise ValueError("A parameter leads to one place: json-path would not count another.")
            return Inner(True, path)
        constant = self.match(_PARAMETER)
        if constant is None:
            raise ValueError('A parameter is a number, a plain "text" or a path.')
        return Constant(constant[2] if constant[1] is None else Number(constant[1]))

    def bracket(self) -> Step:
        """Behind an opening bracket, which is closed."""
        self.blanks()
        step: Step
        if self.take("*"):
            step = Everything()
        elif self.take("?"):
            step = Matching(self.filter())
        elif (part := self.match(_SLICE)) is not None:
            step = self.slice(part)
        elif self.rest[:1] in ("'", '"'):
            step = Names(self.list_of(self.quotation))
        else:
            step = Indexes(self.list_of(self.whole))
        self.blanks()
        self.must("]")
        return step

    def slice(self, part: re.Match[str]) -> Slice:
        """Build a slice; object to ends that are counted from different ends of the list."""
        start, stop = (None if group is None else int(group) for group in part.groups())
        if start is not None and stop is not None and (start < 0) != (stop < 0):
            self.objections.append(
                "Both ends of a slice are counted from the same end: json-path does not mix them."
            )
        return Slice(start, stop)

    def list_of(self, read: Callable[[], _Part]) -> tuple[_Part, ...]:
        """Read one or more elements, separated by commas."""
        parts: list[_Part] = []
        while not parts or self.take(","):
            self.blanks()
            parts.append(read())
            self.blanks()
        return tuple(parts)

    def whole(self) -> int:
        """Read a position."""
        match = self.match(_WHOLE)
        if match is None:
            raise ValueError("Brackets hold 'names', positions, a slice, * or ?(a filter).")
        return int(match[0])


def _turns_back(steps: Sequence[Step]) -> bool:
    """Tell whether a filter follows all that .. finds, or a .. of that."""
    match steps:
        case [Deep(), Everything() | Matching(), Matching(), *_] | [
            Deep(),
            Everything(),
            Deep(),
            Matching(),
            *_,
        ]:
            return True
    return False
