"""Forecast a replay: `python -m runtime.foresee`.

Reads a ForeseeJob from standard input. The forecast reads what the replay will read: the quarantine, the
streams' Kafka, and the driver's checkpoint. It changes nothing and starts no Spark. Frames on standard
output:

    S  ForeseenReplay   the answer
    E  DaggerError      why there is no answer
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
from runtime.replay.foreseeing import forecast_replay
from runtime.replay.replaying import Attempt
from runtime.state import checkpoint
from runtime.state.store.local import LocalPlace

_LAST: Final = 2**62


def main() -> int:
    """Answer the request on standard input with frames on standard output; return 0."""
    return framed.answer_job("quarantine", host_pb2.ForeseeJob, lambda job: [answer(job)])


def answer(job_request: host_pb2.ForeseeJob) -> host_pb2.ForeseenReplay:
    """Forecast the outcomes of a replay. Raises: JobError."""
    job, request = job_request.job, job_request.request

    def closed_until(plan: daggersql.Plan) -> datetime | None:
        root = checkpointroot.directory(job.checkpoint_root)
        if root is None:
            scheme = checkpointroot.scheme(job.checkpoint_root)
            detail = f"Checkpoints in {scheme}:// take a JVM to look at: only the replay does that."
            raise user("CHECKPOINT_ELSEWHERE", detail)
        return checkpoint.closed_until(LocalPlace(Path(root)), state.identity(job.spec, plan))

    # a sequence behind those of all requests: the forecast counts every replay before
    attempt = Attempt(job, request.asked, _LAST, request.create_sequence)
    outcomes = forecast_replay(attempt, {edit.id: edit for edit in request.edits}, closed_until)
    return host_pb2.ForeseenReplay(forecast=outcomes)


if __name__ == "__main__":
    sys.exit(main())
