"""Problems from protoc's output, and definitions that several sources have. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from google.protobuf import descriptor_pb2 as dp

from protofiles.problems import Problem

REASON: Final = "PROTOC"
"""Reason of each problem that protoc reports."""
_PLACE: Final = re.compile(r"(?P<file>.+?\.proto):(?:(?P<line>\d+):(?P<column>\d+): )?(?P<message>.+)")
_LOG: Final = re.compile(r"WARNING: All log messages|[IWEF]\d{4} |\S+: warning: ")
_NO_ERROR: Final = re.compile(r"warning: |Note that ")
"""Warnings, and notes that follow an error."""
_CONSEQUENCE: Final = re.compile(
    r'Import ".*" was not found or had errors\.|File recursively imports itself: |.*File not found\.'
    r'|".*" is already defined in file '
)
"""Errors that repeat a problem of the imports, of another file, or of a duplicate definition."""
_UNDEFINED: Final = re.compile(r'".*" is not defined\.|".*" seems to be defined in ')
_FILE: Final = dp.FileDescriptorProto
_Named: TypeAlias = (
    dp.DescriptorProto | dp.EnumDescriptorProto | dp.ServiceDescriptorProto | dp.FieldDescriptorProto
)


@dataclass(frozen=True, slots=True)
class CompileAttempt:
    """Result of compiling one source by itself."""

    name: str
    """Import name of the source."""
    output: str
    """Errors and warnings of protoc."""
    file: dp.FileDescriptorProto | None = None
    """Its descriptor with source info; None where protoc refused."""


def collect_problems(
    attempts: Sequence[CompileAttempt],
    paths: Mapping[str, str],
    dependencies: Mapping[str, Collection[str]],
    unsound: Collection[str],
    joint_output: str,
) -> list[Problem]:
    """Collect all problems of sources of which protoc refused some.

    attempts: one for each source. paths: path by import name. dependencies: imported names by import name.
    unsound: names with a missing import or in a cycle. joint_output: what protoc wrote about all sources at
    once, for errors that no source has by itself.
    """
    refused = {attempt.name for attempt in attempts if attempt.file is None}
    problems = []
    for attempt in attempts:
        imported = _collect_dependencies(attempt.name, dependencies)
        lacks_imports = attempt.name in unsound or not refused.isdisjoint(imported)
        for problem in _parse_errors(attempt.output):
            # Errors of imported files are those of their own attempts.
            is_own = problem.file in ("", attempt.name) and not _CONSEQUENCE.match(problem.message)
            if is_own and not (lacks_imports and _UNDEFINED.match(problem.message)):
                problems.append(problem)
    compiled = [attempt.file for attempt in attempts if attempt.file is not None]
    problems += _find_duplicate_definitions(compiled)
    if not problems and not unsound:
        problems = list(_parse_errors(joint_output))
    return [_restore_path(problem, paths) for problem in problems]


def _collect_dependencies(name: str, dependencies: Mapping[str, Collection[str]]) -> set[str]:
    """Collect the names that a source imports, directly or not."""
    pending, collected = list(dependencies.get(name, ())), set[str]()
    while pending:
        other = pending.pop()
        if other not in collected:
            collected.add(other)
            pending += dependencies.get(other, ())
    return collected


def _parse_errors(output: str) -> Iterator[Problem]:
    """Yield a problem for each line of protoc that is an error."""
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


def _find_duplicate_definitions(files: Iterable[dp.FileDescriptorProto]) -> Iterator[Problem]:
    first: dict[str, tuple[str, int]] = {}
    for file in sorted(files, key=lambda file: file.name):
        for name, line, column in _iterate_definitions(file):
            first_file, first_line = first.setdefault(name, (file.name, line))
            if first_file != file.name:
                text = f"{name} is defined also in {first_file}, line {first_line}"
                yield Problem(file.name, line, column, "DEFINED_TWICE", text)


def _iterate_definitions(file: dp.FileDescriptorProto) -> Iterator[tuple[str, int, int]]:
    """Yield full name, line and column (from 1) of each definition at the top of a file."""
    places = {tuple(location.path): location.span for location in file.source_code_info.location}
    lists: tuple[tuple[Sequence[_Named], int], ...] = (
        (file.message_type, _FILE.MESSAGE_TYPE_FIELD_NUMBER),
        (file.enum_type, _FILE.ENUM_TYPE_FIELD_NUMBER),
        (file.service, _FILE.SERVICE_FIELD_NUMBER),
        (file.extension, _FILE.EXTENSION_FIELD_NUMBER),
    )
    for definitions, number in lists:
        for index, definition in enumerate(definitions):
            span = places.get((number, index, 1)) or places.get((number, index)) or (0, 0)
            full_name = f"{file.package}.{definition.name}" if file.package else definition.name
            yield full_name, span[0] + 1, span[1] + 1


def _restore_path(problem: Problem, paths: Mapping[str, str]) -> Problem:
    return Problem(
        paths.get(problem.file, problem.file), problem.line, problem.column, problem.reason, problem.message
    )
