"""Decide what applies a specification to a dagger, and name what a request did. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from daggers.v1 import gateway_pb2, spec_pb2

from fleet import Answer, Dagger

if TYPE_CHECKING:
    Action: TypeAlias = gateway_pb2.ApplyDaggerResponse.Action.ValueType

CREATED: Final = gateway_pb2.ApplyDaggerResponse.ACTION_CREATED
UPDATED: Final = gateway_pb2.ApplyDaggerResponse.ACTION_UPDATED
STARTED: Final = gateway_pb2.ApplyDaggerResponse.ACTION_STARTED
UNCHANGED: Final = gateway_pb2.ApplyDaggerResponse.ACTION_UNCHANGED


def action(dagger: Dagger | None, spec: spec_pb2.DaggerSpec) -> Action:
    """Return the action that remains to be done; `spec` has its defaults, `dagger` is the living one."""
    if dagger is None:
        return CREATED
    if dagger.spec != spec:
        return UPDATED
    runs = dagger.desired == gateway_pb2.DESIRED_RUNNING and dagger.phase != gateway_pb2.FAILED
    return UNCHANGED if runs else STARTED


def action_of(answer: Answer, *, started: bool) -> Action:
    """Return what an accepted request did, now or when it was appended first."""
    if started:
        return STARTED
    return CREATED if answer.version == 1 else UPDATED
