"""--wait: until what was asked of a dagger is so."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from daggers.v1 import gateway_pb2

from cli import shapes
from cli.errors import RefusedError
from cli.gateway import Gateway
from cli.progress import Steps

POLL_S = 0.25


@dataclass(frozen=True)
class Written:
    """A request that was accepted: the dagger after it, and its place in the control topic."""

    dagger: gateway_pb2.Dagger
    sequence: int


def is_running(dagger: gateway_pb2.Dagger, version: int) -> bool:
    """Whether a launch of this version, or of a newer one, makes progress."""
    return dagger.phase == gateway_pb2.RUNNING and dagger.observed_version >= version


def is_stopped(dagger: gateway_pb2.Dagger, version: int) -> bool:
    """Whether no driver runs, as this version or a newer one asks."""
    return dagger.phase == gateway_pb2.STOPPED and dagger.version >= version


def until_running(gateway: Gateway, written: Written, timeout_s: float, steps: Steps) -> gateway_pb2.Dagger:
    """The dagger once a launch of the written version runs. FAILED ends the wait at once."""
    return _until(gateway, written, timeout_s, steps, "RUNNING", is_running)


def until_stopped(gateway: Gateway, written: Written, timeout_s: float, steps: Steps) -> gateway_pb2.Dagger:
    """The dagger once no driver of it runs."""
    return _until(gateway, written, timeout_s, steps, "STOPPED", is_stopped)


def until_deleted(gateway: Gateway, written: Written, timeout_s: float, steps: Steps) -> None:
    """Returns once the dagger is gone, or another stands under its name."""
    name, born = written.dagger.name, written.dagger.create_sequence
    deadline = time.monotonic() + timeout_s
    phase: int = written.dagger.phase
    with steps.step(f"waiting for {name} to be DELETED") as report:
        while True:
            try:
                dagger = gateway.get(name, min_sequence=written.sequence)
            except RefusedError as refusal:
                if refusal.detail.get("code") == "NOT_FOUND":
                    return
                raise
            if dagger.phase == gateway_pb2.DELETED or dagger.create_sequence != born:
                return
            phase = _pause(dagger, phase, report, deadline, timeout_s, "DELETED")


def _until(
    gateway: Gateway,
    written: Written,
    timeout_s: float,
    steps: Steps,
    wanted: str,
    reached: Callable[[gateway_pb2.Dagger, int], bool],
) -> gateway_pb2.Dagger:
    name, version = written.dagger.name, written.dagger.version
    deadline = time.monotonic() + timeout_s
    phase: int = written.dagger.phase
    with steps.step(f"waiting for {name} to be {wanted}") as report:
        while not reached(dagger := gateway.get(name, min_sequence=written.sequence), version):
            if dagger.phase == gateway_pb2.FAILED and wanted == "RUNNING":
                raise not_reached(dagger, f"{name} FAILED")
            if wanted == "RUNNING" and dagger.desired != gateway_pb2.DESIRED_RUNNING:
                raise not_reached(dagger, f"{name} is no longer asked to run")
            phase = _pause(dagger, phase, report, deadline, timeout_s, wanted)
    return dagger


def _pause(
    dagger: gateway_pb2.Dagger,
    before: int,
    report: Callable[[str], None],
    deadline: float,
    timeout_s: float,
    wanted: str,
) -> int:
    name = gateway_pb2.Phase.Name(dagger.phase)
    if time.monotonic() > deadline:
        raise not_reached(dagger, f"{dagger.name} is {name}, not {wanted}, after {timeout_s:g} s")
    if dagger.phase != before:
        report(f"({name})")
    time.sleep(POLL_S)
    return dagger.phase


def not_reached(dagger: gateway_pb2.Dagger, what: str) -> RefusedError:
    """The wait ends without what was wanted: the phase, and the newest error."""
    sentence, findings = what, []
    if dagger.HasField("last_error"):
        error = shapes.error(dagger.last_error)
        sentence = f"{what}: {error['detail'] or error['reason']}"
        findings = [{"code": error["reason"], "field": error["domain"], "message": error["detail"]}]
    else:
        sentence = f"{what}; `daggers logs {dagger.name}` may say why"
    return RefusedError(
        sentence,
        reason="FAILED" if dagger.phase == gateway_pb2.FAILED else "NOT_REACHED",
        findings=findings,
        detail={"phase": gateway_pb2.Phase.Name(dagger.phase), "dagger": shapes.dagger(dagger)},
    )
