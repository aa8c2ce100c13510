"""Divide the state that a launch goes on with, before its query starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from chassis import threads
from runtime.launch.launch import Launch
from runtime.state import partitions
from runtime.state.store import Place

_POLL_S: Final = 1.0
_END_S: Final = 60.0
"""Time that Spark has to end a division that is cancelled."""


def divide_state(launch: Launch, path: Place, check: Callable[[], None]) -> list[str]:
    """Give the state of a checkpoint as many partitions as there are cores; return a warning where it stays.

    check: called regularly, as executors may be long in coming. Returns early where the launch must stop; the
    next one finishes what it has begun. Raises: what ended the launch.
    """
    session = launch.session
    division = partitions.plan_division(path, partitions.count_wanted(session))
    warnings = [division.warning] if division.warning else []
    if not division.numbers:
        return warnings
    context, group = session.sparkContext, f"divide-state-{launch.spec.dagger}.{launch.spec.generation}"
    failures: list[Exception] = []

    def divide() -> None:
        try:
            # of its own, so that no batch of another dagger in this process is cancelled with it
            context.setJobGroup(group, "state is divided", interruptOnCancel=True)
            partitions.divide(session, path, division.numbers)
        except Exception as failure:  # noqa: BLE001 - raised again by who waits
            failures.append(failure)

    dividing = threads.start(divide, "divide-state")
    try:
        while dividing.is_alive() and not launch.must_stop():
            check()
            dividing.join(_POLL_S)
    finally:
        if dividing.is_alive():  # nobody writes a checkpoint whose lease may be another's
            context.cancelJobGroup(group)
            dividing.join(_END_S)
    if failures and not launch.must_stop():
        raise failures[0]
    return warnings
