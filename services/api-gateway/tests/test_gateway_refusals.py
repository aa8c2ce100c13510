"""What every refusal says for programs: `ErrorInfo.metadata`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from daggers.v1 import gateway_pb2, spec_pb2

from api_gateway.rpc.alert_log import Alerts
from api_gateway.rpc.alert_service import AlertService
from api_gateway.state.fold import Fold
from api_gateway.state.reader import StateReader
from chassis.errors import ApiError
from eventlog.follower import Follower
from eventlog.memory import MemoryLog
from fleet import Fleet

ROOT = Path(__file__).resolve().parents[3]
# What a call of the gateway may be refused by: itself, what stands before every call, the fold, and a host.
PLACES = (
    "services/api-gateway/src/api_gateway",
    "libs/chassis/src/chassis",
    "libs/fleet/src/fleet",
    "services/scheduler/src/scheduler/host/service.py",
    "services/scheduler/src/scheduler/host/reader_process.py",
    "services/scheduler/src/scheduler/host/row_reader.py",
    "services/scheduler/src/scheduler/host/row_watch.py",
    "services/scheduler/src/scheduler/host/jobs.py",
)
# Functions whose refusal has no object, value or limit to name, or passes on what somebody else refused.
NONE = {
    "from_status",  # metadata is what comes over the wire
    "from_rpc_error",
    "shutdown_error",  # of a watch that has no place to resume at
    "_build_failure_error",  # the compiler process failed for no reason of its files
}
pb = gateway_pb2


def made(place: Path) -> Iterator[tuple[str, ast.Call]]:
    """Each refusal that a file makes, and the function that makes it."""
    tree = ast.parse(place.read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in ast.walk(function):
                if (
                    isinstance(call, ast.Call)
                    and isinstance(call.func, ast.Name)
                    and call.func.id in ("ApiError", "Refusal")
                ):
                    yield function.name, call


def test_every_refusal_says_for_programs_what_it_is_about() -> None:
    without: dict[str, str] = {}
    seen = 0
    for place in PLACES:
        for file in sorted((ROOT / place).rglob("*.py")) or [ROOT / place]:
            for function, call in made(file):
                seen += 1
                said = [
                    *call.args[3:4],
                    *(keyword.value for keyword in call.keywords if keyword.arg == "metadata"),
                ]
                # An empty dict, or none: what is computed is filled by the tests of its refusal.
                if not said or (isinstance(said[0], ast.Dict) and not said[0].keys):
                    without[function] = f"{file.name}:{call.lineno}"

    assert seen > 30
    assert without.keys() == NONE, without


@pytest.mark.parametrize(
    ("service", "call", "request_", "reason", "metadata"),
    [
        (
            "daggers",
            "GetDagger",
            pb.GetDaggerRequest(name="completed_booking"),
            "NOT_FOUND",
            {"kind": "dagger", "name": "completed_booking", "suggestion": "completed_bookings"},
        ),
        (
            "daggers",
            "StopDagger",
            pb.StopDaggerRequest(name="zzz"),
            "NOT_FOUND",
            {"kind": "dagger", "name": "zzz"},
        ),
        (
            "quarantine",
            "ListQuarantined",
            pb.ListQuarantinedRequest(dagger="zzz"),
            "NOT_FOUND",
            {"kind": "dagger", "name": "zzz"},
        ),
        (
            "daggers",
            "StopDagger",
            pb.StopDaggerRequest(name="completed_bookings", expected_version=7),
            "VERSION_MISMATCH",
            {
                "kind": "dagger",
                "name": "completed_bookings",
                "expected_version": "7",
                "actual_version": "1",
            },
        ),
        (
            "daggers",
            "StartDagger",
            pb.StartDaggerRequest(name="completed_bookings", request_id="used"),
            "REQUEST_ID_REUSED",
            {"request_id": "used", "sequence": "3"},
        ),
        (
            "daggers",
            "StopDagger",
            pb.StopDaggerRequest(name="A B", expected_version=-1),
            "INVALID_FIELDS",
            {"count": "2", "field": "name"},
        ),
    ],
)
async def test_a_refusal_names_its_object_and_its_values(
    ready: Any, refusal: Any, service: str, call: str, request_: Any, reason: str, metadata: dict[str, str]
) -> None:
    await ready.create(request_id="used")
    error = await refusal(getattr(getattr(ready, service), call)(request_, timeout=20))

    assert (error.reason, error.metadata) == (reason, metadata)


class Ending:
    """A call whose deadline is now. A client of its own would tell of the deadline first."""

    def time_remaining(self) -> float:
        return 0.0

    def trailing_metadata(self) -> None:
        return None


async def test_a_state_that_is_not_reached_in_time_is_told_with_what_was_asked_and_is_reached() -> None:
    log, ending, fold = MemoryLog(), cast(Any, Ending()), Fold()
    alerts = Alerts(log)
    reader = StateReader(Follower(log, fold), fold, cast(Any, None))
    with pytest.raises(ApiError) as read:
        await reader.state(ending, 50)
    service = AlertService(alerts, Fleet(), heartbeats=cast(Any, None), minutes=cast(Any, None))
    with pytest.raises(ApiError) as listed:
        await service.ListAlerts(pb.ListAlertsRequest(min_sequence=9), ending)

    assert [(each.value.reason, each.value.metadata) for each in (read, listed)] == [
        ("NOT_REACHED", {"asked": "50", "reached": "-1"}),
        ("NOT_REACHED", {"asked": "9", "reached": "-1"}),
    ]


async def test_a_call_without_a_deadline_is_named(ready: Any, refusal: Any) -> None:
    error = await refusal(ready.daggers.GetDagger(pb.GetDaggerRequest(name="orders")))

    assert (error.reason, error.metadata) == (
        "DEADLINE_REQUIRED",
        {"method": "/daggers.v1.DaggerService/GetDagger"},
    )


async def test_what_is_too_large_is_told_with_its_size_and_the_limit(
    client: Any, refusal: Any, samples: Any
) -> None:
    files = samples.files()
    for number in range(12_000):
        files.file[0].message_type.add(name=f"A_message_with_quite_a_long_name_{number}")
    request = pb.RegisterSchemaRequest(schema=spec_pb2.Schema(files=files))

    error = await refusal(client.catalog.RegisterSchema(request, timeout=20))
    size = int(error.metadata["size"])

    assert error.metadata == {"count": "1", "field": "schema.files", "size": str(size), "limit": "524288"}
    assert size > 524288


async def test_a_name_of_any_length_fits_a_clients_metadata(ready: Any, refusal: Any) -> None:
    error = await refusal(ready.daggers.GetDagger(pb.GetDaggerRequest(name="x" * 100_000), timeout=10))

    assert (error.code, len(error.metadata["name"])) == (grpc.StatusCode.NOT_FOUND, 200)
