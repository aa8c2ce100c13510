"""`daggers validate` and `daggers sql`: everything that would be refused, before anything runs; functions."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.errors import RefusedError
from cli.framework.arguments import File, FileFlag, one_file
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.output.error_text import UNCHECKED
from cli.output.printer import amount

app = group()
sql = group()
REFUSED = 1
STREAMS_HELP = (
    "File that names the streams: a JSON object by table, each with `schema` (a .proto file or a descriptor"
    " set, or a list of them, beside this file), `message` (its full name) and `time_field` (the event time):"
    ' {"data_stream": {"schema": "booking.proto", "message": "examples.v1.Booking", "time_field":'
    ' "event_timestamp"}}.'
)


@command(app, "validate", example="daggers validate completed_bookings.yaml")
def validate(session: Session, file: File = None, flag: FileFlag = None) -> None:
    """Exit with 1 when apply would refuse the file. Warnings do not change that."""
    from cli.files.dagger_file import read_file, validate_file  # a client, which `sql check` does not need

    path = one_file(file, flag)
    examined = validate_file(session, read_file(path), str(path))
    if examined.unreached and not examined.errors:
        raise examined.unreached
    documents: list[dict[str, Any]] = [
        {"name": dagger.name, "columns": examined.columns.get(dagger.name, [])} for dagger in examined.daggers
    ]
    valid = not examined.errors

    def text(_: object) -> None:
        session.out.findings(examined.findings)
        for document in documents:
            if document["columns"]:
                _print_columns(session, f"{document['name']} gives", document["columns"])

    session.out.show(
        {"valid": valid, "file": str(path), "findings": examined.findings, "daggers": documents}, text
    )
    if examined.unchecked:
        session.out.note(UNCHECKED.format(examined.unchecked))
    _end(session, valid=valid, errors=len(examined.errors), subject=str(path))
    if examined.unreached:
        session.out.note("the gateway does not answer, so the rest was not checked")


@command(sql, "check", example="daggers sql check --streams streams.json < query.sql")
def check_sql(
    session: Session,
    file: Annotated[Path, typer.Option("--streams", help=STREAMS_HELP)],
    include: Annotated[
        list[Path] | None,
        typer.Option("-I", "--include", help="Folder to look for imports in; may be repeated."),
    ] = None,
) -> None:
    """Check the query on standard input: list its problems with their places, and its columns.

    Call no gateway. Exit with 1 when the query would be refused. Warnings do not change that.
    """
    from cli.files import query_check as queries  # the dialect's imports take longer than all other commands'
    from cli.files import streams_file

    tables = streams_file.tables(file, include or ())
    if sys.stdin.isatty():
        session.out.note("reads the query from standard input; Ctrl-D ends it")
    try:
        query = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise RefusedError("the query is not UTF-8 text", reason="INVALID_QUERY") from error
    document = queries.check(query, tables)

    def text(_: object) -> None:
        session.out.findings(document["findings"])
        if document["columns"]:
            _print_columns(session, "the query gives", document["columns"])

    session.out.show(document, text)
    errors = sum(finding["severity"] == "error" for finding in document["findings"])
    _end(session, valid=document["valid"], errors=errors, subject="the query")


@command(sql, "functions", example="daggers sql functions S2Id")
def functions(
    session: Session,
    name: Annotated[str, typer.Argument(help="Name of a function, in any letter case.")] = "",
) -> None:
    """List the functions that a query may call, or document one. Call no gateway."""
    from cli.output import sql_functions  # the dialect's imports take longer than all other commands'

    if not name:
        listed = sql_functions.documents()
        rows = [(function["usage"], function["about"]) for function in listed]
        session.out.show(listed, lambda out: out.table(("FUNCTION", "GIVES"), rows, empty=""))
    else:
        document = sql_functions.one(name)
        session.out.show(document, lambda out: out.lines(sql_functions.lines(document)))


def _print_columns(session: Session, title: str, columns: Sequence[Mapping[str, str]]) -> None:
    session.out.line(f"{title}:")
    rows = [(column["name"], column["role"], column["key"], column["type"]) for column in columns]
    session.out.table(("COLUMN", "ROLE", "KEY", "TYPE"), rows, empty="")


def _end(session: Session, *, valid: bool, errors: int, subject: str) -> None:
    """Print the result on stderr, and end with its exit code. Raises: typer.Exit."""
    if not valid:
        session.out.note(f"{amount(errors)} with {subject}")
        raise typer.Exit(REFUSED)
    session.out.note(f"{subject} can run")
