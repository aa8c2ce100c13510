"""State that an observer keeps of one dagger's newest launch: heartbeats and answers of its Spark driver.
Pure.

The health monitor and the gateway keep it. Every instant here is of the observer's clock: a driver's clock is
used only for differences of its own times. Heartbeats from before the observer began have Kafka's time, but
never a later one than now.
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
"""Time over which the quarantine rate is taken."""
RECALL: Final = WINDOW + timedelta(seconds=30)
"""Time before its begin from which an observer reads: a whole window, and a heartbeat at or before its begin.
"""
_LIMITS: Final = Limits()
# Newer heartbeats overtake a late one by less than this; beyond it, the driver's clock was set back.
_LATE_US: Final = 60_000_000
# One for the samples of all: a fleet has sixty of each dagger.
_NONE: Final[Mapping[str, int]] = {}
_NOTHING: Final[Counter[str]] = Counter()


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
    """Differences of a launch's counters over the last minutes."""

    span: timedelta = timedelta(0)
    """Time between the first and the last sample."""
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
    """Time of the last sample before any of these was set aside; None when none was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Observed state of the newest launch of a dagger."""

    since: datetime
    """Begin of the observation: the observer's start, or the dagger's creation."""
    launched: datetime
    """Time since when this launch could be heard."""
    generation: int = 0
    """The launch that is watched; 0 before the first."""
    heartbeat: Heartbeat | None = None
    """Its newest heartbeat."""
    heard_at: datetime | None = None
    """Time when that came; None before the first."""
    progressed: datetime | None = None
    """Time when the dagger last committed a batch or found its source empty, in this launch or an earlier
    one.
    """
    reported_at: datetime | None = None
    """Time of the heartbeat that last reported progress."""
    samples: tuple[Sample, ...] = ()
    """Counters of this launch, oldest first: one at or before the window's begin, then those inside."""
    backlogs: tuple[Backlog, ...] = ()
    """Records that this launch had still to read, over the time by which a lag's growth is judged; oldest
    first.
    """
    growth: Growth | None = None
    """Growth of that lag; None while too little of it was observed."""
    flow: Flow | None = None
    """Flow of records to this launch and to earlier ones; None before the first."""
    warned: Mapping[str, datetime] = field(default_factory=dict)
    """Codes of the warnings in its newest heartbeat, and since when each has been in every one."""
    retrying: Mapping[str, datetime] = field(default_factory=dict)
    """Reasons why sinks are retried in its newest heartbeat, and since when each has been in every one."""
    answers: bool | None = None
    """True when its Spark driver answered the last probe; None when not probed since the last heartbeat."""

    @property
    def ui_url(self) -> str:
        """URL of its Spark UI by its heartbeat; empty when it has reported none."""
        return self.heartbeat.ui_url if self.heartbeat else ""


def launch(watch: Watch, generation: int, now: datetime) -> Watch:
    """Return the watch of a launch that is newer than the one watched; the same watch otherwise.

    Its counters are known without a heartbeat: they begin at zero.
    """
    if generation <= watch.generation:
        return watch
    return Watch(
        since=watch.since,
        launched=now,
        generation=generation,
        progressed=watch.progressed,
        reported_at=watch.reported_at,
        samples=(Sample(now),),
        flow=watch.flow,
    )


def begin(since: datetime, generation: int = 0, *, launched: datetime | None = None) -> Watch:
    """Begin the watch of a dagger from `since` on; the counters of a launch that runs already are not known.

    `launched`: since when that launch could be heard, where it is later.
    """
    return Watch(since=since, launched=launched or since, generation=generation)


def hear(watch: Watch, heartbeat: Heartbeat, now: datetime, limits: Limits = _LIMITS) -> Watch:
    """Return the watch after a heartbeat. One of an older launch, or one that came late, changes nothing."""
    if heartbeat.generation < watch.generation:
        return watch
    watch = launch(watch, heartbeat.generation, now)
    if watch.heartbeat is not None and is_late(watch.heartbeat, heartbeat):
        return watch
    progressed, reported_at = watch.progressed, watch.reported_at
    if (age := progress_age(heartbeat)) is not None:
        progressed, reported_at = now - age, now
    rows_out = tuple(heartbeat.rows_out)
    sample = Sample(
        now,
        heartbeat.rows_in,
        sum(rows_out),
        max(rows_out, default=0),
        heartbeat.late_rows,
        heartbeat.late_windows,
        dict(heartbeat.quarantined) if heartbeat.quarantined else _NONE,
        dict(heartbeat.refused_rows) if heartbeat.refused_rows else _NONE,
    )
    came = bool(watch.samples) and sample.records > watch.samples[-1].records
    backlogs = watch.backlogs
    if heartbeat.lag:
        backlog = Backlog(now, sum(heartbeat.lag.values()), sample.records)
        backlogs = _within(limits.lag_window, (*backlogs, backlog))
    return Watch(  # `replace` takes twice as long, and each heartbeat of a fleet comes here
        since=watch.since,
        launched=watch.launched,
        generation=watch.generation,
        heartbeat=heartbeat,
        heard_at=now,
        progressed=progressed,
        reported_at=reported_at,
        samples=_within(WINDOW, (*watch.samples, sample)),
        backlogs=backlogs,
        growth=growth(backlogs, limits),
        flow=flows(watch.flow, now, limits) if came else watch.flow,
        warned={code: watch.warned.get(code, now) for code in driver_warnings(heartbeat)},
        retrying={retry.reason: watch.retrying.get(retry.reason, now) for retry in heartbeat.retrying},
    )


