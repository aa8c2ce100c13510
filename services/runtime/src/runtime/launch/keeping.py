"""Decide whether a launch resumes its dagger's checkpoint, begins anew, or fails (ADR 175).

A lost checkpoint is no reason to begin anew: rows would be written twice or never, unnoticed. A launch begins
anew only where a person asked for it, or where it makes no difference: every sink overwrites, and Kafka still
has all records that `start` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress

from chassis.logging import logger
from daggerspec import anew
from runtime.clients.kafka import client_properties
from runtime.errors import explain, raised_here
from runtime.launch.launch import Launch
from runtime.source.planner import start_offsets
from runtime.source.planner.broker import Broker
from runtime.state import checkpoint, damage, root

_NOTE = "damaged"
"""File in a dagger's checkpoint root: Spark could not read the checkpoint.

It has a line for each failure in a row: the checkpoints' progress.
"""
_MIN_FAILURES = 2
"""Launches in a row that must fail, without a committed batch, before a checkpoint without missing files
counts as damaged: a single error may be temporary.
"""


def find_root(launch: Launch) -> None:
    """Check that the root of all checkpoints is the expected one, before writing there. Raises: JobError."""
    if launch.spec.HasField("checkpoints"):
        root.settle(launch.spec.checkpoints)


def begin(launch: Launch, fingerprint: str) -> Sequence[str]:
    """Prepare the checkpoint for a plan with this fingerprint: resume it, or begin anew; return warnings.

    Raises: OSError; JobError (EXTERNAL) where the launch may not begin at all.
    """
    spec = launch.spec
    if spec.from_start:
        if not checkpoint.begin_anew(launch.root, spec.from_start):
            return ()
        return [_describe_new_start(launch, "As it was asked to")]
    if not spec.checkpoints.has_own:
        return ()
    note = launch.root / _NOTE
    damaged = damage.of_launch(launch.root, fingerprint)
    if damaged is None and len(_failures(launch)) < _MIN_FAILURES:
        return ()
    if not (anew.overwrites(spec.spec) and _is_still_in_kafka(launch)):
        if damaged is not None:
            raise damaged.error(retryable=False)
        note.remove()  # it may have been repaired: Spark will tell
        return ()
    checkpoint.begin_anew(launch.root, 0)
    if note.exists():
        note.remove()
    return [_describe_new_start(launch, damaged.detail if damaged else "Spark could not read its checkpoint")]


def record_failure(launch: Launch, failure: BaseException) -> None:
    """Record for the next launch that Spark could not read this one's checkpoint.

    Missing files are not recorded: the next launch finds them itself.
    """
    if raised_here(failure) is None and explain(failure).reason == anew.DAMAGED:
        with suppress(OSError):
            failures = [*_failures(launch), checkpoint.progress(launch.root)]
            (launch.root / _NOTE).write_text("".join(f"{line}\n" for line in failures))


def _failures(launch: Launch) -> Sequence[str]:
    """Read the recorded failures since the last committed batch. Raises: OSError."""
    note = launch.root / _NOTE
    if not note.exists():
        return ()
    now = checkpoint.progress(launch.root)
    return [line for line in note.read_text().splitlines() if line == now]


def _describe_new_start(launch: Launch, why: str) -> str:
    sentence = f"{why}, it began anew: {anew.consequences(launch.spec.spec)}"
    logger().warning("checkpoint.begun_anew", why=sentence)
    return f"{anew.BEGUN} {sentence}"


def _is_still_in_kafka(launch: Launch) -> bool:
    """Tell whether Kafka still has all records that the dagger starts with. Raises: JobError."""
    for stream in launch.spec.streams:
        start = stream.input.start
        if not anew.names_a_place(start):
            return False
        group = launch.spec.spec.consumer_group
        with closing(Broker(client_properties(stream.kafka), group)) as broker:
            position = start_offsets.start_position(start)
            if not start_offsets.still_held(broker, stream.stream.topics, position):
                return False
    return True
