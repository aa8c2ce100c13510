"""Bring a dagger to what its file says: create it, revise it, run it again, or leave it alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daggers.v1 import gateway_pb2

from cli import naming
from cli.daggerfile.parse import DaggerFile
from cli.errors import RefusedError
from cli.gateway import Gateway
from cli.waiting import Written


@dataclass(frozen=True)
class Applied:
    """What was done: created, updated, started or unchanged; and what was written, if anything."""

    action: str
    written: Written


def apply(gateway: Gateway, file: DaggerFile) -> Applied:
    """Apply one document of a dagger file. What is so already is not asked for again."""
    current = find(gateway, file.name)
    if current is None:
        created = gateway.call(
            gateway.daggers.CreateDagger, gateway_pb2.CreateDaggerRequest(name=file.name, spec=file.spec)
        )
        return Applied("created", Written(created.dagger, created.sequence))
    request = gateway_pb2.UpdateDaggerRequest(
        name=file.name, spec=file.spec, expected_version=current.version, validate_only=True
    )
    # the check answers with the defaults filled in, so that two specifications can be compared
    checked = gateway.call(gateway.daggers.UpdateDagger, request)
    if checked.dagger.spec != current.spec:
        request.ClearField("validate_only")
        updated = gateway.call(gateway.daggers.UpdateDagger, request)
        return Applied("updated", Written(updated.dagger, updated.sequence))
    if current.desired == gateway_pb2.DESIRED_RUNNING and current.phase != gateway_pb2.FAILED:
        return Applied("unchanged", Written(current, 0))
    started = gateway.call(
        gateway.daggers.StartDagger,
        gateway_pb2.StartDaggerRequest(name=file.name, expected_version=current.version),
    )
    return Applied("started", Written(started.dagger, started.sequence))


def check(gateway: Gateway, file: DaggerFile) -> None:
    """Raise RefusedError with every finding if the gateway would refuse the document; changes nothing."""
    if find(gateway, file.name) is None:
        gateway.call(
            gateway.daggers.CreateDagger,
            gateway_pb2.CreateDaggerRequest(name=file.name, spec=file.spec, validate_only=True),
        )
    else:
        gateway.call(
            gateway.daggers.UpdateDagger,
            gateway_pb2.UpdateDaggerRequest(name=file.name, spec=file.spec, validate_only=True),
        )


def find(gateway: Gateway, name: str) -> gateway_pb2.Dagger | None:
    """The dagger of that name, if there is one."""
    try:
        return gateway.get(name)
    except RefusedError as refusal:
        # a name that cannot be a dagger's is for Create to refuse, with everything else that is wrong
        if refusal.detail.get("code") in ("NOT_FOUND", "INVALID_ARGUMENT"):
            return None
        raise


def with_place(refusal: RefusedError, file: DaggerFile, path: str) -> RefusedError:
    """The refusal by the file's own keys, with their places; a finding in the query has its line of SQL."""
    findings = [placed(found, file, path) for found in refusal.findings]
    message = naming.headline(findings) if findings else refusal.message
    return RefusedError(
        f"{file.name}: {message}", reason=refusal.reason, findings=findings, detail=refusal.detail
    )


def placed(found: Mapping[str, Any], file: DaggerFile, path: str) -> dict[str, Any]:
    """A finding of the gateway as one about a file; one that has line and column speaks of the query."""
    named = {**found, "field": naming.key(found["field"]), "file": path}
    line, column = found.get("line"), found.get("column")
    lines = file.spec.sql.splitlines()
    if line and column and line <= len(lines):
        source = f"    {lines[line - 1]}\n    {caret(lines[line - 1], column)}"
        file_line = {"file_line": file.sql_line + line - 1} if file.sql_line else {}
        return {**named, **file_line, "source": source}
    place = naming.place(named["field"], file.places)
    return {**named, "line": place[0], "column": place[1]} if place else dict(found)


def caret(line: str, column: int) -> str:
    """A caret under the given column, counted from 1; tabs stay tabs, so that it stands right."""
    before = line[: column - 1]
    return "".join("\t" if character == "\t" else " " for character in before) + "^"