def is_late(newest: Heartbeat, heartbeat: Heartbeat) -> bool:
    """Tell whether a heartbeat is of an older launch than the newest one, or was overtaken by that."""
    if heartbeat.generation != newest.generation:
        return heartbeat.generation < newest.generation
    return 0 <= _sent_us(newest) - _sent_us(heartbeat) < _LATE_US


def pause(watch: Watch, *, requested_at: datetime, now: datetime, limits: Limits) -> Pause | None:
    """Return the pause since the last record; None where none can be missed. requested: time of a person's
    newest request, for a new revision may read something else.
    """
    flow = watch.flow
    if flow is None or flow.last <= requested_at or (watch.backlogs and watch.backlogs[-1].lag):
        return None
    since = max(flow.last, watch.launched)
    return Pause(flow, since, now - since, flow.patience(limits))


def recent(watch: Watch, window: timedelta = WINDOW) -> Recent:
    """Return the differences of its counters over this window at most; zeros of less than two samples."""
    if len(watch.samples) < 2:
        return Recent()
    samples = _within(window, watch.samples)
    first, last = samples[0], samples[-1]
    # Lists of a fleet ask three times for each dagger, of which few set anything aside.
    quarantined = Counter(last.quarantined) - Counter(first.quarantined) if last.quarantined else _NOTHING
    kept_back_since = None
    if quarantined:  # as of few daggers: a look through all samples takes longer than all else here
        begun = sum(first.quarantined.values())
        clean = [sample.time for sample in samples if sum(sample.quarantined.values()) <= begun]
        kept_back_since = clean[-1]
    return Recent(
        span=last.time - first.time,
        rows_in=last.rows_in - first.rows_in,
        rows_out=last.rows_out - first.rows_out,
        written=last.written - first.written,
        late=last.late - first.late,
        late_windows=last.late_windows - first.late_windows,
        quarantined=quarantined,
        refused=Counter(last.refused) - Counter(first.refused) if last.refused else _NOTHING,
        kept_back_since=kept_back_since,
    )


def _sent_us(heartbeat: Heartbeat) -> int:
    """Return the time at which a heartbeat was sent, by the driver's clock, in microseconds since 1970."""
    time = heartbeat.time
    return time.seconds * 1_000_000 + time.nanos // 1_000


def probe(watch: Watch, *, answers: bool) -> Watch:
    """Return the watch after a probe of its Spark driver."""
    return replace(watch, answers=answers)


def evidence_of(watch: Watch, now: datetime, hearing: datetime | None) -> Evidence:
    """Return what heartbeats tell at `now`. hearing: as `Hearing.begin` returns it; None: no silence
    counts.
    """
    age = now - watch.heard_at if watch.heard_at else timedelta(0)
    quiet = None if hearing is None else now - max(watch.heard_at or watch.launched, hearing)
    return Evidence(heartbeat=watch.heartbeat, age=age, quiet=quiet)


def _within(window: timedelta, samples: tuple[T, ...]) -> tuple[T, ...]:
    """Return the samples in the window that ends with the last, and the newest before it."""
    begin, index = samples[-1].time - window, 0
    while samples[index].time <= begin and index < len(samples) - 1:
        index += 1
    return samples[max(index - 1, 0) :]


@dataclass(frozen=True, slots=True)
class Hearing:
    """State of the observer's own reception of heartbeats: silence of drivers is judged only while it hears
    any.

    The leader's own beat is in that topic, so somebody is always to be heard.
    """

    gap: timedelta
    """Hearing nothing at all for this long is deafness."""
    since: datetime | None = None
    """Begin of reception without a gap; None before the first record."""
    last: datetime | None = None
    """Time of the newest record."""

    def hears(self, now: datetime) -> Hearing:
        """Return the state after a record of the topic came."""
        whole = self.last is not None and now - self.last < self.gap
        return Hearing(self.gap, self.since if whole else now, now)

    def recalls(self, came: datetime) -> Hearing:
        """Return the state after a record came earlier; writers need not have one clock."""
        return self.hears(max(came, self.last or came))

    def begin(self, now: datetime) -> datetime | None:
        """Return since when silence means something; None while deaf."""
        return self.since if self.last is not None and now - self.last < self.gap else None
