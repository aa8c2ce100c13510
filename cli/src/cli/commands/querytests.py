"""`daggers test`: the tests of a file's queries, run by the engine of previews; and before apply."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
from daggers.v1 import gateway_pb2

from cli.errors import MisusedError, RefusedError
from cli.files.dagger_file import parse_file, read_file, validate_file, with_place
from cli.framework.arguments import File, FileFlag, one_file
from cli.framework.gateway import Gateway
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.output import querytest_text
from daggerclient.daggerfile.parse import DaggerFile

TESTS_S = 3600.0
"""Longest time of all tests of a dagger, in seconds: others may be in front of them."""
FAILED = 1
app = group()


@command(app, "test", example="daggers test completed_bookings.yaml")
def run_tests(
    session: Session,
    file: File = None,
    flag: FileFlag = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="TEST", help="Run this test; may be repeated.")
    ] = None,
) -> None:
    """Read nothing from Kafka, and write nothing. Exit with 1 where a test fails."""
    path = one_file(file, flag)
    text = read_file(path)
    files, errors = parse_file(text, str(path))
    if errors:  # with the gateway's findings about the rest of the file
        validate_file(session, text, str(path)).check()
    chosen = [one for one in files if _select_names(one, only or ())]
    if not chosen:
        names = [test.name for one in files for test in one.spec.tests]
        if only and names:
            raise MisusedError(f"--only {only[0]}: {path} has no such test, but {', '.join(names)}")
        raise RefusedError(f"{path} has no tests: describe some below the key tests", reason="NO_TESTS")
    with session.connect() as gateway:
        documents = [
            document
            for one in chosen
            for document in run(session, gateway, one, str(path), _select_names(one, only or ()))
        ]
    failed = sum(not document["passed"] for document in documents)
    passed = len(documents) - failed
    session.out.show({"passed": passed, "failed": failed, "tests": documents}, lambda _: None)
    session.out.note(f"{passed} passed, {failed} failed")
    if failed:
        raise typer.Exit(FAILED)


def run(
    session: Session, gateway: Gateway, file: DaggerFile, path: str, names: Sequence[str]
) -> list[dict[str, Any]]:
    """Run tests of a dagger by their names, print each result, and return their documents.

    Raises: RefusedError, with places of the file, where they cannot be run.
    """
    documents = []
    for result in _results(session, gateway, file, path, names):
        if not session.out.json:
            session.out.lines(querytest_text.lines(file.name, result))
        documents.append(dict(querytest_text.document(file.name, result)))
    return documents


def check(session: Session, gateway: Gateway, files: Sequence[DaggerFile], path: str) -> None:
    """Run all tests of a file's daggers, showing on stderr those that fail. Raises: RefusedError where one
    does.
    """
    failed = []
    for file in files:
        if not file.spec.tests:
            session.out.note(f"{file.name} has no tests")
            continue
        results = list(_results(session, gateway, file, path))
        for result in (result for result in results if not result.passed):
            for line in querytest_text.lines(file.name, result):
                session.out.note(line)
            failed.append(dict(querytest_text.document(file.name, result)))
    if failed:
        names = ", ".join(f"{one['dagger']}: {one['test']}" for one in failed)
        message = f"nothing was applied, for {len(failed)} of the tests failed ({names})"
        raise RefusedError(message, reason="TESTS_FAILED", detail={"tests": failed})


def _results(
    session: Session, gateway: Gateway, file: DaggerFile, path: str, names: Sequence[str] = ()
) -> Iterator[gateway_pb2.TestResult]:
    """Yield the results of a dagger's tests, all unless some are named; note the progress on a terminal.

    Raises: CliError; RefusedError with places of the file.
    """
    request = gateway_pb2.TestDaggerRequest(name=file.name, spec=file.spec, tests=names)
    announced = None
    try:
        for step in gateway.stream(gateway.daggers.TestDagger, request, deadline_s=TESTS_S):
            if step.HasField("result"):
                yield step.result
            elif step.HasField("progress") and session.out.terminal and step.progress.test != announced:
                announced = step.progress.test
                session.out.note(querytest_text.progress(step.progress))
    except RefusedError as refusal:
        raise with_place(refusal, file, path) if refusal.findings else refusal from refusal


def _select_names(file: DaggerFile, only: Sequence[str]) -> list[str]:
    """Return the names of the tests of a dagger that are run."""
    return [test.name for test in file.spec.tests if not only or test.name in only]
