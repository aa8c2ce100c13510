"""An edit made by a cutover: given what stands in the log and what is observed, the one next thing to do."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import Message

from daggerspec import rundir
from daggerspec.shadow import ShadowState
from eventlog.testing import START, given
from fleet import Dagger, Fleet
from fleet.decide import shadowing
from fleet.decide.observation import Observation, Policy, Presence, ShadowObservation
from fleet.decide.reconcile import Drain, Kill, Launch, next_action
from fleet.decide.shadowing import EndShadow, LaunchShadow
from fleet.fold import quotas
from fleet.fold.drivers import Usage
from fleet.fold.quotas import Room

OLD, SHADOW = 2, 6
META = events_pb2.RequestMeta(actor="ada")
NONE, FACT = events_pb2.FactMeta(name="d"), events_pb2.FactMeta(name="d", generation=OLD)
BESIDE = events_pb2.FactMeta(name="d", generation=SHADOW)
HERE = events_pb2.DriverHandle(host="here", pid=7, run_dir="/runs/d/2")
THERE = events_pb2.DriverHandle(host="here", pid=8, run_dir="/runs/d/6")


def edit(sql: str, no_cutover: str = "") -> events_pb2.DaggerRequested:
    query = events_pb2.QueryState(identity=sql, no_cutover=no_cutover)
    return events_pb2.DaggerRequested(meta=META, name="d", spec=spec_pb2.DaggerSpec(sql=sql), query=query)


UP = (
    events_pb2.SchedulerStarted(scheduler_id="s", host="here"),
    edit("one"),
    events_pb2.LaunchIntended(meta=NONE, version=1),
    events_pb2.Launched(meta=FACT, driver=HERE),
    events_pb2.Running(meta=FACT),
)
EDITED = (*UP, edit("two"))
INTENDED = (*EDITED, events_pb2.ShadowIntended(meta=NONE, version=2))
LAUNCHED = (*INTENDED, events_pb2.ShadowLaunched(meta=BESIDE, driver=THERE))
DECIDED = (*LAUNCHED, events_pb2.CutoverDecided(meta=BESIDE, boundary={"seconds": 120}))
EXITED = (*DECIDED, events_pb2.Exited(meta=FACT, code=0))
HANDED = (*EXITED, events_pb2.CutoverHanded(meta=BESIDE, written={"seconds": 120}))
STOP = events_pb2.StopRequested(meta=META, name="d")
CLAIM = events_pb2.SchedulerStarted(scheduler_id="t", host="here")

POLICY = Policy()
NOW = START + timedelta(minutes=1)
READING = ShadowState()
CAUGHT_UP = ShadowState(caught_up=True, written=60_000_000, next_end=120_000_000)
FINAL = replace(CAUGHT_UP, written=120_000_000, closed=60_000_000, final=True)


def dagger(*messages: Message) -> Dagger:
    fleet = Fleet()
    for each in given(*messages):
        assert fleet.apply(each).refused == ""
    return fleet.daggers["d"]


def seen(state: ShadowState | None = None, **fields: Any) -> ShadowObservation:
    return ShadowObservation(**{"presence": Presence.ALIVE, "state": state, **fields})


def action(
    *messages: Message,
    shadow: ShadowObservation | None = None,
    now: datetime = NOW,
    epoch: int = 0,
    **seen: Any,
) -> Any:
    observed: dict[str, Any] = {"presence": Presence.ALIVE, "quiet_since": now, "cutover": True, **seen}
    observation = Observation(shadow=shadow, **observed)
    return next_action(dagger(*messages), now=now, epoch=epoch, observation=observation, policy=POLICY)


def issued(mode: events_pb2.StopMode.ValueType = events_pb2.STOP_MODE_DRAIN) -> events_pb2.StopIssued:
    return events_pb2.StopIssued(mode=mode)


# ---- Which edits -------------------------------------------------------------------------------------------


def test_an_edit_that_recomputes_begins_beside_the_driver() -> None:
    assert action(*EDITED) == LaunchShadow()


@pytest.mark.parametrize(
    ("messages", "observed"),
    [
        (EDITED, {"cutover": False}),
        ((*UP, edit("two", "sessions end apart")), {}),
        ((*UP, events_pb2.RestartRequested(meta=META, name="d")), {}),
        ((*EDITED, events_pb2.Degraded(meta=FACT, reasons=["NO_PROGRESS"])), {}),
        ((*INTENDED, events_pb2.ShadowEnded(meta=BESIDE)), {}),
        ((*UP, events_pb2.DaggerRequested(meta=META, name="d", spec=spec_pb2.DaggerSpec(sql="two"))), {}),
    ],
    ids=["switched off or no room", "sessions", "state kept", "unwell", "had one", "an older gateway"],
)
def test_every_other_edit_stops_then_starts(messages: tuple[Message, ...], observed: dict[str, Any]) -> None:
    assert action(*messages, **observed) == issued()


# ---- Beside the driver -------------------------------------------------------------------------------------


def test_the_driver_runs_on_until_its_shadow_has_read_as_far() -> None:
    assert action(*LAUNCHED, shadow=seen()) is None
    assert action(*LAUNCHED, shadow=seen(READING)) is None
    assert action(*LAUNCHED, shadow=seen(CAUGHT_UP)) == events_pb2.CutoverDecided(boundary={"seconds": 120})


def test_who_leads_next_adopts_a_shadow_and_submits_none_that_nobody_answered_for() -> None:
    found = seen(driver=THERE)
    inherited = action(*INTENDED, CLAIM, shadow=seen(presence=Presence.GONE), epoch=7)

    assert action(*INTENDED, shadow=found) == events_pb2.ShadowLaunched(driver=THERE, adopted=True)
    assert (type(inherited), inherited.error.reason) == (events_pb2.ShadowEnded, shadowing.NOT_LAUNCHED)
    assert action(*LAUNCHED, CLAIM, shadow=seen(CAUGHT_UP), epoch=8) == events_pb2.ShadowLaunched(
        driver=THERE, adopted=True
    )


@pytest.mark.parametrize(
    ("messages", "now"),
    [
        ((*LAUNCHED, STOP), NOW),
        ((*LAUNCHED, edit("three")), NOW),
        ((*DECIDED, edit("three")), NOW),
        ((*EXITED, STOP), NOW),
        (LAUNCHED, START + POLICY.catch_up + timedelta(minutes=1)),
        (EXITED, START + POLICY.handover + timedelta(minutes=1)),
        ((*LAUNCHED, events_pb2.Exited(meta=FACT, code=1)), NOW),
    ],
    ids=["stopped", "edited", "edited late", "stopped late", "too slow", "hangs", "its driver died"],
)
def test_a_shadow_that_is_not_to_go_on_is_killed_and_then_the_edit_is_one_as_ever(
    messages: tuple[Message, ...], now: datetime
) -> None:
    left = seen(presence=Presence.GONE, exit=events_pb2.Exited(code=-9))
    ended = action(*messages, shadow=left, now=now)

    assert action(*messages, shadow=seen(READING), now=now) == EndShadow()
    assert (type(ended), ended.code) == (events_pb2.ShadowEnded, -9)


def test_a_shadow_says_how_it_ended_unless_people_asked_for_something_else() -> None:
    broken = events_pb2.DaggerError(reason="BROKEN", detail="it broke")
    left = seen(presence=Presence.GONE, exit=events_pb2.Exited(code=70, error=broken))
    late = START + POLICY.catch_up + timedelta(minutes=1)

    assert action(*LAUNCHED, shadow=left).error == broken
    assert not action(*LAUNCHED, STOP, shadow=left).HasField("error")
    assert action(*LAUNCHED, shadow=left, now=late).error.reason == shadowing.GIVEN_UP


def test_a_shadow_of_a_host_where_nobody_leads_can_never_be_handed_over() -> None:
    ended = action(*LAUNCHED, shadow=seen(presence=Presence.REMOTE), presence=Presence.REMOTE)

    assert (type(ended), ended.error.reason) == (events_pb2.ShadowEnded, shadowing.LEFT)


# ---- At the boundary ---------------------------------------------------------------------------------------


def test_a_driver_ends_at_the_boundary_by_itself_or_is_told_to_or_is_killed() -> None:
    since = dagger(*DECIDED).phase_time
    later = [
        action(*DECIDED, shadow=seen(CAUGHT_UP), now=since + times * POLICY.grace) for times in (0.5, 1, 2)
    ]

    assert later == [None, Drain(), Kill()]


def test_it_is_handed_over_when_the_driver_is_proven_dead_and_what_it_wrote_is_final() -> None:
    gone = {"presence": Presence.GONE, "shadow": seen(FINAL)}
    handed = action(*EXITED, shadow=seen(FINAL))

    assert type(action(*DECIDED, **gone)) is events_pb2.Exited
    assert action(*EXITED, shadow=seen(CAUGHT_UP), now=START + POLICY.handover / 2) is None
    assert handed == events_pb2.CutoverHanded(written={"seconds": 120}, closed={"seconds": 60})
    assert not action(*EXITED, shadow=seen(replace(FINAL, closed=0))).HasField("closed")


def test_a_handover_that_can_be_made_is_made_however_late() -> None:
    late = START + POLICY.handover + timedelta(minutes=1)

    assert type(action(*EXITED, shadow=seen(FINAL), now=late)) is events_pb2.CutoverHanded


def test_where_the_shadow_is_gone_the_newest_version_is_launched_as_ever() -> None:
    ended = events_pb2.ShadowEnded(meta=BESIDE, code=-9)

    assert action(*EXITED, ended, presence=Presence.GONE) == Launch()
    assert action(*DECIDED, ended) == Drain()


def test_what_was_handed_over_is_told_by_whoever_leads() -> None:
    def files(*messages: Message) -> list[tuple[str, str, str]]:
        return [
            (driver.run_dir, file, text) for driver, file, text in shadowing.cutover_files(dagger(*messages))
        ]

    assert files(*LAUNCHED) == []
    assert files(*DECIDED) == [(HERE.run_dir, rundir.BOUNDARY, "120000000\n")]
    assert files(*EXITED) == [(THERE.run_dir, rundir.PREDECESSOR_ENDED, "")]
    assert files(*HANDED) == [(THERE.run_dir, rundir.HANDED, "120000000\n")]


def test_a_launch_behind_a_handover_was_no_shadow() -> None:
    again = (
        *HANDED,
        events_pb2.Exited(meta=BESIDE, code=1),
        events_pb2.RelaunchScheduled(meta=BESIDE, attempt=1, not_before={"seconds": 0}),
        events_pb2.LaunchIntended(meta=NONE, version=2),
    )
    handed, launched = dagger(*HANDED), dagger(*again)

    assert (handed.handed, handed.observed_query) == (datetime(1970, 1, 1, 0, 2, tzinfo=UTC), handed.query)
    assert (launched.handed, launched.observed_query) == (None, launched.query)


# ---- Room --------------------------------------------------------------------------------------------------


def test_a_shadow_takes_what_its_own_version_asks_for_also_once_it_is_the_newest_launch() -> None:
    larger = edit("two")
    larger.spec.driver_memory_mib = 3_000
    beside, handed = (dagger(*UP, larger, *messages[len(EDITED) :]) for messages in (LAUNCHED, HANDED))

    assert [launch.heap_mib for launch in beside.footprints] == [0, 3_000]
    assert [launch.heap_mib for launch in handed.footprints] == [3_000]


def test_a_shadow_takes_as_much_room_as_its_driver() -> None:
    fleet = Fleet()
    for each in given(*LAUNCHED):
        fleet.apply(each)
    both = fleet.daggers["d"]
    need = quotas.need_mib(both.spec)

    def full(**room: int) -> str:
        why = quotas.host_full(Usage.of([both]), need, Room(**room))
        return why.reason if why else ""

    assert both.running == (OLD, SHADOW)
    assert [full(drivers=2), full(drivers=3)] == [quotas.MAX_DRIVERS, ""]
    assert [full(memory_mib=3 * need - 1), full(memory_mib=3 * need)] == [quotas.MAX_MEMORY, ""]
    assert quotas.uses(fleet.catalogue, fleet.list_of_team(""), lambda _: (0, 0))["drivers"] == 2
