"""`python -m runtime.foresee`: what a replay would say of the records that are meant.

Its standard input is a ForeseeJob. It goes by what the replay will go by: the quarantine, the streams' Kafka,
and the checkpoint of the driver. It changes nothing, and starts no Spark.

    S  ForeseenReplay   the answer
    E  DaggerError      why there is none
"""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Final

from daggers.v1 import host_pb2

import daggersql
from daggerspec import checkpointroot, state
from runtime import framed
from runtime.errors import user
from runtime.replay.foreseeing import foreseen
from runtime.replay.replaying import Attempt
from runtime.state import checkpoint
from runtime.state.store.local import LocalPlace

_LAST: Final = 2**62


def main() -> int:
    """Read and write frames; 0 when all is said."""
    return framed.answer_job("quarantine", host_pb2.ForeseeJob, lambda job: [answer(job)])


def answer(told: host_pb2.ForeseeJob) -> host_pb2.ForeseenReplay:
    """What would be said. Raises: JobError."""
    job, request = told.job, told.request

    def closed(plan: daggersql.Plan) -> datetime | None:
        root = checkpointroot.directory(job.checkpoint_root)
        if root is None:
            scheme = checkpointroot.scheme(job.checkpoint_root)
            detail = f"Checkpoints in {scheme}:// take a JVM to look at: only the replay does that."
            raise user("CHECKPOINT_ELSEWHERE", detail)
        return checkpoint.closed(LocalPlace(Path(root)), state.identity(job.spec, plan))

    # It comes behind all that was ever asked.
    attempt = Attempt(job, request.asked, _LAST, request.create_sequence)
    forecast = foreseen(attempt, {edit.id: edit for edit in request.edits}, closed)
    return host_pb2.ForeseenReplay(forecast=forecast)


if __name__ == "__main__":
    sys.exit(main())
