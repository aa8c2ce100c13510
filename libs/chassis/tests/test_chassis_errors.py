from __future__ import annotations

from datetime import timedelta

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from chassis.errors import ApiError, from_rpc_error, from_status, invalid
from daggerspec.violation import Edit, Violation

ERROR = ApiError(
    grpc.StatusCode.ABORTED,
    "VERSION_MISMATCH",
    "dagger a is at version 3, not 2",
    metadata={"version": "3"},
    violations=(
        Violation("expected_version", "is 2", "STALE"),
        Violation("spec.sql", "no column x", "UNKNOWN_COLUMN", 2, 5, 2, 6, "y"),
    ),
    request_id="call-1",
    retry_after=timedelta(seconds=2),
)


def test_an_error_crosses_the_wire_whole() -> None:
    received = from_status(ERROR.to_status())

    assert vars(received) == vars(ERROR)


def test_who_knows_only_google_rpc_reads_every_violation_as_text() -> None:
    bad = error_details_pb2.BadRequest()
    [text] = [detail for detail in ERROR.to_status().details if detail.Unpack(bad)]

    assert text.TypeName() == "google.rpc.BadRequest"
    assert [
        (violation.field, violation.reason, violation.description) for violation in bad.field_violations
    ] == [
        ("expected_version", "STALE", "is 2"),
        ("spec.sql", "UNKNOWN_COLUMN", "line 2, column 5: no column x\nsuggestion: y"),
    ]


def test_the_violations_of_who_sends_only_text_are_its_text() -> None:
    status = status_pb2.Status(code=3, message="no")
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field="spec.sql", description="line 2, column 5: no", reason="R")
    status.details.add().Pack(bad)

    [violation] = from_status(status).violations

    assert violation == Violation("spec.sql", "line 2, column 5: no", "R")


def test_a_message_that_looks_like_a_place_is_none() -> None:
    violation = Violation("spec.sql", "line 1, column 1: is what it says\nsuggestion: nothing", "ODD")

    [received] = from_status(invalid([violation]).to_status()).violations

    assert received == violation


def test_many_violations_fit_a_clients_metadata_and_the_last_counts_the_rest() -> None:
    violations = [
        Violation(f"spec.sinks[{n}].influx.address.url", "is missing: " + "x" * 80) for n in range(500)
    ]
    status = invalid(violations).to_status()

    received = from_status(status).violations

    shown = len(received) - 1
    assert (status.ByteSize() < 6000, shown > 20, received[-1].message) == (
        True,
        True,
        f"and {500 - shown} more",
    )


def test_one_huge_violation_is_cut_but_there() -> None:
    status = invalid([Violation("spec.sql", "ä" * 100_000, "X", 1, 1)]).to_status()

    received = from_status(status)

    assert (status.ByteSize() < 6000, received.violations[0].line) == (True, 1)


def test_a_suggestion_arrives_as_the_edit_that_it_is_and_never_half_of_it() -> None:
    edit, long = Edit(2, 3, 2, 8, "city"), Edit(1, 1, 1, 1, "x" * 100_000)
    violations = [Violation("spec.sql", "is wrong", "X", 2, 3, edit=each) for each in (edit, long)]

    received = from_status(invalid(violations).to_status()).violations

    assert [request.edit for request in received] == [edit, None]


def test_the_message_names_the_first_violation_and_counts_the_others() -> None:
    error = invalid([Violation("name", "is empty"), Violation("spec.sql", "is empty")])

    assert str(error) == "name: is empty (and 1 more)"


class Refused(grpc.RpcError, grpc.Call):
    """A failed call without details, as a proxy or gRPC itself makes it."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "connection refused"

    def trailing_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def initial_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def is_active(self) -> bool:
        return False

    def time_remaining(self) -> None:
        return None

    def cancel(self) -> bool:
        return False

    def add_callback(self, callback: object) -> bool:
        return False


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Refused(), (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE", "connection refused")),
        (grpc.RpcError("odd"), (grpc.StatusCode.UNKNOWN, "UNKNOWN", "odd")),
    ],
)
def test_an_error_that_is_not_ours_keeps_its_code_and_text(
    error: grpc.RpcError, said: tuple[grpc.StatusCode, str, str]
) -> None:
    received = from_rpc_error(error)

    assert (received.code, received.reason, received.message) == said
