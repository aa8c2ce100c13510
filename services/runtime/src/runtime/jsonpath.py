"""JSON documents as text, and paths into them: read, changed, written again.

Numbers stay as they were written, whatever their size, and so does the order of members; of a member that
comes twice the last counts, as everywhere. `daggersql.functions.jsonpaths` reads the paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from functools import lru_cache
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from daggersql.functions import jsonpaths, jsonsteps
from daggersql.functions.jsonsteps import (
    Comparison,
    Condition,
    Deep,
    Everything,
    Indexes,
    Inner,
    Junction,
    Matching,
    Names,
    Path,
    Slice,
    Step,
)

Place: TypeAlias = tuple[Any, Any]
"""A list or object, and the position or name in it."""

compiled = lru_cache(maxsize=256)(jsonpaths.parse)
"""The path of a text, which the check has let through."""


class Number(str):
    """A number as it was written."""

    __slots__ = ()


class BadDocumentError(ValueError):
    """The text is no JSON."""


class MissingError(LookupError):
    """A path that leads to one place leads nowhere in this document."""


_LONE = re.compile("[\ud800-\udfff]")
_quoted = json.encoder.encode_basestring


def loads(text: str) -> Any:
    """A document. Raises `BadDocumentError`."""
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError) as problem:
        raise BadDocumentError from problem


def dumps(value: Any) -> str:
    """The document's text, without blanks. Raises `BadDocumentError` for one that is nested too deeply."""
    try:
        text = "".join(_written(value))
    except RecursionError as problem:
        raise BadDocumentError from problem
    # Half of a surrogate pair is no character: it stays an escape.
    return text if text.isascii() else _LONE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


class Absent(Enum):
    """Whether a last name that an object does not have is a place."""

    NEVER = auto()
    AMONG_SEVERAL = auto()
    """Behind a step that leads to several places."""
    ALWAYS = auto()


def places(document: list[Any], path: Path, absent: Absent) -> list[Place]:
    """Where a path leads, in a list whose one element is the document.

    Raises `MissingError` where it leads nowhere although it is one to a single place.
    """
    found: list[Place] = [(document, 0)]
    definite = True
    steps = path.steps
    for at, step in enumerate(steps):
        if isinstance(step, Deep):
            found = [below for place in found for below in _with_all_below(place)]
            definite = False
            continue
        last = at == len(steps) - 1
        deep = at > 0 and isinstance(steps[at - 1], Deep)
        several = absent is Absent.AMONG_SEVERAL and not definite
        missing = last and not deep and (several or absent is Absent.ALWAYS)
        found = list(chain.from_iterable(_step(each, step, definite, missing, document) for each in found))
        definite = definite and jsonsteps.is_definite(step, last=last)
    return found


def value(place: Place) -> Any:
    """What stands at a place; None where a name is missing."""
    holder, key = place
    return holder.get(key) if isinstance(holder, dict) else holder[key]


def for_distinct(columns: Sequence[pa.Array], answer: Callable[..., str | None]) -> tuple[pa.Array, int]:
    """`answer` of each row of text columns, computed once for rows that are equal.

    Gives the answers, NULL where a column is and where `answer` raises `BadDocumentError`, and how many rows
    those last ones were. Python reads the documents: Spark's own functions lose the order of members, the
    quotes of texts and the digits of numbers.
    """
    coded = [column.dictionary_encode() for column in columns]
    keys, known = np.zeros(len(columns[0]), dtype=np.int64), np.ones(len(columns[0]), dtype=np.bool_)
    for column in coded:
        codes = column.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        keys = keys * max(1, len(column.dictionary)) + codes
        known &= column.is_valid().to_numpy(zero_copy_only=False)
    _, first, at, counts = np.unique(keys[known], return_index=True, return_inverse=True, return_counts=True)
    rows = np.flatnonzero(known)[first]
    texts = [column.take(pa.array(rows)).to_pylist() for column in columns]
    answers: list[str | None] = []
    bad = 0
    for number, arguments in enumerate(zip(*texts, strict=True)):
        try:
            answers.append(answer(*arguments))
        except BadDocumentError:
            answers.append(None)
            bad += int(counts[number])
    places_ = np.zeros(len(known), dtype=np.int64)
    places_[known] = at
    return pa.array(answers, pa.string()).take(pa.array(places_, mask=~known)), bad


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_decoder = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_no_constant)


