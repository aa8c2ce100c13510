"""What has become of each record is the fold of its topic, however it was read."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from daggers.v1 import events_pb2, telemetry_pb2
from google.protobuf.message import Message as Said
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlmodel import Session, select

from api_gateway.quarantine import state
from api_gateway.quarantine.index import QuarantineIndex
from api_gateway.quarantine.reads import DaggerLife, QuarantineReads
from api_gateway.quarantine.topic import Message
from api_gateway.state.database import Database
from api_gateway.state.tables import OutcomeRow, QuarantineRow
from eventlog import Draft

NOON = 1_700_000_000_000
NUMBERS = st.integers(0, 4)
REASONS = st.sampled_from(["MALFORMED", "SINK_REFUSED"])
OUTCOMES = st.sampled_from([each for each in telemetry_pb2.QuarantineOutcome.values() if each])
BORN = DaggerLife("orders", 0)


def message(said: Any, offset: int) -> Message:
    """What a dagger, a replay or a gateway says, at its place."""
    draft = Draft(f"q-{offset}", "/test", "orders", datetime(2026, 1, 1, tzinfo=UTC), said)
    return Message(0, offset, NOON + offset, b"orders", draft.headers(), said.SerializeToString())


@dataclass
class Kept:
    """What the model knows of one record."""

    offset: int
    reason: str
    state: int = state.OPEN
    attempts: int = 0


def model(said: list[Said]) -> dict[str, Kept]:
    """What has become of each record, message by message."""
    records: dict[str, Kept] = {}
    for offset, each in enumerate(said):
        match each:
            case telemetry_pb2.Quarantined():
                known = records.setdefault(each.id, Kept(offset, each.reason))
                known.offset, known.reason = offset, each.reason
            case telemetry_pb2.QuarantineResolved() if each.id in records:
                known, outcome = records[each.id], state.OUTCOMES[each.outcome]
                if known.state != state.DISCARDED or outcome == state.REPLAYED:
                    known.state, known.attempts = outcome, each.attempt or known.attempts
            case telemetry_pb2.QuarantineDiscarded():
                for known in records.values():
                    meant = not each.selection.reasons or known.reason in each.selection.reasons
                    if meant and known.offset < each.up_to[0] and known.state != state.REPLAYED:
                        known.state = state.DISCARDED
    return records


def held(database: Database) -> Any:
    """All that the index holds but how far it has read."""
    with Session(database.engine) as session:
        rows = [tuple(row.model_dump().values()) for row in session.exec(select(QuarantineRow))]
        outcomes = [tuple(row.model_dump().values()) for row in session.exec(select(OutcomeRow))]
    return sorted(rows), sorted(outcomes)


class Lives(RuleBasedStateMachine):
    """Drivers, replays and people write in any order; the gateway reads on when it can."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.said: list[Said] = []
        self.read = 0
        self.begin("kept.db")

    def begin(self, name: str) -> None:
        self.database = Database(f"sqlite:///{self.folder.name}/{name}")
        self.index = QuarantineIndex(self.database)
        positions = self.index.prepare()
        self.read = positions[0].next if 0 in positions else 0

    def teardown(self) -> None:
        self.follow(len(self.said), 3)
        kept = held(self.database)
        self.database.close()
        self.begin("anew.db")
        self.follow(len(self.said), 1_000)
        anew = held(self.database)
        self.database.close()
        self.folder.cleanup()

        assert kept == anew

    @rule(number=NUMBERS, reason=REASONS)
    def set_aside(self, number: int, reason: str) -> None:
        self.said.append(
            telemetry_pb2.Quarantined(dagger="orders", generation=9, id=f"r{number}", reason=reason)
        )

    @rule(number=NUMBERS, outcome=OUTCOMES, attempt=st.integers(1, 6))
    def resolved(self, number: int, outcome: Any, attempt: int) -> None:
        failed = outcome == telemetry_pb2.QUARANTINE_OUTCOME_FAILED_AGAIN
        self.said.append(
            telemetry_pb2.QuarantineResolved(
                dagger="orders",
                id=f"r{number}",
                replay_id="again",
                sequence=20,
                outcome=outcome,
                attempt=attempt if failed else 0,
            )
        )

    @rule(reasons=st.lists(REASONS, max_size=1), back=st.integers(0, 3))
    def discarded(self, reasons: list[str], back: int) -> None:
        self.said.append(
            telemetry_pb2.QuarantineDiscarded(
                dagger="orders",
                selection=events_pb2.QuarantineSelection(reasons=reasons),
                up_to={0: max(len(self.said) - back, 0)},
                sequence=21,
            )
        )

    @rule(count=st.integers(1, 12), batch=st.integers(1, 5))
    def follow(self, count: int, batch: int) -> None:
        end = min(self.read + count, len(self.said))
        while self.read < end:
            until = min(self.read + batch, end)
            self.index.write([message(self.said[n], n) for n in range(self.read, until)])
            self.read = until

    @rule()
    def read_again(self) -> None:
        since = max(self.read - 3, 0)
        self.index.write([message(self.said[n], n) for n in range(since, self.read)])

    @rule()
    def crash(self) -> None:
        self.database.close()
        self.begin("kept.db")

    @invariant()
    def each_record_is_what_the_model_says(self) -> None:
        listed, _ = QuarantineReads(self.database).page(BORN, before=None, limit=100, size=1 << 30)
        found = {each.record.id: (each.state.state, each.state.attempts) for each in listed}

        assert found == {
            id_: (each.state, each.attempts) for id_, each in model(self.said[: self.read]).items()
        }


def test_each_record_has_the_state_that_its_topic_says() -> None:
    few = settings(max_examples=settings.default.max_examples // 2, stateful_step_count=25)
    run_state_machine_as_test(Lives, settings=few)
