"""JSON documents as text, and paths into them: read, changed, written again.

Numbers stay as they were written, whatever their size, and so does the order of members; of a member that
comes twice the last counts, as everywhere. `daggersql.functions.jsonpaths` reads the paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from daggersql.functions import jsonpaths
from daggersql.functions.jsonsteps import (
    Constant,
    Deep,
    Everything,
    Indexes,
    Inner,
    Matching,
    Names,
    Number,
    Path,
    Slice,
    Step,
    is_definite,
)
from runtime.values import jsonfilter
from runtime.values.jsonfilter import UNDEFINED, MissingError

Place: TypeAlias = tuple[Any, Any]
"""A list or object, and the position or name in it, or several names."""

compile_path = lru_cache(maxsize=256)(jsonpaths.parse)
"""Parses a path's text, which the check has let through."""


MAX_CHARS: Final = 8 * 1024 * 1024
"""Of a document that is written. One value may stand in it many times, and in itself again: a query of a few
lines makes gigabytes of a few records."""


class BadDocumentError(ValueError):
    """The text is no JSON, or the document is too large to be written."""


# How many are put together before they are measured; of any two that follow each other one has characters.
_PIECES: Final = 64
_LONE = re.compile("[\ud800-\udfff]")
_quoted = json.encoder.encode_basestring


def loads(text: str) -> Any:
    """Parse a document. Raises `BadDocumentError`."""
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError) as problem:
        raise BadDocumentError from problem


def dumps(value: Any) -> str:
    """Serialize a document, without blanks.

    Raises `BadDocumentError` for one that is nested too deeply, or has more than `MAX_CHARS` characters.
    """
    pieces, parts, room = _serialize(value), [], MAX_CHARS
    try:
        while part := "".join(islice(pieces, _PIECES)):
            room -= len(part)
            if room < 0:
                raise BadDocumentError
            parts.append(part)
    except RecursionError as problem:
        raise BadDocumentError from problem
    text = "".join(parts)
    # Half of a surrogate pair is no character: it stays an escape.
    return text if text.isascii() else _LONE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def follow(document: list[Any], path: Path) -> list[Place]:
    """Follow a path, in a list whose one element is the document. A missing last name is a place too.

    Raises `MissingError` where a path to a single place leads nowhere.
    """
    return _Walk(document).places((document, 0), path, required=False)


def answers(document: list[Any], path: Path) -> list[Any]:
    """Evaluate a path and its function, in a list whose one element is the document.

    Raises `MissingError` where a path to a single place leads nowhere, and where a function has no input.
    """
    return _Walk(document).values((document, 0), path)


def value(place: Place) -> Any:
    """Return what stands at a place; None where a name is missing."""
    holder, key = place
    if isinstance(key, tuple):
        return {name: holder.get(name) for name in key}
    return holder.get(key) if isinstance(holder, dict) else holder[key]


def names(place: Place) -> tuple[Any, ...]:
    """Return the positions or names that a place has in its list or object."""
    return place[1] if isinstance(place[1], tuple) else (place[1],)


def for_distinct(columns: Sequence[pa.Array], answer: Callable[..., str | None]) -> tuple[pa.Array, int]:
    """Compute `answer` of each row of text columns, once for rows that are equal.

    Returns the answers, NULL where a column is and where `answer` raises `BadDocumentError`, and the number
    of rows where it did. Python reads the documents: Spark's own functions lose the order of members, the
    quotes of texts and the digits of numbers.
    """
    coded = [column.dictionary_encode() for column in columns]
    keys, valid = np.zeros(len(columns[0]), dtype=np.int64), np.ones(len(columns[0]), dtype=np.bool_)
    for column in coded:
        codes = column.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        keys = keys * max(1, len(column.dictionary)) + codes
        valid &= column.is_valid().to_numpy(zero_copy_only=False)
    _, first, which, counts = np.unique(
        keys[valid], return_index=True, return_inverse=True, return_counts=True
    )
    rows = np.flatnonzero(valid)[first]
    texts = [column.take(pa.array(rows)).to_pylist() for column in columns]
    answers: list[str | None] = []
    invalid = 0
    for number, arguments in enumerate(zip(*texts, strict=True)):
        try:
            answers.append(answer(*arguments))
        except BadDocumentError:
            answers.append(None)
            invalid += int(counts[number])
    places_ = np.zeros(len(valid), dtype=np.int64)
    places_[valid] = which
    return pa.array(answers, pa.string()).take(pa.array(places_, mask=~valid)), invalid


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_decoder = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_no_constant)


def _serialize(value: Any) -> Iterator[str]:
    match value:
        case Number():
            yield value
        case str():
            yield _quoted(value)
        case dict():
            yield "{"
            for number, (name, inner) in enumerate(value.items()):
                yield f"{',' * (number > 0)}{_quoted(name)}:"
                yield from _serialize(inner)
            yield "}"
        case list():
            yield "["
            for number, inner in enumerate(value):
                yield "," * (number > 0)
                yield from _serialize(inner)
            yield "]"
        case _:
            yield {None: "null", True: "true", False: "false"}[value]


