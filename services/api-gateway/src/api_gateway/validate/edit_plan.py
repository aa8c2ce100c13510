"""Predict what an edit of a dagger does, by the rules that a driver starts by. Pure.

Effects that depend on Kafka and the checkpoint are in `hosts.reread_plan`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from daggers.v1 import gateway_pb2, spec_pb2

from api_gateway.validate import apply_action
from daggerspec import cutover, late, sinks, state
from daggerspec.changes import Change, changes
from daggerspec.columns import Column, Role, to_proto
from daggerspec.defaults import fill_defaults
from daggerspec.querytests import runs_alike
from daggersql import Plan
from fleet import Dagger
from fleet.fold.phases import RUNNING

if TYPE_CHECKING:
    Effect: TypeAlias = gateway_pb2.PlanDaggerResponse.Effect.ValueType

NOTHING: Final = gateway_pb2.PlanDaggerResponse.EFFECT_NOTHING
BEGINS: Final = gateway_pb2.PlanDaggerResponse.EFFECT_BEGINS
STATE_KEPT: Final = gateway_pb2.PlanDaggerResponse.EFFECT_STATE_KEPT
RECOMPUTED: Final = gateway_pb2.PlanDaggerResponse.EFFECT_RECOMPUTED
CONTINUES_BEHIND: Final = gateway_pb2.PlanDaggerResponse.EFFECT_CONTINUES_BEHIND
UNKNOWN: Final = gateway_pb2.PlanDaggerResponse.EFFECT_UNKNOWN
WITHOUT_RESTART: Final = gateway_pb2.PlanDaggerResponse.EFFECT_WITHOUT_RESTART

REASONS: Final = {
    NOTHING: "it is this already, and asked to run",
    BEGINS: "nothing was read yet: it begins at the start position of its streams",
    STATE_KEPT: "its state is as good for this: it goes on where it stopped, with its open windows",
    RECOMPUTED: (
        "its state is no good for this: the records of the windows that are open are read again, or all since"
        " it began where none was closed yet"
    ),
    CONTINUES_BEHIND: "the query keeps no windows: it goes on behind the records that were read",
    UNKNOWN: "the query that it has can no longer be checked, so what becomes of its state is not known",
    WITHOUT_RESTART: "only its tests or alert rules are others: what runs goes on",
}
_OPEN_LOST: Final = (
    "what its windows and joins hold open is never written: the new query keeps nothing, and goes on behind"
    " the records of it"
)
CUTOVER: Final = gateway_pb2.PlanDaggerResponse.REPLACEMENT_CUTOVER
STOP_THEN_START: Final = gateway_pb2.PlanDaggerResponse.REPLACEMENT_STOP_THEN_START
_BESIDE: Final = (
    "the new driver begins beside the one that runs, and takes its place at the end of a window; where there"
    " is no room for both, or it fails, that one stops and then the new one starts"
)
_SWITCHED_OFF: Final = "cutovers are switched off, as DAGGERS_SCHEDULER_CUTOVER of its scheduler says"
_UNWELL: Final = "it does not run well now, and nothing begins beside such a driver"
_FOLDERS: Final = "{}: a table has folders of hours or of days; name another table, or no driver starts"
_START: Final = "{}: it has begun to read already, so another start position changes nothing"


@dataclass(frozen=True, slots=True)
class Revision:
    """A specification and the plan of its query."""

    spec: spec_pb2.DaggerSpec
    """The specification with all defaults."""
    plan: Plan | None
    """None where the query can no longer be checked."""


def build_plan(
    dagger: Dagger | None,
    before: Plan | None,
    after: Revision,
    watermark: datetime | None,
    *,
    cuts_over: bool,
) -> gateway_pb2.PlanDaggerResponse:
    """Build the plan that brings the living dagger to a specification.

    before: the plan of its present query. watermark: the last one that its driver reported. cuts_over:
    whether the leading scheduler does cutovers.
    """
    action = apply_action.action(dagger, after.spec)
    revision_before = None if dagger is None else Revision(fill_defaults(dagger.name, dagger.spec), before)
    effect = NOTHING if action == apply_action.UNCHANGED else effect_of(dagger, revision_before, after)
    changed = changes(revision_before.spec, after.spec) if revision_before else []
    columns = list(_columns(before, after.plan)) if revision_before else []
    answer = gateway_pb2.PlanDaggerResponse(
        action=action,
        effect=effect,
        reason=REASONS[effect],
        version=dagger.version if dagger else 0,
        changes=changed,
        columns=[
            gateway_pb2.ColumnChange(
                before=to_proto(old) if old else None, after=to_proto(new) if new else None
            )
            for old, new in columns
        ],
        sinks=list(_sinks(after.spec, columns)),
        warnings=[]
        if effect in (NOTHING, BEGINS, WITHOUT_RESTART)
        else [*_without_effect(changed), *other_folders(changed)],
    )
    ends = action == apply_action.UPDATED and effect != WITHOUT_RESTART
    if ends and dagger is not None and dagger.driver is not None:
        why = _why_no_cutover(dagger, after, cuts_over=cuts_over)
        answer.replacement = STOP_THEN_START if why else CUTOVER
        answer.replacement_reason = why or _BESIDE
    if effect == CONTINUES_BEHIND and before is not None and before.horizon and not _never_ran(dagger):
        answer.losses.append(_OPEN_LOST)
    if effect == RECOMPUTED and after.plan is not None and watermark is not None:
        answer.recomputed_since.FromDatetime(state.needed_since(after.plan, watermark))
    return answer


def effect_of(dagger: Dagger | None, before: Revision | None, after: Revision) -> Effect:
    """Return what the next launch does with the dagger's state."""
    if dagger is None or before is None or not dagger.generation:
        return BEGINS
    if dagger.driver is not None and dagger.current and runs_alike(before.spec, after.spec):
        return WITHOUT_RESTART
    if before.plan is None or after.plan is None:
        return UNKNOWN
    if state.identity(before.spec, before.plan) == state.identity(after.spec, after.plan):
        return STATE_KEPT
    behind = state.begin(after.plan, closed=True) is state.Begin.BEHIND
    return CONTINUES_BEHIND if behind else RECOMPUTED


