"""Run one attempt of a replay, from the topic to the last outcome.

Outcomes are written after the rows. An attempt that crashes in between is followed by one that writes the
same chunks again, and then their outcomes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka import Message
from daggers.v1 import events_pb2, spec_pb2, telemetry_pb2

import daggersql
from chassis.logging import logger
from runtime.launch import planned
from runtime.launch.refused_rows import to_ipc_stream
from runtime.replay import verdicts
from runtime.replay.chunks import MOST_ROWS, Chunk, Chunks
from runtime.replay.edits import BadEditError, apply_edit
from runtime.replay.history import History, Place, QuarantineEntry, name_of
from runtime.replay.outcome_writer import OutcomeWriter
from runtime.replay.sinkrows import PATIENCE_S, SinkRows
from runtime.replay.topic import OutcomeProducer, QuarantineTopic
from runtime.replay.verdicts import SINK, Resolved

if TYPE_CHECKING:
    from runtime.launch.launch import Computation


@dataclass(frozen=True, slots=True)
class Attempt:
    """Input of one attempt."""

    spec: spec_pb2.JobSpec
    """The job as a driver of the dagger would get it; its generation is the attempt's."""
    request: events_pb2.QuarantineReplayRequested
    sequence: int
    """Sequence of the request."""
    created: int
    """Sequence of the dagger's creation."""


def replay(
    attempt: Attempt,
    *,
    wait: Callable[[float], None],
    confirm: Callable[[], None],
    closed_until: Callable[[daggersql.Plan], datetime | None],
    computed: Computation | None = None,
    patience_s: float = PATIENCE_S,
    most_rows: int = MOST_ROWS,
) -> Mapping[str, int]:
    """Give each selected record an outcome, and return how many have each, by its name.

    wait: sleeps for seconds. confirm: returns while this attempt may write; both raise JobError when it is
    over. closed_until: returns the event time up to which the dagger's driver has closed windows. computed:
    computes the query; None: this replay computes none. Raises: JobError.
    """
    spec, request = attempt.spec, attempt.request
    plan = planned.check_spec(spec)
    history = History(request, attempt.sequence, attempt.created)
    with closing(QuarantineTopic(spec.platform, spec.dagger)) as topic:
        read_history(topic, history, request)
        sinks = SinkRows(
            spec,
            plan,
            request.replay_id,
            force=request.force,
            wait=wait,
            confirm=confirm,
            patience_s=patience_s,
        )
        producer = OutcomeProducer(
            spec.platform,
            spec.dagger,
            request.replay_id,
            sequence=attempt.sequence,
            created=attempt.created,
        )
        selected = history.selected
        writer = OutcomeWriter(history, selected, producer, confirm)
        logger().info(
            "replay.started", selected=len(selected), resolved=len(history.outcomes), replay=request.replay_id
        )
        tried, untried = split_untried(selected, request, sinks)
        writer.add(untried)
        undecoded, chunks = None, Chunks(most_rows)
        if any(entry.stage != SINK for entry in tried.values()):
            from runtime.replay.undecoded import UndecodedBatch  # brings the decoder, which few replays need

            query = None
            if computed is not None:
                from runtime.replay.query import ReplayQuery  # brings Spark, which no other replay has

                query = ReplayQuery(
                    computed, plan, request.replay_id,
                    force=request.force, wait=wait, confirm=confirm, patience_s=patience_s,
                )  # fmt: skip
            undecoded = UndecodedBatch(
                spec, plan, closed_until(plan), query, writer, most_rows, recomputes=request.recompute
            )
        for entry, record, edit in read_tried(topic, tried, history):
            if record is None:
                writer.add({entry.id: verdicts.resolve_expired()})
            elif undecoded is not None and entry.stage != SINK:
                undecoded.add(entry, record, edit.value if edit else None)
            elif (why := verdicts.check_usable(record)) is not None:
                writer.add({entry.id: why})
            else:
                try:
                    row = _row(record, edit)
                except BadEditError as wrong:
                    writer.add({entry.id: verdicts.resolve_not_replayable("BAD_EDIT", str(wrong))})
                    continue
                version = sinks.version_of(entry.sink, record.generation, record.batch_id)
                for chunk in chunks.add(entry, row, version, len(record.row)):
                    _write(sinks, chunk, writer)
        for chunk in chunks.flush():
            _write(sinks, chunk, writer)
        if undecoded is not None:
            undecoded.finish()
        writer.flush()
    return writer.counts


def _write(sinks: SinkRows, chunk: Chunk, writer: OutcomeWriter) -> None:
    if writer.has_outcomes(chunk.entries):
        return
    outcomes = sinks.write(chunk)
    writer.add(outcomes)
    writer.flush()
    counts = Counter(f"{name_of(outcome.outcome)} {outcome.reason}".strip() for outcome in outcomes.values())
    logger().info("replay.chunk_finished", sink=chunk.sink, number=chunk.number, outcomes=dict(counts))


def read_history(
    topic: QuarantineTopic, history: History, request: events_pb2.QuarantineReplayRequested
) -> None:
    """Fold the dagger's events in the topic into `history`. Raises: JobError."""
    for place, message in topic.read_all(request.up_to, request.starts):
        history.apply(place, *_event_of(message))


def split_untried(
    selected: Sequence[QuarantineEntry], request: events_pb2.QuarantineReplayRequested, sinks: SinkRows
) -> tuple[dict[Place, QuarantineEntry], dict[str, Resolved]]:
    """Split the entries: those to try, by place, and the outcomes of all others, by id."""
    tried: dict[Place, QuarantineEntry] = {}
    untried: dict[str, Resolved] = {}
    for entry in selected:
        if (
            why := verdicts.check_triable(entry, request, sinks.sinks_by_name)
        ) is None and entry.stage == SINK:
            why = sinks.check_sink(entry.sink)
        if why is None:
            tried[entry.place] = entry
        else:
            untried[entry.id] = why
    return tried, untried


def read_tried(
    topic: QuarantineTopic, tried: Mapping[Place, QuarantineEntry], history: History
) -> Iterator[
    tuple[QuarantineEntry, telemetry_pb2.Quarantined | None, telemetry_pb2.QuarantineEdited | None]
]:
    """Yield each entry with its record, None if that was deleted, and its edit, None if it has none."""
    places = {history.edits[entry.id] for entry in tried.values() if entry.id in history.edits}
    edits = {
        place: telemetry_pb2.QuarantineEdited.FromString(message.value() or b"")
        for place, message in topic.read_at(sorted(places))
        if message is not None
    }
    for place, message in topic.read_at(sorted(tried)):
        entry = tried[place]
        record = telemetry_pb2.Quarantined.FromString(message.value() or b"") if message is not None else None
        yield entry, record, edits.get(history.edits.get(entry.id, (-1, -1)))


def _event_of(message: Message) -> tuple[str, bytes, str, int]:
    """Return type, value and id of the event in a message, and its Kafka timestamp in ms."""
    headers: dict[str, bytes] = dict(message.headers() or ())  # type: ignore[arg-type]  # of what was read
    value = message.value() or b""
    _, kafka_ms = message.timestamp()
    return headers.get("ce_type", b"").decode(), value, headers.get("ce_id", b"").decode(), kafka_ms


def _row(record: telemetry_pb2.Quarantined, edit: telemetry_pb2.QuarantineEdited | None) -> bytes:
    """Return the row to write, edited, as an Arrow IPC stream. Raises: BadEditError."""
    if edit is None:
        return record.row
    return to_ipc_stream(apply_edit(pa.ipc.open_stream(record.row).read_next_batch(), edit.columns))
