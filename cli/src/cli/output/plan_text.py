"""Show what an edit of a dagger does, in words and as a document."""

from collections.abc import Iterable, Iterator
from typing import Any

from daggers.v1 import gateway_pb2

from cli.output.json_views.answers import action, to_json
from cli.output.visible import printable
from cli.output.vitals import describe_company
from daggerclient.times import iso
from daggerspec import changes

Change = changes.Change
Plan = gateway_pb2.PlanDaggerResponse
EFFECTS = {
    gateway_pb2.PlanDaggerResponse.EFFECT_NOTHING: "nothing changes",
    gateway_pb2.PlanDaggerResponse.EFFECT_BEGINS: "begins",
    gateway_pb2.PlanDaggerResponse.EFFECT_STATE_KEPT: "a new driver, its state is kept",
    gateway_pb2.PlanDaggerResponse.EFFECT_RECOMPUTED: "a new driver, open windows are recomputed",
    gateway_pb2.PlanDaggerResponse.EFFECT_CONTINUES_BEHIND: "a new driver, goes on without its state",
    gateway_pb2.PlanDaggerResponse.EFFECT_WITHOUT_RESTART: "its driver goes on",
    gateway_pb2.PlanDaggerResponse.EFFECT_UNKNOWN: "a new driver, what becomes of its state is not known",
}
FILE = "the file"
"""Default name of the source of an edit."""
REPLACEMENTS = {
    Plan.REPLACEMENT_STOP_THEN_START: "it stops, then starts",
    Plan.REPLACEMENT_CUTOVER: "a cutover",
}
_EARLIER = "came up to the streams' future_tolerance before: producers' clocks may be ahead"
MOST_RANGES = 8
"""Most partitions that are named in words."""
ACTIONS = {"created": "is created", "updated": "is revised", "started": "is started"}


def lines(name: str, plan: Plan, source: str = FILE) -> Iterator[str]:
    """Yield lines about the plan's action and its effects, and a line for each change by its source."""
    done = action(plan.action)
    if done == "unchanged":
        yield f"{name} is this already"
        return
    yield f"{name} {ACTIONS.get(done, done)}: {EFFECTS.get(plan.effect, 'what it does is not known')}"
    yield f"  {plan.reason}"
    if plan.replacement in REPLACEMENTS:
        yield f"  {REPLACEMENTS[plan.replacement]}: {printable(plan.replacement_reason)}"
    if plan.HasField("company"):
        yield f"  its process: {describe_company(plan.company, 'as things are')}"
    if plan.HasField("recomputed_since"):
        yield f"  records since about {iso(plan.recomputed_since)} are read again"
    yield from _reads(plan)
    yield from _costs(plan)
    labels = (f"version {plan.version}", source)
    yield from (f"  {line}" for line in differences(plan.changes, *labels))
    yield from (f"  {_column(column)}" for column in plan.columns)
    for sink in plan.sinks:
        yield from (f"  {sink.field} {sink.kind}: {printable(sentence)}" for sentence in sink.seen)
        if sink.reason:
            yield f"  {sink.field} {sink.kind} would take no row: {printable(sink.detail)} ({sink.reason})"
    if plan.sinks_untried:
        yield f"  sinks were not tried: {printable(plan.sinks_untried)}"
    yield from (f"  lost: {loss}" for loss in plan.losses)
    yield from (f"  warning: {printable(warning)}" for warning in plan.warnings)


def _reads(plan: Plan) -> Iterator[str]:
    if plan.reads_unchecked:
        yield f"  Kafka was not looked into: {printable(plan.reads_unchecked)}"
    if not plan.HasField("reads"):
        return
    seconds = plan.reading_time.ToTimedelta().total_seconds()
    long = f", about {seconds:,.1f} s of a processor" if plan.HasField("reading_time") else ""
    count, ranges = plan.reads.records, plan.reads.ranges
    some = "1 record is" if count == 1 else f"{count:,} records are"
    yield f"  {some} read again, of {len(ranges)} partition{'' if len(ranges) == 1 else 's'}{long}"
    if plan.HasField("recomputed_since"):
        since = plan.reads.records_since
        yield f"    {since:,} came since then, and {count - since:,} {_EARLIER}"
    for range_ in ranges[:MOST_RANGES]:
        yield f"    {range_.topic}/{range_.partition}: offsets {range_.begin} to {range_.end - 1}"
    if len(ranges) > MOST_RANGES:
        yield f"    and {len(ranges) - MOST_RANGES} more (-o json)"


def _costs(plan: Plan) -> Iterator[str]:
    before, after = plan.cost.launch_memory_mib, plan.launch_memory_mib
    if after and before and before != after:
        yield f"  memory reserved: {after:,} MiB, before {before:,} MiB"
    if plan.cost.HasField("age"):
        cost = plan.cost
        rates = f", for {cost.records_per_second:,.1f} records/s, {cost.rows_per_minute:,.1f} rows/min"
        shown_rates = rates if cost.records_per_second else ""  # zero while the dagger catches up
        yield f"  until now it costs {cost.cpu_seconds_per_day / 24:,.0f} CPU-seconds an hour{shown_rates}"


def differences(changed: Iterable[Change], old: str, new: str) -> Iterator[str]:
    """Yield a line for each changed field, and a unified diff of the query."""
    for difference_ in changed:
        if difference_.field == changes.SQL and difference_.before and difference_.after:
            diff = changes.unified_diff(
                difference_.before, difference_.after, old=f"sql, {old}", new=f"sql, {new}"
            )
            yield from map(printable, diff)
        else:
            yield difference(difference_)


def difference(change_: Change, most: int | None = None) -> str:
    """Format a changed field; `most`: characters of each value."""
    before, after = (printable(_cut(text, most)) for text in (change_.before, change_.after))
    return f"{change_.field}: {before or '(none)'} -> {after or '(none)'}"


def change(change_: changes.Change) -> dict[str, str]:
    """Build the document of a changed field."""
    return {"field": change_.field, "before": change_.before, "after": change_.after}


def document(name: str, plan: Plan) -> dict[str, Any]:
    """Build the document of a plan."""
    return {"name": name} | to_json(plan)


def _cut(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else f"{text[: most - 1]}…"


def _column(change_: gateway_pb2.ColumnChange) -> str:
    if not change_.HasField("before"):
        return f"column {change_.after.name} comes: {change_.after.type}"
    if not change_.HasField("after"):
        return f"column {change_.before.name} goes"
    return f"column {change_.after.name}: {change_.before.type} -> {change_.after.type}"
