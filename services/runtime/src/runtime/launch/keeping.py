"""Whether a launch goes on with the checkpoint that its dagger kept, begins anew, or does neither (ADR 175).

A checkpoint that vanished is no reason to begin anew: rows would be written twice or never, and nobody would
know. It is begun anew where a person asked for it, or where nobody can see a difference: every sink puts rows
in the place of those before, and Kafka still holds all that `start` names.
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
"""In the checkpoint root of a dagger: Spark could not read what is there. A line for each failure in a row:
how far the checkpoints had come.
"""
_BELIEVED = 2
"""A checkpoint in which nothing is missing is only believed to be damaged when so many launches in a row say
so, and none of them has committed a batch: one error may be of the moment.
"""


def find_root(launch: Launch) -> None:
    """Return if the root of all checkpoints is the one, before anything is written there. Raises JobError."""
    if launch.spec.HasField("checkpoints"):
        root.settle(launch.spec.checkpoints)


def begin(launch: Launch, fingerprint: str) -> Sequence[str]:
    """Make sure that a launch of a plan with this fingerprint has the checkpoint that was kept, or none; what
    a person should know of that. Raises: OSError; `JobError` (EXTERNAL) where it may not begin at all.
    """
    spec = launch.spec
    if spec.from_start:
        if not checkpoint.begin_anew(launch.root, spec.from_start):
            return ()
        return [_begun(launch, "As it was asked to")]
    if not spec.checkpoints.has_own:
        return ()
    note = launch.root / _NOTE
    damaged = damage.of_launch(launch.root, fingerprint)
    if damaged is None and len(_failures(launch)) < _BELIEVED:
        return ()
    if not (anew.overwrites(spec.spec) and _still_held(launch)):
        if damaged is not None:
            raise damaged.error(retryable=False)
        note.remove()  # somebody may have mended it: Spark says
        return ()
    checkpoint.begin_anew(launch.root, 0)
    if note.exists():
        note.remove()
    return [_begun(launch, damaged.detail if damaged else "Spark could not read its checkpoint")]


def ended(launch: Launch, failure: BaseException) -> None:
    """Leave word for the next launch where Spark could not read the checkpoint of this one. What is missing
    by our own look, the next launch sees for itself.
    """
    if raised_here(failure) is None and explain(failure).reason == anew.DAMAGED:
        with suppress(OSError):
            failures = [*_failures(launch), checkpoint.progress(launch.root)]
            (launch.root / _NOTE).write_text("".join(f"{line}\n" for line in failures))


def _failures(launch: Launch) -> Sequence[str]:
    """The failures in a row that were noted, none since which a batch was committed. Raises: OSError."""
    note = launch.root / _NOTE
    if not note.exists():
        return ()
    now = checkpoint.progress(launch.root)
    return [line for line in note.read_text().splitlines() if line == now]


def _begun(launch: Launch, why: str) -> str:
    words = f"{why}, it began anew: {anew.consequences(launch.spec.spec)}"
    logger().warning("checkpoint.begun_anew", why=words)
    return f"{anew.BEGUN} {words}"


def _still_held(launch: Launch) -> bool:
    """Whether Kafka holds all records that the dagger is to start with. Raises: `JobError`."""
    for stream in launch.spec.streams:
        start = stream.input.start
        if not anew.names_a_place(start):
            return False
        group = launch.spec.spec.consumer_group
        with closing(Broker(client_properties(stream.kafka), group)) as broker:
            asked = start_offsets.start_position(start)
            if not start_offsets.still_held(broker, stream.stream.topics, asked):
                return False
    return True
