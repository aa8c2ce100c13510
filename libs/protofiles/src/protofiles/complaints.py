"""What the compiler says of sources, as problems; and what two sources define both. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from google.protobuf import descriptor_pb2 as dp

from protofiles.problems import Problem

REASON: Final = "PROTOC"
"""Reason of whatever the compiler says."""
_PLACE: Final = re.compile(r"(?P<file>.+?\.proto):(?:(?P<line>\d+):(?P<column>\d+): )?(?P<message>.+)")
_LOG: Final = re.compile(r"WARNING: All log messages|[IWEF]\d{4} |\S+: warning: ")
_NO_ERROR: Final = re.compile(r"warning: |Note that ")
"""What stands behind an error, or is none."""
_KNOWN: Final = re.compile(
    r'Import ".*" was not found or had errors\.|File recursively imports itself: |.*File not found\.'
    r'|".*" is already defined in file '
)
"""What is known already: from the imports, from another file's errors, from what is defined twice."""
_UNDEFINED: Final = re.compile(r'".*" is not defined\.|".*" seems to be defined in ')
_FILE: Final = dp.FileDescriptorProto
_Named: TypeAlias = (
    dp.DescriptorProto | dp.EnumDescriptorProto | dp.ServiceDescriptorProto | dp.FieldDescriptorProto
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of compiling one source by itself."""

    name: str
    output: str
    """What the compiler wrote."""
    file: dp.FileDescriptorProto | None = None
    """What it made, with its places. None where it refused."""


def problems_of(
    attempts: Sequence[Attempt],
    paths: Mapping[str, str],
    needed: Mapping[str, Collection[str]],
    unsound: Collection[str],
    together: str,
) -> list[Problem]:
    """Everything that is wrong with sources of which the compiler refused some.

    attempts: each source by itself. paths: where each name is from. needed: the names that each imports.
    unsound: those that import what is missing, or in a circle. together: what the compiler wrote of all of
    them at once, for what nobody finds by one.
    """
    refused = {attempt.name for attempt in attempts if attempt.file is None}
    problems = []
    for attempt in attempts:
        cut_off = attempt.name in unsound or not refused.isdisjoint(_reached(attempt.name, needed))
        for problem in _errors(attempt.output):
            # Of other files it says what they say themselves.
            of_itself = problem.file in ("", attempt.name) and not _KNOWN.match(problem.message)
            if of_itself and not (cut_off and _UNDEFINED.match(problem.message)):
                problems.append(problem)
    problems += _defined_twice([attempt.file for attempt in attempts if attempt.file is not None])
    if not problems and not unsound:
        problems = list(_errors(together))
    return [_by_path(problem, paths) for problem in problems]


def _reached(name: str, needed: Mapping[str, Collection[str]]) -> set[str]:
    """All that a source imports, and what that imports."""
    pending, reached = list(needed.get(name, ())), set[str]()
    while pending:
        other = pending.pop()
        if other not in reached:
            reached.add(other)
            pending += needed.get(other, ())
    return reached


def _errors(output: str) -> Iterator[Problem]:
    """Each line of the compiler that is an error."""
    for line in output.splitlines():
        text = line.strip()
        if not text or _LOG.match(text):
            continue
        match = _PLACE.fullmatch(text)
        if match is None:
            yield Problem("", 0, 0, REASON, text)
        elif not _NO_ERROR.match(match["message"]):
            yield Problem(
                match["file"], int(match["line"] or 0), int(match["column"] or 0), REASON, match["message"]
            )


def _defined_twice(files: Iterable[dp.FileDescriptorProto]) -> Iterator[Problem]:
    first: dict[str, tuple[str, int]] = {}
    for file in sorted(files, key=lambda one: one.name):
        for name, line, column in _definitions(file):
            there = first.setdefault(name, (file.name, line))
            if there[0] != file.name:
                text = f"{name} is defined also in {there[0]}, line {there[1]}"
                yield Problem(file.name, line, column, "DEFINED_TWICE", text)


def _definitions(file: dp.FileDescriptorProto) -> Iterator[tuple[str, int, int]]:
    """What a file defines in its package: full name, line and column."""
    places = {tuple(location.path): location.span for location in file.source_code_info.location}
    lists: tuple[tuple[Sequence[_Named], int], ...] = (
        (file.message_type, _FILE.MESSAGE_TYPE_FIELD_NUMBER),
        (file.enum_type, _FILE.ENUM_TYPE_FIELD_NUMBER),
        (file.service, _FILE.SERVICE_FIELD_NUMBER),
        (file.extension, _FILE.EXTENSION_FIELD_NUMBER),
    )
    for things, number in lists:
        for index, thing in enumerate(things):
            span = places.get((number, index, 1)) or places.get((number, index)) or (0, 0)
            full_name = f"{file.package}.{thing.name}" if file.package else thing.name
            yield full_name, span[0] + 1, span[1] + 1


def _by_path(problem: Problem, paths: Mapping[str, str]) -> Problem:
    return Problem(
        paths.get(problem.file, problem.file), problem.line, problem.column, problem.reason, problem.message
    )