def _written(value: Any) -> Iterator[str]:
    match value:
        case Number():
            yield value
        case str():
            yield _quoted(value)
        case dict():
            yield "{"
            for number, (name, each) in enumerate(value.items()):
                yield f"{',' * (number > 0)}{_quoted(name)}:"
                yield from _written(each)
            yield "}"
        case list():
            yield "["
            for number, each in enumerate(value):
                yield "," * (number > 0)
                yield from _written(each)
            yield "]"
        case _:
            yield {None: "null", True: "true", False: "false"}[value]


def _with_all_below(place: Place) -> Iterator[Place]:
    stack = [place]
    while stack:
        here = stack.pop()
        yield here
        stack += reversed(list(_all(value(here))))


def _all(holder: Any) -> Iterator[Place]:
    if isinstance(holder, dict | list):
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            yield holder, key


def _step(place: Place, step: Step, definite: bool, missing: bool, document: list[Any]) -> Iterator[Place]:
    """Where one step leads from one place."""
    holder = value(place)
    match step:
        case Everything():
            yield from _all(holder)
        case Names(names) if isinstance(holder, dict):
            there = [name for name in names if missing or name in holder]
            if definite and not there:
                raise MissingError
            yield from ((holder, name) for name in there)
        case Indexes(indexes) if isinstance(holder, list):
            there_at = [index + len(holder) * (index < 0) for index in indexes]
            found = [index for index in there_at if 0 <= index < len(holder)]
            if definite and len(indexes) == 1 and not found:
                raise MissingError
            yield from ((holder, index) for index in found)
        case Slice(start, stop) if isinstance(holder, list):
            yield from ((holder, index) for index in range(*slice(start, stop).indices(len(holder))))
        case Matching(condition) if isinstance(holder, list):
            yield from (each for each in _all(holder) if _holds(condition, value(each), document))
        case Matching(condition) if isinstance(holder, dict):
            if _holds(condition, holder, document):
                yield place
        case _ if definite:
            raise MissingError


_ABSENT = object()


def _holds(condition: Condition, element: Any, document: list[Any]) -> bool:
    match condition:
        case Junction("not", (one,)):
            return not _holds(one, element, document)
        case Junction(kind, conditions):
            return (all if kind == "all" else any)(_holds(each, element, document) for each in conditions)
        case Comparison("exists", left):
            return _side(left, element, document) is not _ABSENT
        case Comparison("in" | "nin" as word, left, tuple() as choices):
            found = _side(left, element, document)
            return any(_equal(found, _plain(each)) for each in choices) == (word == "in")
        case Comparison(operator, left, right):
            return _compared(operator, _side(left, element, document), _side(right, element, document))
    raise AssertionError(condition)


def _side(side: Any, element: Any, document: list[Any]) -> Any:
    """A side's value, numbers as Python has them; absent when its path leads nowhere."""
    if not isinstance(side, Inner):
        return _plain(side)
    path = Path(side.steps)
    try:
        found = places(document if side.from_root else [element], path, Absent.NEVER)
    except MissingError:
        return _ABSENT
    if not path.definite:
        return [_plain(value(each)) for each in found] or _ABSENT
    return _plain(value(found[0])) if found else _ABSENT


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Number) else value


def _equal(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _compared(operator: str, left: Any, right: Any) -> bool:
    if operator in ("==", "!="):
        return _equal(left, right) == (operator == "==")
    numbers = isinstance(left, float) and isinstance(right, float)
    if not numbers and not (isinstance(left, str) and isinstance(right, str)):
        return False
    match operator:
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
    return bool(left >= right)
