"""The gate: every call passes it between its decoding and its handler, and every answer on the way back.

What it decides by is `access`; a method that has no row there is not served. It observes or enforces: while
it observes, what is not allowed is let through, and audited all the same; but for what says who may do what.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import grpc
from daggers.v1 import audit_pb2
from google.protobuf.descriptor import FileDescriptor

from access import Action, Decision, may
from access.decision import is_administrator
from access.methods import METHODS, decide
from api_gateway.audit import Audit
from api_gateway.authentication import principal
from api_gateway.fold import Fold
from chassis.errors import ApiError
from chassis.interceptors import Call, methods, path
from chassis.logging import note
from daggerspec.places import Place

_asked: ContextVar[tuple[Call, Any]] = ContextVar("asked")
"""The call that is going on, and its request."""


class Gate:
    """The guard of a gateway."""

    def __init__(
        self,
        api: FileDescriptor,
        fold: Fold,
        audit: Audit,
        *,
        enforce: bool,
        places: Sequence[Place] = (),
    ) -> None:
        """`places`: where secrets may be that specifications find by themselves.

        Raises: TypeError for a method that no row says who may call.
        """
        without = [path(method) for method in methods(api) if path(method) not in METHODS]
        if without:
            raise TypeError(f"access.methods does not say who may call {', '.join(without)}")
        self._fold, self._audit, self._enforce, self._places = fold, audit, enforce, places

    def admit(self, call: Call, request: Any) -> None:
        """Raises: ApiError, PERMISSION_DENIED."""
        _asked.set((call, request))
        decision = decide(principal(), call.method, request, self._fold.fleet, self._places)
        if METHODS[call.method].audited and decision.allowed:
            self._audit.tell(self._audited(call, request, decision))
        self.enters(decision)

    def enters(self, decision: Decision) -> None:
        """Go by a decision about the call that is going on, also one that only its handler could make.

        Raises: ApiError, PERMISSION_DENIED.
        """
        if self.refuses(decision):
            raise _denied(_asked.get()[0], decision)

    def refuses(self, decision: Decision, *, always: bool = False) -> bool:
        """Whether the call that is going on is refused by a decision; one that is not allowed is audited.

        `always`: also by a gateway that observes.
        """
        if decision.allowed:
            return False
        call, request = _asked.get()
        refused = always or self._refuses(call)
        self._audit.tell(self._audited(call, request, decision, refused=refused))
        note(denied=decision.reason, refused=refused)
        return refused

    def shown(self, call: Call, request: Any, answer: Any) -> Any | None:
        """Raises: ApiError, PERMISSION_DENIED when a role was taken away meanwhile."""
        if not (self._enforce or METHODS[call.method].always):
            return answer
        who, fleet = principal(), self._fold.fleet
        if not call.unary:  # a watch may be older than what it is allowed by
            decision = decide(who, call.method, request, fleet)
            if not decision.allowed:
                self._audit.tell(self._audited(call, request, decision))
                raise _denied(call, decision)
        return METHODS[call.method].shown(who, answer, fleet)

    def readable(self) -> frozenset[str] | None:
        """The teams whose daggers who calls is shown whole; None: all there are."""
        who, fleet = principal(), self._fold.fleet
        if not self._enforce or is_administrator(who, fleet):
            return None
        return frozenset(team for team in fleet.catalogue.teams if may(who, Action.READ, team, fleet).allowed)

    def allows(self, action: Action, team: str) -> bool:
        """Whether who calls may do this to what a team has; a gate that observes allows it."""
        return not self._enforce or may(principal(), action, team, self._fold.fleet).allowed

    def _refuses(self, call: Call) -> bool:
        """Whether what is not allowed is refused."""
        return self._enforce or METHODS[call.method].always

    def _audited(
        self, call: Call, request: Any, decision: Decision, *, refused: bool | None = None
    ) -> audit_pb2.CallAudited:
        return audit_pb2.CallAudited(
            principal=principal().name,
            method=call.method,
            subject=_subject(request),
            teams=sorted(set(METHODS[call.method].teams(request, self._fold.fleet))),
            allowed=decision.allowed,
            refused=not decision.allowed and (self._refuses(call) if refused is None else refused),
            reason=decision.reason,
            detail=decision.detail,
            call_id=call.id,
        )


def _subject(request: Any) -> str:
    """What a request names, as far as it names one thing."""
    for field in ("name", "dagger", "message"):
        value = getattr(request, field, "")
        if value and isinstance(value, str):
            return value
    return ""


def _denied(call: Call, decision: Decision) -> ApiError:
    metadata = {**decision.metadata, "method": call.method}
    return ApiError(grpc.StatusCode.PERMISSION_DENIED, decision.reason, decision.detail, metadata)
