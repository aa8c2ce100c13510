"""Plan an edit, print the plan, and apply it as it was planned: from a dagger file, or an earlier version."""

from dataclasses import dataclass
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2, spec_pb2

from cli.errors import RefusedError
from cli.framework.deletion import agreed, asks
from cli.framework.gateway import Gateway
from cli.framework.session import Session
from cli.output import plan_text

AcceptLoss = Annotated[
    bool,
    typer.Option("--accept-loss", help="Apply even if rows or windows are lost; `daggers plan` shows which."),
]
PLANS = 5
"""Most attempts to plan an edit of a dagger that others change meanwhile."""
OVERTAKEN = ("ABORTED", "ALREADY_EXISTS")
"""Codes of a request for a version that a dagger no longer has."""


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of a dagger: its new specification."""

    name: str
    spec: spec_pb2.DaggerSpec
    source: str = plan_text.FILE
    """Source of the specification in words."""
    question: str = ""
    """Question to ask on a terminal in any case; empty: ask only where something is lost."""


def apply_planned(
    session: Session, gateway: Gateway, edit: Edit, *, message: str, loses: bool, yes: bool
) -> gateway_pb2.ApplyDaggerResponse:
    """Apply an edit as it was planned and printed; `loses`: also where something is lost.
    Raises: CliError.
    """
    for _ in range(PLANS):
        plan = _plan(gateway, edit)
        if plan is None:
            return gateway.apply(edit.name, edit.spec, message=message)
        if plan.action == gateway_pb2.ApplyDaggerResponse.ACTION_UPDATED:
            for line in plan_text.lines(edit.name, plan, edit.source):
                session.out.note(line)
        _ask(session, edit, plan, loses=loses, yes=yes)
        try:
            return gateway.apply(edit.name, edit.spec, expected_version=plan.version, message=message)
        except RefusedError as refusal:  # another edit was first: plan again
            if refusal.detail.get("code") not in OVERTAKEN:
                raise
            overtaken = refusal
    raise overtaken


def _plan(gateway: Gateway, edit: Edit) -> gateway_pb2.PlanDaggerResponse | None:
    """Plan an edit; return None where the gateway is too old to plan. Raises: CliError."""
    try:
        return gateway.plan(edit.name, edit.spec)
    except RefusedError as refusal:
        if refusal.reason == "UNIMPLEMENTED":
            return None
        raise


def _ask(
    session: Session, edit: Edit, plan: gateway_pb2.PlanDaggerResponse, *, loses: bool, yes: bool
) -> None:
    """Ask for confirmation on a terminal.

    Raises: RefusedError where the answer is no, and where something is lost without a terminal to ask on.
    """
    asked_for = plan.losses and not loses
    if asked_for and not asks(session):
        text = f"{'; '.join(plan.losses)}: --accept-loss applies it all the same"
        raise RefusedError(text, reason="PLAN_LOSES", detail={"plan": plan_text.document(edit.name, plan)})
    if edit.question or asked_for:
        agreed(session, edit.question or f"Apply {edit.name} all the same?", yes=yes)
