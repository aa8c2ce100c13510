"""One attempt of a replay, from the topic to the last outcome.

Outcomes follow what was done. Who crashes in between does it again, in the same chunks, and says it again.
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
from runtime.launch.refused import stream
from runtime.replay import verdicts
from runtime.replay.chunks import MOST_ROWS, Chunk, Chunks
from runtime.replay.edited import BadEditError, edited
from runtime.replay.history import History, Kept, Place, name_of
from runtime.replay.said import Said
from runtime.replay.sinkrows import PATIENCE_S, SinkRows
from runtime.replay.topic import Outcomes, Topic
from runtime.replay.verdicts import SINK, Resolved

if TYPE_CHECKING:
    from runtime.launch.launch import Computed


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one attempt is told."""

    spec: spec_pb2.JobSpec
    """As a driver of the dagger would be told; its generation is the attempt's."""
    asked: events_pb2.QuarantineReplayRequested
    sequence: int
    """Of the request."""
    created: int
    """Sequence of the dagger's creation."""


def replay(
    attempt: Attempt,
    *,
    wait: Callable[[float], None],
    confirm: Callable[[], None],
    closed: Callable[[daggersql.Plan], datetime | None],
    computed: Computed | None = None,
    patience_s: float = PATIENCE_S,
    most_rows: int = MOST_ROWS,
) -> Mapping[str, int]:
    """Give each record that is meant an outcome; how many have each, by name.

    `wait` lets seconds pass and `confirm` returns while this attempt may write: both raise JobError when it
    is over. `closed`: up to which event time the dagger's driver has closed windows. `computed`: where the
    query is computed; None: nowhere. Raises: JobError.
    """
    spec, asked = attempt.spec, attempt.asked
    plan = planned.checked(spec)
    history = History(asked, attempt.sequence, attempt.created)
    with closing(Topic(spec.platform, spec.dagger)) as topic:
        taken(topic, history, asked)
        sinks = SinkRows(
            spec,
            plan,
            asked.replay_id,
            force=asked.force,
            wait=wait,
            confirm=confirm,
            patience_s=patience_s,
        )
        outcomes = Outcomes(
            spec.platform,
            spec.dagger,
            asked.replay_id,
            sequence=attempt.sequence,
            created=attempt.created,
        )
        meant = history.meant
        said = Said(history, meant, outcomes, confirm)
        logger().info("replay.started", meant=len(meant), said=len(history.outcomes), replay=asked.replay_id)
        tried, untried = sorted_out(meant, asked, sinks)
        said.add(untried)
        unread, chunks = None, Chunks(most_rows)
        if any(kept.stage != SINK for kept in tried.values()):
            from runtime.replay.unread import Unread  # with what decodes, which few replays need

            query = None
            if computed is not None:
                from runtime.replay.query import Query  # with Spark, which no other replay has

                query = Query(
                    computed, plan, asked.replay_id,
                    force=asked.force, wait=wait, confirm=confirm, patience_s=patience_s,
                )  # fmt: skip
            unread = Unread(spec, plan, closed(plan), query, said, most_rows, recomputes=asked.recompute)
        for kept, record, edit in held(topic, tried, history):
            if record is None:
                said.add({kept.id: verdicts.expired()})
            elif unread is not None and kept.stage != SINK:
                unread.add(kept, record, edit.value if edit else None)
            elif (why := verdicts.unusable(record)) is not None:
                said.add({kept.id: why})
            else:
                try:
                    row = _row(record, edit)
                except BadEditError as wrong:
                    said.add({kept.id: verdicts.not_replayable("BAD_EDIT", str(wrong))})
                    continue
                version = sinks.version(kept.sink, record.generation, record.batch_id)
                for chunk in chunks.add(kept, row, version, len(record.row)):
                    _write(sinks, chunk, said)
        for chunk in chunks.rest():
            _write(sinks, chunk, said)
        if unread is not None:
            unread.end()
        said.all()
    return said.counts


def _write(sinks: SinkRows, chunk: Chunk, said: Said) -> None:
    if said.has(chunk.kept):
        return
    outcomes = sinks.write(chunk)
    said.add(outcomes)
    said.all()
    counts = Counter(f"{name_of(outcome.outcome)} {outcome.reason}".strip() for outcome in outcomes.values())
    logger().info("replay.chunk_finished", sink=chunk.sink, number=chunk.number, outcomes=dict(counts))


def taken(topic: Topic, history: History, asked: events_pb2.QuarantineReplayRequested) -> None:
    """Take in what stands in the topic of the dagger. Raises: JobError."""
    for place, message in topic.whole(asked.up_to, asked.starts):
        history.take(place, *_told(message))


def sorted_out(
    meant: Sequence[Kept], asked: events_pb2.QuarantineReplayRequested, sinks: SinkRows
) -> tuple[dict[Place, Kept], dict[str, Resolved]]:
    """The records that are tried, by place, and why others are not, by id."""
    tried: dict[Place, Kept] = {}
    untried: dict[str, Resolved] = {}
    for kept in meant:
        if (why := verdicts.untried(kept, asked, sinks.named)) is None and kept.stage == SINK:
            why = sinks.refusal(kept.sink)
        if why is None:
            tried[kept.place] = kept
        else:
            untried[kept.id] = why
    return tried, untried


def held(
    topic: Topic, tried: Mapping[Place, Kept], history: History
) -> Iterator[tuple[Kept, telemetry_pb2.Quarantined | None, telemetry_pb2.QuarantineEdited | None]]:
    """Each of these records with what is kept of it, and what is to be taken in its place."""
    places = {history.edits[kept.id] for kept in tried.values() if kept.id in history.edits}
    edits = {
        place: telemetry_pb2.QuarantineEdited.FromString(message.value() or b"")
        for place, message in topic.at(sorted(places))
        if message is not None
    }
    for place, message in topic.at(sorted(tried)):
        kept = tried[place]
        record = telemetry_pb2.Quarantined.FromString(message.value() or b"") if message is not None else None
        yield kept, record, edits.get(history.edits.get(kept.id, (-1, -1)))


def _told(message: Message) -> tuple[str, bytes, str, int]:
    """Type, value and id of the event that a record is; its Kafka timestamp."""
    headers: dict[str, bytes] = dict(message.headers() or ())  # type: ignore[arg-type]  # of what was read
    value = message.value() or b""
    _, kafka_ms = message.timestamp()
    return headers.get("ce_type", b"").decode(), value, headers.get("ce_id", b"").decode(), kafka_ms


def _row(record: telemetry_pb2.Quarantined, edit: telemetry_pb2.QuarantineEdited | None) -> bytes:
    """The row to write, as an Arrow IPC stream. Raises: BadEditError."""
    if edit is None:
        return record.row
    return stream(edited(pa.ipc.open_stream(record.row).read_next_batch(), edit.columns))
