"""What a dagger reads again after an edit, as the host of its driver finds in its checkpoint and in Kafka,
and what that means for windows.
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

TELLING: Final = 100_000
"""Records that a driver has read when what one costs says something."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER: Final = "because Kafka no longer has all records that they need"


async def looked(
    hosts: Hosts, dagger: Dagger, spec: spec_pb2.DaggerSpec, context: Context
) -> tuple[gateway_pb2.PlannedReads | None, str]:
    """What the host of a dagger finds, or why nobody could look."""
    request = host_pb2.PlanHostReadsRequest(name=dagger.name, spec=spec)
    steps = hosts.ask(dagger, lambda host: host.PlanHostReads, request, context)
    reads, why = await in_time(steps, context, PLAN_S)
    return (reads[0], "") if reads else (None, why or "it was never launched")


def tell(answer: gateway_pb2.PlanDaggerResponse, plan: Plan, reads: gateway_pb2.PlannedReads) -> None:
    """Say in a plan what is read again, and which windows are lost by that."""
    answer.reads.CopyFrom(reads)
    answer.ClearField("recomputed_since")
    if reads.HasField("since"):
        answer.recomputed_since.CopyFrom(reads.since)
    if answer.cost.records >= TELLING and answer.cost.cpu_seconds > 0:
        seconds = reads.records * answer.cost.cpu_seconds / answer.cost.records
        answer.reading_time.FromTimedelta(timedelta(seconds=seconds))
    windows = lost_windows(plan, reads)
    if windows is not None:
        answer.lost_windows.CopyFrom(windows)
        some = "1 window" if windows.count == 1 else f"{windows.count} windows"
        span = f"from {_shown(windows.begin)} to {_shown(windows.end)}"
        answer.losses.append(f"{some} {span} would never be written, {_NEVER}")
    elif _lacks(plan, reads):
        before = f" of before {_shown(reads.whole_from)}" if reads.HasField("whole_from") else ""
        answer.losses.append(f"rows that need records{before} would never be written, {_NEVER}")


def lost_windows(plan: Plan, reads: gateway_pb2.PlannedReads) -> gateway_pb2.PlannedWindows | None:
    """The windows that are open and that a launch drops, as it cannot make them whole; None for none, and
    where windows have no size of their own.
    """
    window = fixed_size(plan.window)
    if window is None or not (reads.HasField("closed") and reads.HasField("whole_from")):
        return None
    closed, whole_from = (_instant(limit) - _EPOCH for limit in (reads.closed, reads.whole_from))
    # The first window that ends behind what was closed; the first that needs nothing of before `whole_from`.
    first = (closed - window.size) // window.slide + 1
    whole = -((-(whole_from + plan.lookback)) // window.slide)
    if whole <= first:
        return None
    made = gateway_pb2.PlannedWindows(count=whole - first)
    made.begin.FromDatetime(_EPOCH + first * window.slide)
    made.end.FromDatetime(_EPOCH + (whole - 1) * window.slide + window.size)
    return made


def _lacks(plan: Plan, reads: gateway_pb2.PlannedReads) -> bool:
    """Whether records lack that rows of other queries need, or of a dagger that closed no window yet."""
    if not reads.HasField("since"):
        return reads.missing > 0
    whole = not reads.HasField("whole_from") or _instant(reads.whole_from) <= _instant(reads.since)
    return fixed_size(plan.window) is None and not whole


def _instant(time: Timestamp) -> datetime:
    return time.ToDatetime(UTC)


def _shown(time: Timestamp) -> str:
    return f"{_instant(time):%Y-%m-%dT%H:%M:%S}Z"
