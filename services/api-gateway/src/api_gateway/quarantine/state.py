"""Fold the events behind a quarantined record into its state. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from daggers.v1 import gateway_pb2, telemetry_pb2

State: TypeAlias = gateway_pb2.QuarantineState.ValueType

OPEN: Final = gateway_pb2.QUARANTINE_STATE_OPEN
REPLAYED: Final = gateway_pb2.QUARANTINE_STATE_REPLAYED
DISCARDED: Final = gateway_pb2.QUARANTINE_STATE_DISCARDED
LATE: Final = gateway_pb2.QUARANTINE_STATE_LATE
FAILED_AGAIN: Final = gateway_pb2.QUARANTINE_STATE_FAILED_AGAIN
NOT_REPLAYABLE: Final = gateway_pb2.QUARANTINE_STATE_NOT_REPLAYABLE

NEEDED: Final = (OPEN, LATE, FAILED_AGAIN, NOT_REPLAYABLE)
"""States of open records, which need somebody's action."""
OUTCOMES: Final = {
    telemetry_pb2.QUARANTINE_OUTCOME_REPLAYED: REPLAYED,
    telemetry_pb2.QUARANTINE_OUTCOME_LATE: LATE,
    telemetry_pb2.QUARANTINE_OUTCOME_FAILED_AGAIN: FAILED_AGAIN,
    telemetry_pb2.QUARANTINE_OUTCOME_NOT_REPLAYABLE: NOT_REPLAYABLE,
}
"""State of a record after each outcome."""
MOST_ATTEMPTS: Final = 5
"""Number of failed replays of a record after which a replay needs `force`."""


@dataclass(frozen=True, slots=True)
class RecordState:
    """State of one quarantined record."""

    state: State = OPEN
    attempts: int = 0
    """Number of replays that ended in FAILED_AGAIN."""
    reason: str = ""
    """UPPER_SNAKE reason of the last replay."""
    why: str = ""
    """One sentence, of the last replay or of the person who discarded it."""
    replay: str = ""
    """Id of the last replay that took it."""
    resolved: int = 0
    """Sequence in the control log of the request that led to this state; 0 for none."""


def after_outcome(before: RecordState, outcome: telemetry_pb2.QuarantineResolved) -> RecordState:
    """Return the state after the outcome of a replay. A discarded record stays so unless it was replayed."""
    before = _living(before, outcome.created)
    state = OUTCOMES.get(outcome.outcome)
    if state is None or (before.state == DISCARDED and state != REPLAYED):
        return before
    attempts = outcome.attempt or before.attempts
    return RecordState(state, attempts, outcome.reason, outcome.detail, outcome.replay_id, outcome.sequence)


def after_discard(before: RecordState, discard: telemetry_pb2.QuarantineDiscarded) -> RecordState:
    """Return the state after a discard."""
    before = _living(before, discard.created)
    if before.state not in NEEDED:
        return before
    return RecordState(DISCARDED, before.attempts, "", discard.detail, before.replay, discard.sequence)


def _living(before: RecordState, created: int) -> RecordState:
    """Return the state within a dagger created at that sequence: an earlier one of its name
    does not count.
    """
    return RecordState() if 0 < before.resolved <= created else before
