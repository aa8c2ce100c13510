"""What an edit of a dagger does, in words and as a document."""

from collections.abc import Iterable, Iterator
from typing import Any

from daggers.v1 import gateway_pb2

from cli.json_views import daggers as json_views
from cli.visible import printable
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
    gateway_pb2.PlanDaggerResponse.EFFECT_UNKNOWN: "a new driver, what becomes of its state is not known",
}
ACTIONS = {"created": "is created", "updated": "is revised", "started": "is started"}


def lines(name: str, plan: Plan) -> Iterator[str]:
    """What is done, and what that does; a line for each thing that is another."""
    action = json_views.action(plan.action)
    if action == "unchanged":
        yield f"{name} is this already"
        return
    yield f"{name} {ACTIONS.get(action, action)}: {EFFECTS.get(plan.effect, 'what it does is not known')}"
    yield f"  {plan.reason}"
    if plan.HasField("recomputed_since"):
        yield f"  records since about {iso(plan.recomputed_since)} are read again"
    labels = (f"version {plan.version}", "the file")
    yield from (f"  {line}" for line in differences(plan.changes, *labels))
    yield from (f"  {_column(each)}" for each in plan.columns)
    for sink in plan.sinks:
        yield from (f"  {sink.field} {sink.kind}: {printable(sentence)}" for sentence in sink.seen)
    yield from (f"  lost: {each}" for each in plan.losses)
    yield from (f"  warning: {printable(each)}" for each in plan.warnings)


def differences(changed: Iterable[Change], old: str, new: str) -> Iterator[str]:
    """What changed: a line for each field, a unified diff of the query."""
    for each in changed:
        if each.field == changes.SQL and each.before and each.after:
            diff = changes.unified(each.before, each.after, old=f"sql, {old}", new=f"sql, {new}")
            yield from map(printable, diff)
        else:
            yield difference(each)


def difference(each: Change, most: int | None = None) -> str:
    """A field that changed; of each value at most so many characters."""
    before, after = (printable(_cut(text, most)) for text in (each.before, each.after))
    return f"{each.field}: {before or '(none)'} -> {after or '(none)'}"


def change(each: Change) -> dict[str, str]:
    """A field that changed, as a document."""
    return {"field": each.field, "before": each.before, "after": each.after}


def document(name: str, plan: Plan) -> dict[str, Any]:
    """All that a plan says."""
    return {
        "name": name,
        "action": json_views.action(plan.action),
        "effect": Plan.Effect.Name(plan.effect).removeprefix("EFFECT_").lower(),
        "reason": plan.reason,
        "version": plan.version,
        "recomputed_since": iso(plan.recomputed_since) if plan.HasField("recomputed_since") else None,
        "changes": [change(each) for each in plan.changes],
        "columns": [
            {
                "before": _shown(each.before) if each.HasField("before") else None,
                "after": _shown(each.after) if each.HasField("after") else None,
            }
            for each in plan.columns
        ],
        "sinks": [{"field": each.field, "kind": each.kind, "seen": list(each.seen)} for each in plan.sinks],
        "losses": list(plan.losses),
        "warnings": list(plan.warnings),
    }


def _cut(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else f"{text[: most - 1]}…"


def _column(each: gateway_pb2.ColumnChange) -> str:
    if not each.HasField("before"):
        return f"column {each.after.name} comes: {each.after.type}"
    if not each.HasField("after"):
        return f"column {each.before.name} goes"
    return f"column {each.after.name}: {each.before.type} -> {each.after.type}"


def _shown(column: gateway_pb2.OutputColumn) -> dict[str, str]:
    role = gateway_pb2.OutputColumn.Role.Name(column.role).removeprefix("ROLE_").lower()
    return {"name": column.name, "role": role, "key": column.key, "type": column.type}
