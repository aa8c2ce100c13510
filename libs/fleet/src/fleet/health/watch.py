"""What is observed of one dagger's newest launch: heartbeats and answers of its Spark driver. Pure.

The health monitor and the gateway keep it. Every instant here is of the observer's clock: a driver's clock is
used only for differences of its own times. What was said before the observer began came when Kafka says, but
never later than now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, TypeVar

from daggers.v1 import telemetry_pb2

from daggerspec.limits import RECENT_S
from fleet.health.degradation import Evidence, Limits, driver_warnings, progress_age
from fleet.health.trends import Backlog, Flow, Growth, Pause, flows, growth

Heartbeat = telemetry_pb2.Heartbeat

WINDOW: Final = timedelta(seconds=RECENT_S)
"""Over how long the quarantine rate is taken."""
RECALL: Final = WINDOW + timedelta(seconds=30)
"""How far back an observer that begins hears: a whole window, and a heartbeat at or before its begin."""
_LIMITS: Final = Limits()
# Newer heartbeats overtake a late one by less than this; beyond it, the driver's clock was set back.
_LATE: Final = timedelta(minutes=1)


T = TypeVar("T", "Sample", Backlog)


@dataclass(frozen=True, slots=True)
class Sample:
    """A launch's counters at one instant."""

    time: datetime
    rows_in: int = 0
    rows_out: int = 0
    """Of all sinks together."""
    written: int = 0
    """Of the sink that took most."""
    late: int = 0
    late_windows: int = 0
    """The late rows, each as often as there are windows that it is missing from."""
    quarantined: Mapping[str, int] = field(default_factory=dict)
    """Records set aside and rows refused, by reason."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """The rows among them."""

    @property
    def records(self) -> int:
        """Those that were read, those that were set aside among them."""
        return self.rows_in + sum(self.quarantined.values()) - sum(self.refused.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """What the counters of a launch counted in the last minutes."""

    span: timedelta = timedelta(0)
    """How long that was."""
    rows_in: int = 0
    rows_out: int = 0
    """Of all sinks together."""
    written: int = 0
    """Of the sink that took most."""
    late: int = 0
    late_windows: int = 0
    quarantined: Counter[str] = field(default_factory=Counter)
    """Records set aside and rows refused, by reason."""
    refused: Counter[str] = field(default_factory=Counter)
    """The rows among them."""
    kept_back_since: datetime | None = None
    """When the last sample was taken before anything of that was; None when nothing was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What was observed of the newest launch of a dagger."""

    since: datetime
    """Since when the dagger could be observed: the observer's start, or its own creation."""
    launched: datetime
    """Since when this launch could be heard."""
    generation: int = 0
    """The launch that is watched; 0 before the first."""
    heartbeat: Heartbeat | None = None
    """Its newest heartbeat."""
    heard: datetime | None = None
    """When that came."""
    progressed: datetime | None = None
    """When the dagger last committed a batch or found its source empty, in this launch or an earlier one."""
    told: datetime | None = None
    """When that was last told."""
    samples: tuple[Sample, ...] = ()
    """Counters of this launch, oldest first: one at or before the window's begin, then those inside."""
    backlogs: tuple[Backlog, ...] = ()
    """What this launch had still to read, as long ago as a lag's growth is judged by; oldest first."""
    growth: Growth | None = None
    """How that grew; None while too little of it was observed."""
    flow: Flow | None = None
    """How records came, to this launch and to earlier ones; None while none was seen to come."""
    warned: Mapping[str, datetime] = field(default_factory=dict)
    """Codes of the warnings in its newest heartbeat, and since when each has been in every one."""
    retrying: Mapping[str, datetime] = field(default_factory=dict)
    """Reasons why sinks are retried in its newest heartbeat, and since when each has been in every one."""
    answers: bool | None = None
    """Whether its Spark driver answered when last asked; None when not asked since the last heartbeat."""

    @property
    def ui_url(self) -> str:
        """Its Spark UI by its own word; empty when it has not said."""
        return self.heartbeat.ui_url if self.heartbeat else ""


def launch(watch: Watch, generation: int, now: datetime) -> Watch:
    """The watch of a launch that is newer than the one watched; the same watch otherwise.

    Its counters are known without a heartbeat: they begin at zero.
    """
    if generation <= watch.generation:
        return watch
    return Watch(
        since=watch.since,
        launched=now,
        generation=generation,
        progressed=watch.progressed,
        told=watch.told,
        samples=(Sample(now),),
        flow=watch.flow,
    )


def begin(since: datetime, generation: int = 0, *, launched: datetime | None = None) -> Watch:
    """The watch of a dagger from `since` on; how far a launch that runs already has counted is not known.

    `launched`: since when that launch could be heard, where it is later.
    """
    return Watch(since=since, launched=launched or since, generation=generation)


