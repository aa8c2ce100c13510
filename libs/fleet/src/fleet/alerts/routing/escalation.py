"""Escalation: who is told next of an incident that nobody has acknowledged. Pure."""

from __future__ import annotations

from datetime import datetime

from fleet.alerts.routing.routes import NEVER, Destination


def find_escalation(
    destination: Destination, *, first_notice: datetime | None, is_acknowledged: bool, now: datetime
) -> tuple[str, ...]:
    """Return the receivers to which an open incident is escalated now; empty while it is not.

    `first_notice`: when the first receiver of the destination took it; None before, as what nobody was told
    cannot be acknowledged.
    """
    if first_notice is None or is_acknowledged or destination.escalate_after == NEVER:
        return ()
    return destination.escalate_to if now >= first_notice + destination.escalate_after else ()
