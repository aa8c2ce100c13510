"""What a plan says of an edit is what the driver that starts after it does with the checkpoint it finds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.json_format import ParseDict
from tests.parity.corpus import QUERY, SPEC, stream
from tests.parity.parity import PLATFORM, fleet

import daggersql
from api_gateway.validate import edit_plan, spec_check
from api_gateway.validate.edit_plan import CONTINUES_BEHIND, RECOMPUTED, STATE_KEPT
from api_gateway.validate.query_checks import Checks
from daggerspec import state
from daggerspec.defaults import fill_defaults
from eventlog.testing import given
from fleet.fold import resolve
from runtime.launch.planned import check_spec
from runtime.launch.predecessor import predecessor_offsets
from runtime.source.planner.start_offsets import Predecessor
from runtime.state.checkpoint import Stand
from runtime.state.store.local import LocalPlace

if TYPE_CHECKING:
    from api_gateway.validate.edit_plan import Effect

NAME = "a_dagger"
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
PASSING = "SELECT city AS tag_city, 1 AS orders, rowtime FROM `data_stream`"
SESSION = QUERY.replace("TUMBLE", "SESSION")


@dataclass(frozen=True)
class Edit:
    """A dagger's spec with some fields replaced, and then others."""

    name: str
    effect: Effect
    after: dict[str, Any]
    before: dict[str, Any] | None = None
    loses: bool = False


def sql(old: str, new: str) -> dict[str, Any]:
    assert old in QUERY
    return {"sql": QUERY.replace(old, new)}


EDITS = (
    Edit("another team", STATE_KEPT, {"team": "others"}),
    Edit("another trigger", STATE_KEPT, {"trigger": "7s"}),
    Edit("more memory", STATE_KEPT, {"driverMemoryMib": 900}),
    Edit("another sink", STATE_KEPT, {"sinks": [{"influx": {}}, {"log": {}}]}),
    Edit("another group", STATE_KEPT, {"consumerGroup": "mine"}),
    Edit("another start", STATE_KEPT, stream(start={"earliest": True})),
    Edit("a longer delay", STATE_KEPT, stream(watermarkDelay="60s")),
    Edit("early rows", STATE_KEPT, {"emit": "EMIT_EARLY"}),
    Edit("another name of a column", STATE_KEPT, sql("AS orders", "AS placed")),
    Edit("a column of the groups", STATE_KEPT, sql("count(1) AS orders", "count(1) * 2 AS orders")),
    Edit("state in memory, where it is", STATE_KEPT, {"state": "STATE_STORE_MEMORY"}),
    Edit("other columns of rows that pass", STATE_KEPT, {"sql": f"SELECT 2 AS n, {PASSING[7:]}"},
         {"sql": PASSING}),
    Edit("another filter", RECOMPUTED, sql(" GROUP", " WHERE city <> 'x' GROUP")),
    Edit("another aggregate", RECOMPUTED, sql("count(1)", "count(DISTINCT city)")),
    Edit("another window", RECOMPUTED, sql("'10'", "'20'")),
    Edit("a window that is kept for long", RECOMPUTED, sql("'10' SECOND", "'2' HOUR")),
    Edit("another key", RECOMPUTED, sql(", city", ", UPPER(city), city")),
    Edit("state on disk", RECOMPUTED, {"state": "STATE_STORE_DISK"}),
    Edit("sessions", RECOMPUTED, {"sql": SESSION}),
    Edit("windows of rows that passed", RECOMPUTED, {}, {"sql": PASSING}),
    Edit("rows that pass", CONTINUES_BEHIND, {"sql": PASSING}, loses=True),
)  # fmt: skip


def asked(fields: dict[str, Any]) -> spec_pb2.DaggerSpec:
    return fill_defaults(NAME, ParseDict({**SPEC, **fields}, spec_pb2.DaggerSpec()))


async def planned(edit: Edit) -> Any:
    """What a gateway says of the edit of a dagger that runs."""
    before, after = asked(edit.before or {}), asked(edit.after)
    folded = fleet()
    fact = events_pb2.FactMeta(name=NAME, epoch=folded.sequence + 1, generation=folded.sequence + 3)
    for record in given(
        events_pb2.SchedulerStarted(scheduler_id="s", host="h"),
        events_pb2.DaggerRequested(name=NAME, spec=before),
        events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name=NAME, epoch=fact.epoch), version=1),
        events_pb2.Launched(meta=fact, driver=events_pb2.DriverHandle(host="h", pid=7)),
        events_pb2.Running(meta=fact),
        since=folded.sequence,
    ):
        assert folded.apply(record).changed
    plans = [
        (await spec_check.validate("spec", NAME, each, folded, Checks(), now=NOON)).query.plan
        for each in (before, after)
    ]
    revision = edit_plan.Revision(after, plans[1])
    return edit_plan.build_plan(folded.daggers[NAME], plans[0], revision, NOON, cuts_over=False)


def launched(fields: dict[str, Any]) -> tuple[spec_pb2.DaggerSpec, daggersql.Plan]:
    """A specification and its query as a driver has them."""
    folded = fleet()
    request = events_pb2.DaggerRequested(name=NAME, spec=asked(fields))
    for record in given(request, since=folded.sequence):
        folded.apply(record)
    made = resolve.job(folded, folded.daggers[NAME], 7, platform=PLATFORM, checkpoint_root="/c", run_dir="/r")
    return made.spec, check_spec(made)


def begun(edit: Edit) -> Predecessor | None:
    """What a driver goes by that starts after the edit; None: by the checkpoint that is there."""
    stand = Stand(LocalPlace("/c"), {("id", 0): 5}, {("id", 0): 100}, NOON, 0)
    before, after = launched(edit.before or {}), launched(edit.after)
    if state.identity(*before) == state.identity(*after):
        return None
    return predecessor_offsets(stand, after[1], lambda _: None)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
async def test_a_plan_says_what_the_driver_does(edit: Edit) -> None:
    plan, past = await planned(edit), begun(edit)

    assert (plan.effect, bool(plan.losses)) == (edit.effect, edit.loses)
    match past:
        case None:
            assert plan.effect == STATE_KEPT
        case Predecessor(since=None):
            assert (plan.effect, past.next) == (CONTINUES_BEHIND, {("id", 0): 100})
        case Predecessor(since=since):
            assert (plan.effect, plan.recomputed_since.ToDatetime(tzinfo=UTC)) == (RECOMPUTED, since)


def test_a_driver_that_closed_no_window_begins_where_reading_began() -> None:
    stand = Stand(LocalPlace("/c"), {("id", 0): 5}, {("id", 0): 100}, None, 0)
    past = predecessor_offsets(stand, launched({})[1], lambda _: None)

    assert past is not None
    assert (past.next, past.since) == ({("id", 0): 5}, None)
