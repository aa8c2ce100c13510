"""What a replay would say of the records that are meant, and writes nothing: by what they hold, by what Kafka
still has, and by the windows that are closed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import datetime

import pyarrow as pa
from daggers.v1 import gateway_pb2, telemetry_pb2

import daggersql
from runtime.launch import planned
from runtime.replay import verdicts
from runtime.replay.history import History
from runtime.replay.originals import Originals, source
from runtime.replay.records import Counts, Passes, Records, Tried
from runtime.replay.replaying import Attempt, held, sorted_out, taken
from runtime.replay.sinkrows import SinkRows
from runtime.replay.topic import Topic
from runtime.replay.verdicts import SINK, Resolved

_AT_ONCE = 1_000


def foreseen(
    attempt: Attempt,
    edits: Mapping[str, telemetry_pb2.QuarantineEdited],
    closed: Callable[[daggersql.Plan], datetime | None],
) -> list[gateway_pb2.QuarantineForecast]:
    """What is expected, those that are replayed first. `edits` are by the id of the record.

    What only a sink can say is not in it. Raises: JobError.
    """
    spec, asked = attempt.spec, attempt.asked
    plan = planned.checked(spec)
    history = History(asked, attempt.sequence, attempt.created)
    said = _Counted()
    with closing(Topic(spec.platform, spec.dagger)) as topic:
        taken(topic, history, asked)
        sinks = SinkRows(spec, plan, asked.replay_id, force=asked.force, wait=_never, confirm=_nothing)
        tried, untried = sorted_out(history.meant, asked, sinks)
        for outcome in untried.values():
            said.add(outcome)
        records = Records(spec, plan, closed(plan), computes=True, recomputes=asked.recompute)
        originals, unread = Originals(spec), list[Tried]()

        def try_all() -> None:
            there = originals.of([record.record for record in unread])
            for record in unread:
                outcome = records.outcome(record, there.get(source(record.record)))
                said.add(verdicts.replayed() if isinstance(outcome, Passes | Counts) else outcome)
            unread.clear()

        for kept, record, _ in held(topic, tried, history):
            edit = edits.get(kept.id)
            if record is None:
                said.add(verdicts.expired())
            elif kept.stage != SINK:
                unread.append(Tried(kept, record, edit.value if edit else None))
                if len(unread) >= _AT_ONCE:
                    try_all()
            else:
                said.add(verdicts.unusable(record) or _fits(sinks, record) or verdicts.replayed())
        try_all()
    return said.forecast()


class _Counted:
    """What was said, by outcome and reason; of the sentences the first."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[telemetry_pb2.QuarantineOutcome.ValueType, str]] = Counter()
        self._details: dict[tuple[telemetry_pb2.QuarantineOutcome.ValueType, str], str] = {}

    def add(self, outcome: Resolved) -> None:
        key = outcome.outcome, outcome.reason
        self._counts[key] += 1
        self._details.setdefault(key, outcome.detail)

    def forecast(self) -> list[gateway_pb2.QuarantineForecast]:
        """Those that are replayed first."""
        return [
            gateway_pb2.QuarantineForecast(
                outcome=outcome, reason=reason, records=records, detail=self._details[outcome, reason]
            )
            for (outcome, reason), records in sorted(self._counts.items())
        ]


def _fits(sinks: SinkRows, record: telemetry_pb2.Quarantined) -> Resolved | None:
    with pa.ipc.open_stream(record.row) as row:
        return verdicts.misfit(sinks.layout, row.schema)


def _never(seconds: float) -> None:
    raise AssertionError(f"nothing is written, and {seconds} s are not waited for")


def _nothing() -> None:
    """Nobody asks whether it may write."""