class _WalkMode(NamedTuple):
    """Options of a walk. With `required` a name that is missing leads nowhere: so json-path finds out whether
    a path leads anywhere. With `leaf` a name that is missing at the last step is null.
    """

    required: bool
    leaf: bool


class _Walk:
    """Walks through one document, as json-path goes."""

    def __init__(self, document: list[Any]) -> None:
        self._document = document
        self._filter = jsonfilter.Filter(self._inner)

    def places(self, place: Place, path: Path, *, required: bool = False) -> list[Place]:
        mode = _WalkMode(required, path.function is None)
        places = list(self._lead(place, path.steps, True, mode))
        if path.definite and not places:
            raise MissingError
        return places

    def values(self, place: Place, path: Path) -> list[Any]:
        return self._evaluate(path, self.places(place, path))

    def _evaluate(self, path: Path, places: list[Place]) -> list[Any]:
        values = [value(place) for place in places]
        if path.function is None:
            return values
        root = (self._document, 0)
        parameters = [
            parameter.value if isinstance(parameter, Constant) else self.values(root, parameter.path)[0]
            for parameter in path.function.parameters
        ]
        return [jsonfilter.apply_function(path.function, argument, parameters) for argument in values]

    def _inner(self, inner: Inner, exists: bool, element: Any) -> Any:
        """Evaluate a path in a filter; with `exists`, tell whether it leads anywhere."""
        try:
            places = self.places(
                (self._document if inner.from_root else [element], 0), inner.path, required=exists
            )
        except MissingError:
            return False if exists else UNDEFINED
        if exists:
            return True
        values = self._evaluate(inner.path, places)
        return values[0] if inner.path.definite else values

    def _lead(
        self, place: Place, steps: tuple[Step, ...], definite: bool, mode: _WalkMode
    ) -> Iterator[Place]:
        """Walk the steps from one place; `definite` while it can only be this one."""
        if not steps:
            yield place
            return
        step, rest = steps[0], steps[1:]
        if isinstance(step, Deep):
            yield from self._scan(place, rest[0], rest[1:], mode)
            return
        last = mode.leaf and not rest
        below = definite and is_definite(step, last=last)
        for match_ in self._step(place, step, definite, last=last, required=mode.required):
            yield from self._lead(match_, rest, below, mode)

    def _scan(self, place: Place, step: Step, rest: tuple[Step, ...], mode: _WalkMode) -> Iterator[Place]:
        """Walk from here and all below. In a list that fits, each element is walked if more steps follow."""
        last = mode.leaf and not rest
        for here in _with_all_below(place):
            holder = value(here)
            if not self._fits(holder, step, last, mode.required):
                continue
            if isinstance(holder, list) and not last:
                for element in _all(holder):
                    yield from self._lead(element, rest, False, mode)
            else:
                yield from self._lead(here, (step, *rest), False, mode)

    def _fits(self, holder: Any, step: Step, last: bool, required: bool) -> bool:
        """Tell whether a scan takes its step here."""
        match step:
            case Names(names) if isinstance(holder, dict):
                several = len(names) > 1 and not last
                return several or (last and not required) or all(name in holder for name in names)
            case Names():
                return False
            case Indexes() | Slice():
                return isinstance(holder, list)
            case Matching(condition):
                return isinstance(holder, list | dict) and self._filter.accepts(condition, holder)
        return isinstance(holder, list | dict)

    def _step(
        self, place: Place, step: Step, definite: bool, *, last: bool, required: bool
    ) -> Iterator[Place]:
        """Yield the places where one step leads from one place."""
        holder = value(place)
        match step:
            case Everything():
                yield from _all(holder)
            case Names(names) if isinstance(holder, dict):
                yield from _members(holder, names, definite, last=last, required=required)
            case Indexes(indexes) if isinstance(holder, list):
                there = [index + len(holder) * (index < 0) for index in indexes]
                yield from ((holder, index) for index in there if 0 <= index < len(holder))
            case Slice(start, stop) if isinstance(holder, list):
                yield from ((holder, index) for index in range(*slice(start, stop).indices(len(holder))))
            case Matching(condition) if isinstance(holder, list):
                yield from (item for item in _all(holder) if self._filter.accepts(condition, value(item)))
            case Matching(condition) if isinstance(holder, dict):
                if self._filter.accepts(condition, holder):
                    yield place
            case _ if definite:
                raise MissingError


def _members(
    holder: dict[str, Any], names: tuple[str, ...], definite: bool, *, last: bool, required: bool
) -> Iterator[Place]:
    """Yield the members of these names: at the end of a path one object of all of them."""
    if last and len(names) > 1:
        if required and not all(name in holder for name in names):
            raise MissingError
        yield holder, names
        return
    for name in names:
        if name in holder or (last and not required):
            yield holder, name
        elif required or (definite and len(names) == 1):
            raise MissingError


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
