"""Forecast a replay without writing, from the quarantine, the streams' topics and the closed windows."""

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
from runtime.replay.originals import Originals, source_of
from runtime.replay.records import LateRecord, PassingRecord, RecordClassifier, TriedRecord
from runtime.replay.replaying import Attempt, read_history, read_tried, split_untried
from runtime.replay.sinkrows import SinkRows
from runtime.replay.topic import QuarantineTopic
from runtime.replay.verdicts import SINK, Resolved

_MOST_A_FETCH = 1_000


def forecast_replay(
    attempt: Attempt,
    edits: Mapping[str, telemetry_pb2.QuarantineEdited],
    closed_until: Callable[[daggersql.Plan], datetime | None],
) -> list[gateway_pb2.QuarantineForecast]:
    """Count the expected outcomes by reason, the replayed ones first.

    edits: by id of the record, as the request will have them. closed_until: returns the event time up to
    which the dagger's driver has closed windows. Rows that a sink would refuse again are forecast as
    replayed: nobody but the sink can tell. Raises: JobError.
    """
    spec, request = attempt.spec, attempt.request
    plan = planned.check_spec(spec)
    history = History(request, attempt.sequence, attempt.created)
    counts = _ForecastCounts()
    with closing(QuarantineTopic(spec.platform, spec.dagger)) as topic:
        read_history(topic, history, request)
        sinks = SinkRows(
            spec, plan, request.replay_id, force=request.force, wait=_refuse_to_wait, confirm=_confirm_nothing
        )
        tried, untried = split_untried(history.selected, request, sinks)
        for outcome in untried.values():
            counts.add(outcome)
        classifier = RecordClassifier(
            spec, plan, closed_until(plan), computes=True, recomputes=request.recompute
        )
        originals, undecoded = Originals(spec), list[TriedRecord]()

        def try_all() -> None:
            originals_by_source = originals.fetch([record.record for record in undecoded])
            for record in undecoded:
                outcome = classifier.classify(record, originals_by_source.get(source_of(record.record)))
                counts.add(
                    verdicts.resolve_replayed()
                    if isinstance(outcome, PassingRecord | LateRecord)
                    else outcome
                )
            undecoded.clear()

        for entry, record, _ in read_tried(topic, tried, history):
            edit = edits.get(entry.id)
            if record is None:
                counts.add(verdicts.resolve_expired())
            elif entry.stage != SINK:
                undecoded.append(TriedRecord(entry, record, edit.value if edit else None))
                if len(undecoded) >= _MOST_A_FETCH:
                    try_all()
            else:
                counts.add(
                    verdicts.check_usable(record) or _check_row(sinks, record) or verdicts.resolve_replayed()
                )
        try_all()
    return counts.forecast()


class _ForecastCounts:
    """Counts outcomes by reason, and keeps the first detail of each."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[telemetry_pb2.QuarantineOutcome.ValueType, str]] = Counter()
        self._details: dict[tuple[telemetry_pb2.QuarantineOutcome.ValueType, str], str] = {}

    def add(self, outcome: Resolved) -> None:
        key = outcome.outcome, outcome.reason
        self._counts[key] += 1
        self._details.setdefault(key, outcome.detail)

    def forecast(self) -> list[gateway_pb2.QuarantineForecast]:
        """Return the counts in the order of the outcomes: the replayed ones first."""
        return [
            gateway_pb2.QuarantineForecast(
                outcome=outcome, reason=reason, records=records, detail=self._details[outcome, reason]
            )
            for (outcome, reason), records in sorted(self._counts.items())
        ]


def _check_row(sinks: SinkRows, record: telemetry_pb2.Quarantined) -> Resolved | None:
    with pa.ipc.open_stream(record.row) as row:
        return verdicts.check_schema(sinks.layout, row.schema)


def _refuse_to_wait(seconds: float) -> None:
    raise AssertionError(f"nothing is written, and {seconds} s are not waited for")


def _confirm_nothing() -> None:
    """Return at once: a forecast writes nothing, so it needs no lease."""
