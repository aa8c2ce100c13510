"""Waits until a dagger runs, has stopped or is deleted."""

import time
from collections.abc import Callable

from daggers.v1 import gateway_pb2

from daggerclient.client import AcceptedRequest, Client
from daggerclient.errors import NotReachedError

POLL_S = 0.25
Report = Callable[[str], None]
"""Called with the dagger's phase in parentheses whenever that changes."""


def is_running(dagger: gateway_pb2.Dagger, version: int) -> bool:
    """Tell whether a launch of this version, or of a newer one, makes progress."""
    return dagger.phase == gateway_pb2.RUNNING and dagger.observed_version >= version


def is_stopped(dagger: gateway_pb2.Dagger, version: int) -> bool:
    """Tell whether no driver runs, as this version or a newer one asks."""
    return dagger.phase == gateway_pb2.STOPPED and dagger.version >= version


def until_running(
    client: Client, written: AcceptedRequest, timeout_s: float, report: Report = lambda _: None
) -> gateway_pb2.Dagger:
    """Wait until a launch of the written version runs, and return the dagger.

    Raises NotReachedError: after `timeout_s`, or at once when it is FAILED or no longer asked to run.
    """
    return _until(client, written, timeout_s, report, "RUNNING", is_running)


def until_stopped(
    client: Client, written: AcceptedRequest, timeout_s: float, report: Report = lambda _: None
) -> gateway_pb2.Dagger:
    """Wait until no driver of the dagger runs, and return it. Raises NotReachedError after `timeout_s`."""
    return _until(client, written, timeout_s, report, "STOPPED", is_stopped)


def until_deleted(
    client: Client, written: AcceptedRequest, timeout_s: float, report: Report = lambda _: None
) -> None:
    """Wait until the dagger is deleted, or another has its name. Raises NotReachedError after `timeout_s`."""
    name, born = written.dagger.name, written.dagger.create_sequence
    deadline = time.monotonic() + timeout_s
    phase: int = written.dagger.phase
    while True:
        dagger = client.find(name, min_sequence=written.sequence)
        if dagger is None or dagger.phase == gateway_pb2.DELETED or dagger.create_sequence != born:
            return
        phase = _pause(dagger, phase, report, deadline, timeout_s, "DELETED")


def _until(
    client: Client,
    written: AcceptedRequest,
    timeout_s: float,
    report: Report,
    wanted: str,
    reached: Callable[[gateway_pb2.Dagger, int], bool],
) -> gateway_pb2.Dagger:
    name, version = written.dagger.name, written.dagger.version
    deadline = time.monotonic() + timeout_s
    phase: int = written.dagger.phase
    while not reached(dagger := client.get(name, min_sequence=written.sequence), version):
        if dagger.phase == gateway_pb2.FAILED and wanted == "RUNNING":
            raise NotReachedError(dagger, f"{name} FAILED")
        if wanted == "RUNNING" and dagger.desired != gateway_pb2.DESIRED_RUNNING:
            raise NotReachedError(dagger, f"{name} is no longer asked to run")
        phase = _pause(dagger, phase, report, deadline, timeout_s, wanted)
    return dagger


def _pause(
    dagger: gateway_pb2.Dagger, before: int, report: Report, deadline: float, timeout_s: float, wanted: str
) -> int:
    name = gateway_pb2.Phase.Name(dagger.phase)
    if time.monotonic() > deadline:
        raise NotReachedError(dagger, f"{dagger.name} is {name}, not {wanted}, after {timeout_s:g} s")
    if dagger.phase != before:
        report(f"({name})")
    time.sleep(POLL_S)
    return dagger.phase
