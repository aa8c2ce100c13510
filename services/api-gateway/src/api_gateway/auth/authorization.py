"""The gate: every call passes it between its decoding and its handler, and every answer on the way back.

What it decides by is `access`; a method that has no row there is not served. It observes or enforces: while
it observes, what is not allowed is let through, and audited all the same; but for what says who may do what.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, Final

import grpc
from daggers.v1 import audit_pb2, gateway_pb2
from google.protobuf.descriptor import FileDescriptor

from access import Action, Decision, audits, may, tokens
from access.decision import is_administrator
from access.methods import METHODS, decide
from api_gateway.auth.audit import Audit, AuditAway
from api_gateway.auth.audit_counts import place_of
from api_gateway.auth.authentication import principal
from api_gateway.state.fold import Fold
from chassis.errors import ApiError
from chassis.interceptors import Call, bearer, methods, path
from chassis.logging import note
from daggerspec.places import Place

_DETAIL: Final = 500
_LATER: Final = timedelta(seconds=5)
_VALIDATE: Final = "/daggers.v1.DaggerService/Validate"
_PLAN: Final = "/daggers.v1.DaggerService/PlanDagger"
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

    async def admit(self, call: Call, request: Any) -> None:
        """Raises: ApiError, PERMISSION_DENIED; UNAVAILABLE where a read cannot be audited."""
        _asked.set((call, request))
        decision = decide(principal(), call.method, request, self._fold.fleet, self._places)
        self.enters(decision)
        kind = METHODS[call.method].audited
        if call.method == _PLAN and request.try_sinks:
            kind = audits.SINK_TEST
        if kind and decision.allowed:
            await self._record(call, self._audited(call, request, decision, kind))

    async def _record(self, call: Call, record: audit_pb2.CallAudited) -> None:
        """Audit what is let through. Raises: ApiError, UNAVAILABLE."""
        if not self._enforce or record.kind not in audits.SENSITIVE:
            self._audit.tell(record)
            return
        try:
            await self._audit.write(record)
        except AuditAway as why:
            raise _unaudited(call, why) from why

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
        note(denied=decision.reason, refused=refused)
        if not refused:  # else `refused` audits it
            self._audit.tell(self._audited(call, request, decision, audits.REFUSED))
        return refused

    def refused(self, call: Call, request: Any | None, error: ApiError) -> None:
        """Audit a call that was refused because who calls may not, and no other failure."""
        if error.code == grpc.StatusCode.UNAUTHENTICATED:
            self._audit.tell(self._unauthenticated(call, error))
            return
        reasons = [violation.reason for violation in error.violations]
        reason = audits.refusal_in((error.reason, *reasons))
        if not reason and error.code == grpc.StatusCode.PERMISSION_DENIED:
            reason = error.reason
        if reason:
            said = [violation.message for violation in error.violations if violation.reason == reason]
            decision = Decision(False, reason, said[0] if said else error.message, {})
            kind = audits.CHECK if call.method == _VALIDATE else audits.REFUSED
            self._audit.tell(self._audited(call, request, decision, kind, refused=True))

    def _unauthenticated(self, call: Call, error: ApiError) -> audit_pb2.CallAudited:
        token, account = bearer(call), ""
        if tokens.is_account_token(token):  # the name alone: what is behind it may be nearly a secret
            named = tokens.name_in(token)
            account = f" of account:{named}" if named in self._fold.fleet.catalogue.accounts else ""
        shown = f"it showed a token{account} that is not valid" if token else "it showed no token"
        return audit_pb2.CallAudited(
            method=call.method,
            refused=True,
            reason=error.reason,
            detail=shown,
            call_id=call.id,
            kind=audits.UNAUTHENTICATED,
            peer=place_of(call.context.peer()),
        )

    def shown(self, call: Call, request: Any, answer: Any) -> Any | None:
        """Raises: ApiError, PERMISSION_DENIED when a role was taken away meanwhile."""
        if isinstance(answer, gateway_pb2.ValidateResponse):
            self._checked(call, request, answer)
        if not (self._enforce or METHODS[call.method].always):
            return answer
        who, fleet = principal(), self._fold.fleet
        if not call.unary:  # a watch may be older than what it is allowed by
            decision = decide(who, call.method, request, fleet)
            if not decision.allowed:
                raise _denied(call, decision)
        return METHODS[call.method].view(who, answer, fleet)

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

    def _checked(self, call: Call, request: Any, answer: gateway_pb2.ValidateResponse) -> None:
        """Audit a specification that would be refused: who tries what is let through asks here."""
        for finding in answer.findings:
            if finding.severity == gateway_pb2.SEVERITY_ERROR and audits.is_refusal(finding.code):
                decision = Decision(False, finding.code, finding.message, {})
                self._audit.tell(self._audited(call, request, decision, audits.CHECK, refused=False))
                return

    def _audited(
        self,
        call: Call,
        request: Any | None,
        decision: Decision,
        kind: audits.Kind.ValueType,
        *,
        refused: bool = False,
    ) -> audit_pb2.CallAudited:
        rule, fleet, who = METHODS.get(call.method), self._fold.fleet, principal()
        record = audit_pb2.CallAudited(
            principal=who.name,
            method=call.method,
            allowed=decision.allowed,
            refused=refused,
            reason=decision.reason,
            detail=decision.detail[:_DETAIL],
            call_id=call.id,
            kind=kind,
        )
        if request is not None and rule is not None:
            record.subject = _subject(request)
            record.teams.extend(sorted(set(rule.teams(request, fleet))))
            if rule.audited or kind == audits.SINK_TEST:
                record.asked = audits.describe_request(request)
                if decision.allowed:
                    record.sensitive.extend(audits.sensitive_fields(who, rule.audits(request, fleet), fleet))
        return record


def _subject(request: Any) -> str:
    """What a request names, as far as it names one thing."""
    for field in ("name", "dagger", "message"):
        value = getattr(request, field, "")
        if value and isinstance(value, str):
            return value
    return ""


def _unaudited(call: Call, why: AuditAway) -> ApiError:
    text = (
        "what records say is not shown while that cannot be audited: the audit's topic takes no record"
        f" ({why}); try again later"
    )
    return ApiError(
        grpc.StatusCode.UNAVAILABLE,
        "AUDIT_AWAY",
        text,
        {"method": call.method, "why": str(why)},
        retry_after=_LATER,
    )


def _denied(call: Call, decision: Decision) -> ApiError:
    metadata = {**decision.metadata, "method": call.method}
    return ApiError(grpc.StatusCode.PERMISSION_DENIED, decision.reason, decision.detail, metadata)
