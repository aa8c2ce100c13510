"""Describe of what executors ended: by the status that their cluster gives, never by their exit code.

137 is SIGKILL, which a kernel without memory sends, a node that is drained, and anybody. Spark's own
"possible container OOM" is a guess.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import SparkSession

from daggerspec import limits

_SPAN: Final = timedelta(seconds=limits.RECENT_S)
# What a text of Spark has, and what that means; the first that is found counts. Of Kubernetes it is the
# reason in the status of the pod or the container, of YARN that of the node manager. 52 is what an executor
# exits with whose own heap is full.
_CAUSES: Final = (
    (
        r"termination reason: OOMKilled",
        "killed for memory: its container had more than its limit (OOMKilled)",
    ),
    (r"brief reason: Evicted", "evicted: its node was short of something"),
    (r"brief reason: Preempting", "evicted: for a pod of higher priority"),
    (r"brief reason: (Terminated|NodeShutdown|Shutdown)", "drained: its node was shut down"),
    # a pod that is gone before Spark has looked at its end
    (
        r"was deleted by a user or the framework|was not found in the cluster at the polling time",
        "deleted: by a drain of its node, or by somebody",
    ),
    (r"exceeding (physical|virtual) memory limits", "killed for memory: YARN's limit of its container"),
    (r"exit(ed with|ed with exit| )? ?code:? 52\b|Exit status: 52\b", "out of memory: its heap was full"),
    (r"[Dd]ecommission", "drained: its worker was decommissioned"),
    (r"heartbeat timed out", "lost: no heartbeat came"),
    (
        r"[Ww]orker lost|worker .{0,80} lost|Remote RPC client disassociated",
        "lost: with its worker or network",
    ),
)
_KILLED: Final = re.compile(r"(code|status):? ?(-9|137)\b")
_UNKNOWN: Final = "killed by SIGKILL, by whom is unknown: no status says that it was memory"


@dataclass(frozen=True, slots=True)
class ExecutorEnd:
    """End of one executor."""

    id: str
    reason: str
    """Spark's text."""
    time: datetime


def describe_cause(reason: str) -> str:
    """Describe what ended an executor, by Spark's text of it."""
    for pattern, cause in _CAUSES:
        if re.search(pattern, reason):
            return cause
    if _KILLED.search(reason):
        return _UNKNOWN
    first = next((line.strip() for line in reason.splitlines() if line.strip()), "")
    return f"Spark says: {first}" if first else "Spark does not say how"


def describe_ends(ends: Sequence[ExecutorEnd], now: datetime) -> str:
    """Describe the executors that ended lately; empty for none."""
    lately = sorted((end for end in ends if now - end.time < _SPAN), key=lambda end: end.time)
    if not lately:
        return ""
    last = lately[-1]
    ended = "1 executor has" if len(lately) == 1 else f"{len(lately)} executors have"
    return (
        f"{ended} ended, the last (number {last.id}) at {last.time:%H:%M:%S}: {describe_cause(last.reason)}."
        " What they computed is computed again, and nothing is lost."
    )


class ExecutorEnds:
    """Executors of an application that have ended; Spark remembers the last hundred."""

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext
        self._ends: dict[str, ExecutorEnd] = {}

    def read(self) -> list[ExecutorEnd]:
        """Read those that Spark remembers, each only once: every property is a call to the JVM.

        Raises: Py4JError.
        """
        executors = self._context._jsc.sc().statusStore().executorList(False)  # noqa: SLF001 - not in PySpark
        ends = {}
        for number in range(executors.size()):
            executor = executors.apply(number)
            name = executor.id()
            end = self._ends.get(name) or _read_end(name, executor)
            if end is not None:
                ends[name] = end
        self._ends = ends
        return list(ends.values())


def _read_end(name: str, executor: Any) -> ExecutorEnd | None:
    """Read the end of one executor from Spark's summary of it; None while it is active."""
    if executor.isActive() or executor.removeTime().isEmpty():
        return None
    reason = executor.removeReason()
    time = datetime.fromtimestamp(executor.removeTime().get().getTime() / 1000, UTC)
    return ExecutorEnd(name, "" if reason.isEmpty() else str(reason.get()), time)