def hear(watch: Watch, heartbeat: Heartbeat, now: datetime, limits: Limits = _LIMITS) -> Watch:
    """The watch after a heartbeat. One of an older launch, or one that came late, changes nothing."""
    if heartbeat.generation < watch.generation:
        return watch
    watch = launch(watch, heartbeat.generation, now)
    if watch.heartbeat is not None and timedelta() <= _told_at(watch.heartbeat) - _told_at(heartbeat) < _LATE:
        return watch
    progressed, told = watch.progressed, watch.told
    if (age := progress_age(heartbeat)) is not None:
        progressed, told = now - age, now
    sample = Sample(
        now,
        heartbeat.rows_in,
        sum(heartbeat.rows_out),
        max(heartbeat.rows_out, default=0),
        heartbeat.late_rows,
        heartbeat.late_windows,
        dict(heartbeat.quarantined),
        dict(heartbeat.refused_rows),
    )
    came = bool(watch.samples) and sample.records > watch.samples[-1].records
    backlogs = watch.backlogs
    if heartbeat.lag:
        backlog = Backlog(now, sum(heartbeat.lag.values()), sample.records)
        backlogs = _within(limits.lag_window, (*backlogs, backlog))
    return replace(
        watch,
        heartbeat=heartbeat,
        heard=now,
        progressed=progressed,
        told=told,
        samples=_within(WINDOW, (*watch.samples, sample)),
        backlogs=backlogs,
        growth=growth(backlogs, limits),
        flow=flows(watch.flow, now, limits) if came else watch.flow,
        warned={code: watch.warned.get(code, now) for code in driver_warnings(heartbeat)},
        retrying={retry.reason: watch.retrying.get(retry.reason, now) for retry in heartbeat.retrying},
        answers=None,
    )


def pause(watch: Watch, *, asked: datetime, now: datetime, limits: Limits) -> Pause | None:
    """Since when no record has come; None where none can be missed. `asked`: when a person last did: a new
    revision may read something else.
    """
    flow = watch.flow
    if flow is None or flow.last <= asked or (watch.backlogs and watch.backlogs[-1].lag):
        return None
    since = max(flow.last, watch.launched)
    return Pause(flow, since, now - since, flow.patience(limits))


def recent(watch: Watch, window: timedelta = WINDOW) -> Recent:
    """What its counters counted in this window at most; nothing of less than two samples."""
    if len(watch.samples) < 2:
        return Recent()
    samples = _within(window, watch.samples)
    first, last = samples[0], samples[-1]
    quarantined = Counter(last.quarantined) - Counter(first.quarantined)
    begun = sum(first.quarantined.values())
    clean = [sample.time for sample in samples if sum(sample.quarantined.values()) <= begun]
    return Recent(
        span=last.time - first.time,
        rows_in=last.rows_in - first.rows_in,
        rows_out=last.rows_out - first.rows_out,
        written=last.written - first.written,
        late=last.late - first.late,
        late_windows=last.late_windows - first.late_windows,
        quarantined=quarantined,
        refused=Counter(last.refused) - Counter(first.refused),
        kept_back_since=clean[-1] if quarantined else None,
    )


def _told_at(heartbeat: Heartbeat) -> timedelta:
    """Since the epoch, by the driver's clock."""
    return timedelta(microseconds=heartbeat.time.ToMicroseconds())


def probe(watch: Watch, *, answers: bool) -> Watch:
    """The watch after its Spark driver was asked whether it lives."""
    return replace(watch, answers=answers)


def evidence_of(watch: Watch, now: datetime, hearing: datetime | None) -> Evidence:
    """What is known at `now`, of heartbeats. `hearing`: as `Hearing.begin` says; deaf, no silence counts."""
    age = now - watch.heard if watch.heard else timedelta(0)
    quiet = None if hearing is None else now - max(watch.heard or watch.launched, hearing)
    return Evidence(heartbeat=watch.heartbeat, age=age, quiet=quiet)


def _within(window: timedelta, taken: tuple[T, ...]) -> tuple[T, ...]:
    """What was taken in the window that ends with the last, and the newest before it."""
    begin = taken[-1].time - window
    kept = next((number for number, sample in enumerate(taken) if sample.time > begin), len(taken) - 1)
    return taken[max(kept - 1, 0) :]


@dataclass(frozen=True, slots=True)
class Hearing:
    """Whether the observer hears the heartbeats topic at all: silence is judged only while it does.

    The leader's own beat is in that topic, so somebody is always to be heard.
    """

    gap: timedelta
    """Hearing nothing at all for this long is deafness."""
    since: datetime | None = None
    """Since when it has heard without a gap; None before the first record."""
    last: datetime | None = None
    """When it last heard anything."""

    def hears(self, now: datetime) -> Hearing:
        """A record of the topic came."""
        whole = self.last is not None and now - self.last < self.gap
        return Hearing(self.gap, self.since if whole else now, now)

    def recalls(self, came: datetime) -> Hearing:
        """A record of the topic came earlier; those who wrote when need not have one clock."""
        return self.hears(max(came, self.last or came))

    def begin(self, now: datetime) -> datetime | None:
        """Since when silence means something; None while deaf."""
        return self.since if self.last is not None and now - self.last < self.gap else None
