"""What brings a dagger to a specification, and what was done to bring it there. Pure."""

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
    """What is left to do, with the specification's defaults filled in; `dagger` is the living one."""
    if dagger is None:
        return CREATED
    if dagger.spec != spec:
        return UPDATED
    runs = dagger.desired == gateway_pb2.DESIRED_RUNNING and dagger.phase != gateway_pb2.FAILED
    return UNCHANGED if runs else STARTED


def done(answer: Answer, *, started: bool) -> Action:
    """What an accepted request did, now or when it came first."""
    if started:
        return STARTED
    return CREATED if answer.version == 1 else UPDATED
