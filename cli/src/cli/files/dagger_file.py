"""Validate dagger files: by their own rules, and by the gateway, whose findings get the file's keys and
places.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from daggers.v1 import gateway_pb2

from cli.errors import MisusedError, RefusedError, UnreachableError
from cli.framework.gateway import Gateway, in_words
from cli.framework.session import Session
from cli.output.excerpt import excerpt
from cli.output.json_views import findings as json_views
from daggerclient import InvalidFileError
from daggerclient.daggerfile.keys import key, place
from daggerclient.daggerfile.parse import DaggerFile, read
from daggerclient.findings import headline
from daggerspec import query
from daggerspec.violation import lines


@dataclass(frozen=True)
class FileValidation:
    """A dagger file with all findings about it.

    findings: as in the JSON document, errors first.
    columns: output columns by dagger, of those whose query has no error.
    ddl: statements that the sinks of each dagger need, of those that have no error.
    unreached: why the gateway did not answer, so that only the file itself was validated.
    unchecked: why the topics of its streams were not checked; empty where they were.
    """

    path: str
    daggers: Sequence[DaggerFile]
    findings: Sequence[Mapping[str, Any]]
    columns: Mapping[str, Sequence[Mapping[str, Any]]]
    unreached: UnreachableError | None = None
    unchecked: str = ""
    ddl: Mapping[str, Sequence[gateway_pb2.SinkDdl]] = field(default_factory=dict)

    @property
    def errors(self) -> list[Mapping[str, Any]]:
        """Findings that keep it from running."""
        return [finding for finding in self.findings if finding["severity"] == "error"]

    def check(self) -> None:
        """Raise all errors where there are any. Raises: RefusedError; UnreachableError where the gateway did
        not answer.
        """
        if self.errors:
            message = f"{self.path}: {headline(self.errors)}"
            raise RefusedError(message, reason="INVALID_FILE", findings=self.findings)
        if self.unreached:
            raise self.unreached


def read_file(file: Path) -> str:
    """Read a dagger file; standard input for -. Raises: MisusedError, RefusedError."""
    if str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RefusedError(f"{file} is not UTF-8 text", reason="INVALID_FILE") from error
    except OSError as error:
        raise MisusedError(f"{file} cannot be read: {error.strerror}") from error


def parse_file(text: str, path: str) -> tuple[list[DaggerFile], list[dict[str, Any]]]:
    """Parse the daggers of a file, with its problems. Raises: RefusedError where it has no dagger."""
    try:
        return read(text, path)
    except InvalidFileError as error:
        raise in_words(error) from error


def validate_file(session: Session, text: str, path: str) -> FileValidation:
    """Validate a dagger file. Raises: RefusedError where it has no dagger, MisusedError."""
    daggers, own = parse_file(text, path)
    findings: list[Mapping[str, Any]] = list(own)
    columns: dict[str, Sequence[Mapping[str, Any]]] = {}
    ddl: dict[str, Sequence[gateway_pb2.SinkDdl]] = {}
    unreached, unchecked = None, ""
    try:
        with session.connect() as gateway:
            for dagger in daggers:
                answer = _validate(gateway, dagger)
                columns[dagger.name] = [json_views.column(column) for column in answer.columns]
                ddl[dagger.name] = answer.ddl
                placed = _place_all(
                    [json_views.finding(finding) for finding in answer.findings], dagger, path
                )
                findings += (finding for finding in placed if not _is_told(finding, dagger))
                unchecked = unchecked or answer.topics_unchecked
    except UnreachableError as error:
        unreached = error
    findings.sort(key=lambda finding: finding["severity"] != "error")
    return FileValidation(path, daggers, findings, columns, unreached, unchecked, ddl)


def with_place(refusal: RefusedError, file: DaggerFile, path: str) -> RefusedError:
    """Convert a gateway's refusal to the file's keys and places, with the name of the dagger."""
    findings = _place_all(refusal.findings, file, path)
    message = headline(findings) if findings else refusal.message
    return RefusedError(
        f"{file.name}: {message}", reason=refusal.reason, findings=findings, detail=refusal.detail
    )


def _validate(gateway: Gateway, file: DaggerFile) -> gateway_pb2.ValidateResponse:
    request = gateway_pb2.ValidateRequest(name=file.name, spec=file.spec)
    return gateway.call(gateway.daggers.Validate, request)


def _place_all(findings: Sequence[Mapping[str, Any]], file: DaggerFile, path: str) -> list[dict[str, Any]]:
    """Convert the gateway's findings to ones about a file; those with a line and a column are about the
    query.
    """
    texts = {part.field: lines(part.text) for part in query.of(file.spec).parts}
    texts |= {f"sinks[{number}].when": lines(sink.when) for number, sink in enumerate(file.spec.sinks)}
    texts |= {
        f"alerts[{number}].{part}": lines(getattr(rule, part))
        for number, rule in enumerate(file.spec.alerts)
        for part in ("when", "resolve_when", "summary")
    }
    return [_place(finding, texts, file, path) for finding in findings]


def _place(
    finding: Mapping[str, Any], texts: Mapping[str, list[str]], file: DaggerFile, path: str
) -> dict[str, Any]:
    field = key(finding["field"])
    named = {**finding, "dagger": file.name, "field": field, "file": path}
    source = excerpt(texts.get(field, []), finding)
    if source is not None:
        first = file.first_lines.get(field)
        file_line = {"file_line": first + finding["line"] - 1} if first else {}
        return {**named, **file_line, "source": source}
    where = place(named["field"], file.places)
    return {**named, "line": where[0], "column": where[1]} if where else named


def _is_told(finding: Mapping[str, Any], file: DaggerFile) -> bool:
    """Return whether the file's own findings cover one of the gateway, which sees unreadable values as
    missing.
    """
    field = finding["field"]
    return any(field.startswith(path) or path.startswith(field) for path in file.wrong)


def one_dagger(session: Session, path: Path, done: str) -> DaggerFile:
    """Return the only dagger of a file; `done` is a participle for the error's sentence. Raises: CliError."""
    text = read_file(path)
    files, errors = parse_file(text, str(path))
    if errors:
        validate_file(session, text, str(path)).check()
    if len(files) != 1:
        raise MisusedError(f"{path} has {len(files)} daggers: one is {done} at a time")
    return files[0]
