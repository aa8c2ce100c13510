"""What has become of a record that was set aside: the fold of what stands behind it. Pure."""

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
"""The states of what is open: somebody still has to do something about it."""
OUTCOMES: Final = {
    telemetry_pb2.QUARANTINE_OUTCOME_REPLAYED: REPLAYED,
    telemetry_pb2.QUARANTINE_OUTCOME_LATE: LATE,
    telemetry_pb2.QUARANTINE_OUTCOME_FAILED_AGAIN: FAILED_AGAIN,
    telemetry_pb2.QUARANTINE_OUTCOME_NOT_REPLAYABLE: NOT_REPLAYABLE,
}
"""What a record is in after each outcome."""
MOST_ATTEMPTS: Final = 5
"""So often may a record fail again before a replay needs `force`."""


@dataclass(frozen=True, slots=True)
class Became:
    """What has become of one record."""

    state: State = OPEN
    attempts: int = 0
    """How often it has FAILED_AGAIN."""
    reason: str = ""
    """UPPER_SNAKE, of its last replay."""
    why: str = ""
    """One sentence, of its last replay or of who discarded it."""
    replay: str = ""
    """The last replay that meant it."""
    resolved: int = 0
    """Sequence of the request that made it so, in the control log; 0 while nothing has."""


def resolved(before: Became, said: telemetry_pb2.QuarantineResolved) -> Became:
    """After the outcome of a replay: the last one counts. What is discarded stays so until it is replayed."""
    before = _living(before, said.created)
    state = OUTCOMES.get(said.outcome)
    if state is None or (before.state == DISCARDED and state != REPLAYED):
        return before
    attempts = said.attempt or before.attempts
    return Became(state, attempts, said.reason, said.detail, said.replay_id, said.sequence)


def discarded(before: Became, said: telemetry_pb2.QuarantineDiscarded) -> Became:
    """After somebody discarded it."""
    before = _living(before, said.created)
    if before.state not in NEEDED:
        return before
    return Became(DISCARDED, before.attempts, "", said.detail, before.replay, said.sequence)


def _living(before: Became, created: int) -> Became:
    """What counts of it in a dagger that was created then: of an earlier one of its name nothing does."""
    return Became() if 0 < before.resolved <= created else before
