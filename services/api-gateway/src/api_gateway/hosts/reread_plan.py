"""Plan what a dagger reads again after an edit, and which windows that loses.

The host of its driver finds the offsets in its checkpoint and in Kafka.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1 import gateway_pb2, host_pb2, spec_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from api_gateway.hosts.client import PLAN_S, Hosts, in_time
from chassis.interceptors import Context
from daggersql import Plan, fixed_size
from fleet import Dagger

REPRESENTATIVE_RECORDS: Final = 100_000
"""Number of processed records above which a driver's cost per record is a fair estimate."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER: Final = "because Kafka no longer has all records that they need"


async def plan_reads(
    hosts: Hosts, dagger: Dagger, spec: spec_pb2.DaggerSpec, context: Context
) -> tuple[gateway_pb2.PlannedReads | None, str]:
    """Return the reads that the host of a dagger plans, or the reason why there are none."""
    request = host_pb2.PlanHostReadsRequest(name=dagger.name, spec=spec)
    steps = hosts.ask(dagger, lambda host: host.PlanHostReads, request, context)
    reads, why = await in_time(steps, context, PLAN_S)
    return (reads[0], "") if reads else (None, why or "it was never launched")


def set_reads(answer: gateway_pb2.PlanDaggerResponse, plan: Plan, reads: gateway_pb2.PlannedReads) -> None:
    """Set in a plan what is read again, and which windows are lost by that."""
    answer.reads.CopyFrom(reads)
    answer.ClearField("recomputed_since")
    if reads.HasField("since"):
        answer.recomputed_since.CopyFrom(reads.since)
    if answer.cost.records >= REPRESENTATIVE_RECORDS and answer.cost.cpu_seconds > 0:
        seconds = reads.records * answer.cost.cpu_seconds / answer.cost.records
        answer.reading_time.FromTimedelta(timedelta(seconds=seconds))
    windows = lost_windows(plan, reads)
    if windows is not None:
        answer.lost_windows.CopyFrom(windows)
        some = "1 window" if windows.count == 1 else f"{windows.count} windows"
        span = f"from {_format_time(windows.begin)} to {_format_time(windows.end)}"
        answer.losses.append(f"{some} {span} would never be written, {_NEVER}")
    elif _lacks(plan, reads):
        before = f" of before {_format_time(reads.whole_from)}" if reads.HasField("whole_from") else ""
        answer.losses.append(f"rows that need records{before} would never be written, {_NEVER}")


def lost_windows(plan: Plan, reads: gateway_pb2.PlannedReads) -> gateway_pb2.PlannedWindows | None:
    """Return the open windows that a launch drops, as it cannot compute them from all their records.

    Returns None where there are none, and for queries whose windows have no fixed size.
    """
    window = fixed_size(plan.window)
    if window is None or not (reads.HasField("closed") and reads.HasField("whole_from")):
        return None
    closed, whole_from = (_instant(limit) - _EPOCH for limit in (reads.closed, reads.whole_from))
    # first: the first window that is still open. whole: the first that needs no record before `whole_from`.
    first = (closed - window.size) // window.slide + 1
    whole = -((-(whole_from + plan.lookback)) // window.slide)
    if whole <= first:
        return None
    windows = gateway_pb2.PlannedWindows(count=whole - first)
    windows.begin.FromDatetime(_EPOCH + first * window.slide)
    windows.end.FromDatetime(_EPOCH + (whole - 1) * window.slide + window.size)
    return windows


def _lacks(plan: Plan, reads: gateway_pb2.PlannedReads) -> bool:
    """Return whether records are missing that rows without windows need, or the first window of a dagger."""
    if not reads.HasField("since"):
        return reads.missing > 0
    whole = not reads.HasField("whole_from") or _instant(reads.whole_from) <= _instant(reads.since)
    return fixed_size(plan.window) is None and not whole


def _instant(time: Timestamp) -> datetime:
    return time.ToDatetime(UTC)


def _format_time(time: Timestamp) -> str:
    return f"{_instant(time):%Y-%m-%dT%H:%M:%S}Z"
