"""What is found about a dagger file: its own mistakes, and what the gateway says of the rest, by its keys."""

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
class Validated:
    """A dagger file and everything that was found about it.

    findings: as the JSON document shows them, errors first.
    columns: output columns by dagger, of those whose query has no error.
    ddl: what the sinks of each dagger need to be made, of those that have no error.
    unreached: why the gateway could not be asked, so that only the file itself was judged.
    unchecked: why nobody knows whether the topics of its streams are there; empty when that is known.
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
        """The findings that keep it from running."""
        return [finding for finding in self.findings if finding["severity"] == "error"]

    def check(self) -> None:
        """Raises: RefusedError with every error; UnreachableError."""
        if self.errors:
            message = f"{self.path}: {headline(self.errors)}"
            raise RefusedError(message, reason="INVALID_FILE", findings=self.findings)
        if self.unreached:
            raise self.unreached


def read_file(file: Path) -> str:
    """The text of a dagger file; of standard input for -. Raises MisusedError, RefusedError."""
    if str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RefusedError(f"{file} is not UTF-8 text", reason="INVALID_FILE") from error
    except OSError as error:
        raise MisusedError(f"{file} cannot be read: {error.strerror}") from error


def parsed(text: str, path: str) -> tuple[list[DaggerFile], list[dict[str, Any]]]:
    """The daggers of a file, and what is wrong with it. Raises RefusedError when there is none in it."""
    try:
        return read(text, path)
    except InvalidFileError as error:
        raise in_words(error) from error


def validate_file(session: Session, text: str, path: str) -> Validated:
    """Judge a dagger file. Raises RefusedError when there is no dagger in it, MisusedError."""
    daggers, own = parsed(text, path)
    findings: list[Mapping[str, Any]] = list(own)
    columns: dict[str, Sequence[Mapping[str, Any]]] = {}
    ddl: dict[str, Sequence[gateway_pb2.SinkDdl]] = {}
    unreached, unchecked = None, ""
    try:
        with session.connect() as gateway:
            for dagger in daggers:
                answer = _asked(gateway, dagger)
                columns[dagger.name] = [json_views.column(column) for column in answer.columns]
                ddl[dagger.name] = answer.ddl
                told = _placed([json_views.finding(finding) for finding in answer.findings], dagger, path)
                findings += (finding for finding in told if not _is_told(finding, dagger))
                unchecked = unchecked or answer.topics_unchecked
    except UnreachableError as error:
        unreached = error
    findings.sort(key=lambda finding: finding["severity"] != "error")
    return Validated(path, daggers, findings, columns, unreached, unchecked, ddl)


def with_place(refusal: RefusedError, file: DaggerFile, path: str) -> RefusedError:
    """A refusal of the gateway by the file's own keys, with their places, and the name of the dagger."""
    findings = _placed(refusal.findings, file, path)
    message = headline(findings) if findings else refusal.message
    return RefusedError(
        f"{file.name}: {message}", reason=refusal.reason, findings=findings, detail=refusal.detail
    )


def _asked(gateway: Gateway, file: DaggerFile) -> gateway_pb2.ValidateResponse:
    request = gateway_pb2.ValidateRequest(name=file.name, spec=file.spec)
    return gateway.call(gateway.daggers.Validate, request)


def _placed(findings: Sequence[Mapping[str, Any]], file: DaggerFile, path: str) -> list[dict[str, Any]]:
    """Findings of the gateway as ones about a file; one that has a line and a column speaks of the query."""
    texts = {part.field: lines(part.text) for part in query.of(file.spec).parts}
    texts |= {f"sinks[{number}].when": lines(sink.when) for number, sink in enumerate(file.spec.sinks)}
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
    """Whether the file's own findings say it: what cannot be read, the gateway finds missing or default."""
    field = finding["field"]
    return any(field.startswith(path) or path.startswith(field) for path in file.wrong)


def one_dagger(session: Session, path: Path, done: str) -> DaggerFile:
    """The dagger of a file that has one; `done` is what becomes of it, for a sentence. Raises: CliError."""
    text = read_file(path)
    files, errors = parsed(text, str(path))
    if errors:
        validate_file(session, text, str(path)).check()
    if len(files) != 1:
        raise MisusedError(f"{path} has {len(files)} daggers: one is {done} at a time")
    return files[0]
