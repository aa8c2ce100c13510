"""Conditions of a successful answer: fields of a message, compared with constants.

`response.success == true && response.status.code != "RETRY"`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from daggerspec.nearest import hint, nearest
from daggerspec.protobuf import INTEGER_FIELDS, REAL_FIELDS
from daggerspec.violation import Violation

MAX_CHARACTERS: Final = 1_000
_FORM: Final = "must be comparisons such as response.success == true, of == or !=, joined by &&"
_NAME: Final = r"[A-Za-z_]\w*"
_COMPARISON: Final = re.compile(
    rf"\s*response(?P<path>(?:\.{_NAME})+)\s*(?P<sign>==|!=)\s*"
    rf"(?:(?P<text>\"[^\"\\]*\"|'[^'\\]*')|(?P<number>-?\d{{1,18}}(?:\.\d{{1,18}})?)|(?P<word>{_NAME}))\s*",
    re.ASCII,
)
_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Word:
    """A constant that is a bare word: true, false, or a value of an enumeration."""

    name: str


Constant: TypeAlias = Word | str | int | float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A field, and the constant that it is to be, or not to be."""

    path: tuple[str, ...]
    is_equal: bool
    constant: Constant


def parse(text: str) -> tuple[Comparison, ...]:
    """Parse the comparisons, all of which must be true. Raises: ValueError, with a text for people."""
    comparisons, place = list[Comparison](), 0
    while len(text) <= MAX_CHARACTERS and (match := _COMPARISON.match(text, place)):
        path = tuple(match["path"].split(".")[1:])
        comparisons.append(Comparison(path, match["sign"] == "==", _constant(match)))
        if match.end() == len(text):
            return tuple(comparisons)
        if not text.startswith("&&", match.end()):
            break
        place = match.end() + 2
    raise ValueError(_FORM)


def _constant(match: re.Match[str]) -> Constant:
    if match["text"]:
        return match["text"][1:-1]
    if match["number"]:
        return float(match["number"]) if "." in match["number"] else int(match["number"])
    return Word(match["word"])


def violations(path: str, text: str, message: Descriptor) -> Iterator[Violation]:
    """Yield the violations of a condition on answers that are this message."""
    try:
        comparisons = parse(text)
    except ValueError as problem:
        yield Violation(path, str(problem), "SYNTAX_ERROR")
        return
    for comparison in comparisons:
        yield from _wrong(path, comparison, message)


def holds(comparisons: Sequence[Comparison], answer: Message) -> bool:
    """Return whether all comparisons are true of an answer; they must have no violations."""
    return all(_is(comparison, answer) == comparison.is_equal for comparison in comparisons)


def _is(comparison: Comparison, answer: Any) -> bool:
    """Return whether the field equals the constant; one that is not set has its default."""
    owner = answer
    for name in comparison.path[:-1]:
        owner = getattr(owner, name)
    field = owner.DESCRIPTOR.fields_by_name[comparison.path[-1]]
    constant: Any = comparison.constant
    if isinstance(constant, Word):
        named, enum = constant.name, field.enum_type
        constant = _BOOLEANS[named] if enum is None else enum.values_by_name[named].number
    return bool(getattr(owner, field.name) == constant)


def _wrong(path: str, comparison: Comparison, message: Descriptor) -> Iterator[Violation]:
    owner: Descriptor = message
    for number, name in enumerate(comparison.path):
        field, label = owner.fields_by_name.get(name), ".".join(("response", *comparison.path[: number + 1]))
        if field is None:
            others = hint(nearest(name, owner.fields_by_name), "")
            yield Violation(path, f"{owner.full_name} has no field {name}{others}", "UNKNOWN_FIELD")
            return
        is_last = number == len(comparison.path) - 1
        if field.is_repeated or is_last == (field.message_type is not None):
            expected = "a single value of a scalar type" if is_last else "a single message"
            yield Violation(path, f"{label} is not {expected}", "TYPE_MISMATCH")
            return
        if is_last and (wanted := _misfit(field, comparison.constant)):
            yield Violation(path, f"{label} is {wanted}", "TYPE_MISMATCH")
        if field.message_type is not None:
            owner = field.message_type


def _misfit(field: FieldDescriptor, constant: Constant) -> str:
    """Name what a field can be compared with, if the constant is no such thing; empty if it is."""
    is_whole = isinstance(constant, int)
    if field.enum_type is not None:
        names = field.enum_type.values_by_name
        fits = isinstance(constant, Word) and constant.name in names
        return "" if fits else f"one of {', '.join(names)}"
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return "" if isinstance(constant, Word) and constant.name in _BOOLEANS else "true or false"
    if field.cpp_type in INTEGER_FIELDS:
        return "" if is_whole else "a whole number"
    if field.cpp_type in REAL_FIELDS:
        return "" if is_whole or isinstance(constant, float) else "a number"
    is_text = field.type == FieldDescriptor.TYPE_STRING
    return (
        ("" if isinstance(constant, str) else 'a text, as "OK"')
        if is_text
        else "of bytes, which no constant is"
    )