def concerns_sinks(answer: gateway_pb2.PlanDaggerResponse) -> bool:
    """Return whether the plan may write anything new: other sinks, or other columns."""
    of_sinks = any(change.field.startswith("sinks") for change in answer.changes)
    return of_sinks or bool(answer.columns) or answer.action == apply_action.CREATED


def _why_no_cutover(dagger: Dagger, after: Revision, *, cuts_over: bool) -> str:
    """Return why the driver stops before the next one starts; empty where they overlap."""
    query = cutover.query_state(after.spec, after.plan) if after.plan else None
    if why := cutover.why_not(dagger.observed_query, query):
        return why
    if not cuts_over:
        return _SWITCHED_OFF
    return "" if dagger.phase == RUNNING else _UNWELL


def _never_ran(dagger: Dagger | None) -> bool:
    return dagger is None or not (dagger.ran or dagger.restarts or dagger.version > 1)


def _without_effect(changed: Sequence[Change]) -> list[str]:
    begun = dict.fromkeys(
        change.field.partition(".start")[0] for change in changed if ".start." in change.field
    )
    return [_START.format(f"{field}.start") for field in begun if field.startswith("streams[")]


def other_folders(changed: Sequence[Change]) -> Iterator[str]:
    """Yield a warning for each file table whose folders change, which the next driver refuses."""
    fields = {change.field for change in changed}
    for field in sorted(fields):
        sink = field.removesuffix(".per")
        is_same = fields.isdisjoint({f"{sink}.table", f"{sink}.location"})
        if field.endswith(".parquet.per") and is_same:
            yield _FOLDERS.format(field)


def _columns(before: Plan | None, after: Plan | None) -> Iterator[tuple[Column | None, Column | None]]:
    """Yield removed columns, then new columns and those of another kind, as (before, after)."""
    old = {column.name: column for column in before.columns} if before else {}
    new = {column.name: column for column in after.columns} if after else {}
    yield from ((column, None) for name, column in old.items() if name not in new)
    yield from ((old.get(name), column) for name, column in new.items() if old.get(name) != column)


def _sinks(
    spec: spec_pb2.DaggerSpec, columns: Sequence[tuple[Column | None, Column | None]]
) -> Iterator[gateway_pb2.SinkEffect]:
    for number, sink in enumerate(spec.sinks if columns else ()):
        kind = sinks.kind_of(sink)
        if kind is not None and not late.takes_late(spec, sink):
            seen = _points(columns) if sinks.load(kind).TIME_SERIES else _rows(sink, columns)
            yield gateway_pb2.SinkEffect(field=f"sinks[{number}]", kind=kind, seen=seen)


def _points(columns: Sequence[tuple[Column | None, Column | None]]) -> Iterator[str]:
    tags = [
        column.key for pair in columns for column in pair if column is not None and column.role is Role.TAG
    ]
    if tags:
        names = ", ".join(dict.fromkeys(tags))
        yield f"the tags are others ({names}): rows are points of new series, and those of the old ones stay"
    for old, new in columns:
        if old is not None and new is None and old.role is Role.FIELD:
            yield f"field {old.key} is written no more"
        elif new is not None and old is None and new.role is Role.FIELD:
            yield f"field {new.key} is new"
        elif old is not None and new is not None and (old.role, new.role) == (Role.FIELD, Role.FIELD):
            yield f"field {new.key} is {new.type} and was {old.type}: a store may refuse it"


def _rows(sink: spec_pb2.Sink, columns: Sequence[tuple[Column | None, Column | None]]) -> Iterator[str]:
    for old, new in columns:
        if new is None and old is not None:
            yield f"column {old.name} is in no row any more: who needs it fails"
        elif old is None and new is not None:
            more = sinks.new_column(sink, new.name)
            yield f"column {new.name} is new{': ' if more else ''}{more}"
        elif old is not None and new is not None and old.type != new.type:
            yield f"column {new.name} is {new.type} and was {old.type}"
