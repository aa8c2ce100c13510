"""Authorize calls: each passes the gate between its decoding and its handler, and so does each of its
responses.

The rules are those of `access`; a method without a row there is not served. A gate that observes admits calls
that it would refuse if it enforced, and audits them; changes of roles and grants are refused in both modes.
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
_current_call: ContextVar[tuple[Call, Any]] = ContextVar("current_call")
"""The current call and its request."""


class Gate:
    """The guard of a gateway's methods."""

    def __init__(
        self,
        api: FileDescriptor,
        fold: Fold,
        audit: Audit,
        *,
        enforce: bool,
        places: Sequence[Place] = (),
    ) -> None:
        """Build the gate of an API.

        `places`: locations from which specifications may load secrets by themselves. Raises: TypeError for a
        method without a row in `access.methods`.
        """
        unlisted = [path(method) for method in methods(api) if path(method) not in METHODS]
        if unlisted:
            raise TypeError(f"access.methods does not say who may call {', '.join(unlisted)}")
        self._fold, self._audit, self._enforce, self._places = fold, audit, enforce, places

    async def admit(self, call: Call, request: Any) -> None:
        """Decide whether a call may be handled, and audit it where its method asks for that.

        Raises: ApiError, PERMISSION_DENIED; UNAVAILABLE where a read of records cannot be audited.
        """
        _current_call.set((call, request))
        decision = decide(principal(), call.method, request, self._fold.fleet, self._places)
        self.enters(decision)
        kind = METHODS[call.method].audited
        if call.method == _PLAN and request.try_sinks:
            kind = audits.SINK_TEST
        if kind and decision.allowed:
            await self._record(call, self._build_record(call, request, decision, kind))

    async def _record(self, call: Call, record: audit_pb2.CallAudited) -> None:
        """Audit a call that is admitted. Raises: ApiError, UNAVAILABLE."""
        if not self._enforce or record.kind not in audits.SENSITIVE:
            self._audit.tell(record)
            return
        try:
            await self._audit.write(record)
        except AuditAway as why:
            raise _unaudited_error(call, why) from why

    def enters(self, decision: Decision) -> None:
        """Enforce a decision about the current call, also one that only its handler could make.

        Raises: ApiError, PERMISSION_DENIED.
        """
        if self.refuses(decision):
            raise _denied_error(_current_call.get()[0], decision)

    def refuses(self, decision: Decision, *, always: bool = False) -> bool:
        """Return whether a decision refuses the current call; audit one that is admitted only because the
        gate observes.

        `always`: refuse it in both modes.
        """
        if decision.allowed:
            return False
        call, request = _current_call.get()
        refused = always or self._refuses(call)
        note(denied=decision.reason, refused=refused)
        if not refused:  # a refused call is audited by `record_error`
            self._audit.tell(self._build_record(call, request, decision, audits.REFUSED))
        return refused

    def record_error(self, call: Call, request: Any | None, error: ApiError) -> None:
        """Audit a call that failed because its caller lacks a permission; ignore all other errors."""
        if error.code == grpc.StatusCode.UNAUTHENTICATED:
            self._audit.tell(self._unauthenticated_record(call, error))
            return
        reasons = [violation.reason for violation in error.violations]
        reason = audits.refusal_in((error.reason, *reasons))
        if not reason and error.code == grpc.StatusCode.PERMISSION_DENIED:
            reason = error.reason
        if reason:
            messages = [violation.message for violation in error.violations if violation.reason == reason]
            decision = Decision(False, reason, messages[0] if messages else error.message, {})
            kind = audits.CHECK if call.method == _VALIDATE else audits.REFUSED
            self._audit.tell(self._build_record(call, request, decision, kind, refused=True))

    def _unauthenticated_record(self, call: Call, error: ApiError) -> audit_pb2.CallAudited:
        token, account = bearer(call), ""
        # only its name: the rest of the token may be nearly a valid secret
        if tokens.is_account_token(token):
            account_name = tokens.name_in(token)
            account = (
                f" of account:{account_name}" if account_name in self._fold.fleet.catalogue.accounts else ""
            )
        detail = f"it showed a token{account} that is not valid" if token else "it showed no token"
        return audit_pb2.CallAudited(
            method=call.method,
            refused=True,
            reason=error.reason,
            detail=detail,
            call_id=call.id,
            kind=audits.UNAUTHENTICATED,
            peer=place_of(call.context.peer()),
        )

    def filter_answer(self, call: Call, request: Any, answer: Any) -> Any | None:
        """Return the part of a response that the caller may see.

        Raises: ApiError, PERMISSION_DENIED where a watch outlives the caller's role.
        """
        if isinstance(answer, gateway_pb2.ValidateResponse):
            self._audit_findings(call, request, answer)
        if not (self._enforce or METHODS[call.method].always):
            return answer
        who, fleet = principal(), self._fold.fleet
        if not call.unary:  # a watch may outlive the role that admitted it
            decision = decide(who, call.method, request, fleet)
            if not decision.allowed:
                raise _denied_error(call, decision)
        return METHODS[call.method].view(who, answer, fleet)

    def readable(self) -> frozenset[str] | None:
        """Return the teams whose daggers the caller sees whole; None: all teams."""
        who, fleet = principal(), self._fold.fleet
        if not self._enforce or is_administrator(who, fleet):
            return None
        return frozenset(team for team in fleet.catalogue.teams if may(who, Action.READ, team, fleet).allowed)

    def allows(self, action: Action, team: str) -> bool:
        """Return whether the caller may act on a team's resources; always true while the gate observes."""
        return not self._enforce or may(principal(), action, team, self._fold.fleet).allowed

    def _refuses(self, call: Call) -> bool:
        """Return whether forbidden calls of this method are refused, and not only audited."""
        return self._enforce or METHODS[call.method].always

    def _audit_findings(self, call: Call, request: Any, answer: gateway_pb2.ValidateResponse) -> None:
        """Audit a specification whose validation finds missing permissions: it shows a caller who probes
        them.
        """
        for finding in answer.findings:
            if finding.severity == gateway_pb2.SEVERITY_ERROR and audits.is_refusal(finding.code):
                decision = Decision(False, finding.code, finding.message, {})
                self._audit.tell(self._build_record(call, request, decision, audits.CHECK, refused=False))
                return

    def _build_record(
        self,
        call: Call,
        request: Any | None,
        decision: Decision,
        kind: audits.Kind.ValueType,
        *,
        refused: bool = False,
    ) -> audit_pb2.CallAudited:
        rule, fleet, who = METHODS.get(call.method), self._fold.fleet, principal()
        is_described = rule is not None and (rule.audited or kind == audits.SINK_TEST)
        record = audit_pb2.CallAudited(
            principal=who.name,
            method=call.method,
            allowed=decision.allowed,
            refused=refused,
            reason=decision.reason,
            detail=decision.detail[:_DETAIL],
            call_id=call.id,
            kind=kind,
            asked=audits.describe_request(request) if is_described and request is not None else "",
        )
        if request is not None and rule is not None:
            record.subject = _subject(request)
            record.teams.extend(sorted(set(rule.teams(request, fleet))))
            if is_described and decision.allowed:
                record.sensitive.extend(audits.sensitive_fields(who, rule.audits(request, fleet), fleet))
        return record


def _subject(request: Any) -> str:
    """Return the first name that a request has; empty where it has none."""
    for field in ("name", "dagger", "message"):
        value = getattr(request, field, "")
        if value and isinstance(value, str):
            return value
    return ""


def _unaudited_error(call: Call, why: AuditAway) -> ApiError:
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


def _denied_error(call: Call, decision: Decision) -> ApiError:
    metadata = {**decision.metadata, "method": call.method}
    return ApiError(grpc.StatusCode.PERMISSION_DENIED, decision.reason, decision.detail, metadata)
