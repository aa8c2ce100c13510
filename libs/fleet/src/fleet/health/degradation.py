"""The judge of a driver's health: its limits, the meaning of each reason, and the rules. Pure.

The scheduler and the health monitor both call it, each with its own evidence and limits. The scheduler hears
heartbeats and sees processes, and decides the phase. The monitor hears heartbeats and probes Spark drivers,
and decides about alerts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, timedelta
from enum import StrEnum
from typing import Final

from daggers.v1 import telemetry_pb2

from daggerspec import limits as spec_limits
from daggerspec.alertrules import digest_of_all
from daggerspec.defaults import TRIGGER
from fleet.fold.dagger import Dagger
from fleet.fold.phases import RUNNING, STARTING

Heartbeat = telemetry_pb2.Heartbeat


class Reason(StrEnum):
    """Reason of DEGRADED. A sink that is retried adds its error's own reasons."""

    START_TIMEOUT = "START_TIMEOUT"
    NO_HEARTBEAT = "NO_HEARTBEAT"
    BATCH_STUCK = "BATCH_STUCK"
    NO_PROGRESS = "NO_PROGRESS"
    SINK_RETRYING = "SINK_RETRYING"
    REFERENCE_STALE = "REFERENCE_STALE"
    LATE_ROWS = "LATE_ROWS"
    NO_OUTPUT = "NO_OUTPUT"
    RECORDS_EXPIRED = "RECORDS_EXPIRED"
    PARTITION_BEHIND = "PARTITION_BEHIND"
    FRESHNESS_MISSED = "FRESHNESS_MISSED"
    QUARANTINE_FLOOD = "QUARANTINE_FLOOD"
    WAITING_FOR_EXECUTORS = "WAITING_FOR_EXECUTORS"
    HOST_OVERLOADED = "HOST_OVERLOADED"
    RULES_NOT_TAKEN = "RULES_NOT_TAKEN"


MEANINGS: Final[Mapping[Reason, str]] = {
    Reason.START_TIMEOUT: "its driver gave no heartbeat since its launch; it is killed and launched again",
    Reason.NO_HEARTBEAT: "its driver was heard, and is silent now; on another host it is UNREACHABLE instead",
    Reason.BATCH_STUCK: "one batch takes five times as long as the last one, and longer than three triggers",
    Reason.NO_PROGRESS: "for three triggers no batch was committed and the source was not found empty",
    Reason.SINK_RETRYING: "a sink does not take its rows; the error's own reason stands behind it",
    Reason.REFERENCE_STALE: "a reference table cannot be read anew; the last content that could be is used",
    Reason.LATE_ROWS: "more than a few rows come after a window of theirs was closed",
    Reason.NO_OUTPUT: "rows are read into windows, and none is closed in time",
    Reason.RECORDS_EXPIRED: "retention took records of its streams before it had read them",
    Reason.PARTITION_BEHIND: "event time has waited for one of its partitions for five minutes",
    Reason.FRESHNESS_MISSED: "its rows come to a sink later than its specification says",
    Reason.QUARANTINE_FLOOD: "more of a batch is quarantined than is kept",
    Reason.WAITING_FOR_EXECUTORS: "its Spark master gives it no executor: others have them, or none is there",
    Reason.HOST_OVERLOADED: "its host has more to do than it can, and it does not get on; nothing is broken",
    Reason.RULES_NOT_TAKEN: "its driver judges other alert rules than its specification has, or none",
}
"""Meaning of each reason."""
DRIVER_REASONS: Final = (
    Reason.REFERENCE_STALE,
    Reason.LATE_ROWS,
    Reason.NO_OUTPUT,
    Reason.RECORDS_EXPIRED,
    Reason.PARTITION_BEHIND,
    Reason.FRESHNESS_MISSED,
    Reason.QUARANTINE_FLOOD,
    Reason.WAITING_FOR_EXECUTORS,
)
"""Reasons that a driver reports itself, as the codes of its warnings: it has the numbers."""
_TRIGGERS: Final = 3
_BATCHES: Final = 5
RULES_PATIENCE: Final = timedelta(seconds=30)
"""Time in which a driver takes alert rules, once they are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of what is healthy."""

    start: timedelta = timedelta(minutes=2)
    """Time after its launch for which a driver that never ran may be silent, or busy with its first batch."""
    silence: timedelta = timedelta(seconds=30)
    """Without a heartbeat for this long a driver is silent."""
    progress: timedelta = timedelta(minutes=2)
    """Longest time without a committed batch or an empty poll; at least three triggers and the margin."""
    margin: timedelta = timedelta(0)
    """Time that a heartbeat may take beside those triggers."""
    quarantine_share: float = 0.01
    """Share of the records read that may be set aside, and of the rows written that sinks may refuse."""
    quarantine_records: int = 20
    """Fewer records, or rows, than this are never too many."""
    share_time: timedelta = timedelta(seconds=spec_limits.SHARE_S)
    """Time over which records, or rows, are counted before a share of them says anything."""
    late_share: float = spec_limits.LATE_SHARE
    """Share of the rows read that may be late; drivers tell of no smaller one."""
    overdue: timedelta = timedelta(seconds=spec_limits.OVERDUE_S)
    """Time beyond its due end for which a window may stay open; drivers report no shorter one."""
    behind: timedelta = timedelta(seconds=spec_limits.BEHIND_S)
    """Time for which event time may wait for a partition; drivers report no shorter one."""
    restarts: int = 3
    """Number of ends of a driver that is a restart loop within `restarts_within`."""
    restarts_within: timedelta = timedelta(hours=1)
    """Time within which `restarts` ends are a restart loop."""
    input_gap: timedelta = timedelta(minutes=15)
    """Records that came for this long may fail to come for this long; see `trends.Flow`."""
    lag_share: float = 0.05
    """Share of the records that came that may be left unread while the lag grows."""
    lag_records: int = 1_000
    """A lag that grew by less than this is never too much."""
    lag_window: timedelta = timedelta(minutes=10)
    """Time over which the lag has to grow."""
    sink: timedelta = timedelta(minutes=5)
    """Time for which rows may wait in the log of a sink."""
    kafka: timedelta = timedelta(seconds=30)
    """Time for which the platform's Kafka may take no record."""


# Nothing is shown as RUNNING ten seconds and three triggers after its last progress; two are for the showing.
SHOWN: Final = Limits(progress=timedelta(0), margin=timedelta(seconds=8))
"""Limits of RUNNING."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Evidence of one observer about the newest launch, at one instant."""

    heartbeat: Heartbeat | None
    """Its last heartbeat."""
    age: timedelta
    """Age of that, by the observer's clock; 0 without one."""
    quiet: timedelta | None
    """Time for which no heartbeat came although it would have been heard; None while none could be."""

    @property
    def progress_age(self) -> timedelta | None:
        """Time since it last committed a batch or found its source empty; None when it has reported
        neither.
        """
        at_heartbeat = progress_age(self.heartbeat) if self.heartbeat else None
        return None if at_heartbeat is None else at_heartbeat + self.age

    @property
    def batch_age(self) -> timedelta | None:
        """Time for which a batch has been running; None when none was."""
        if self.heartbeat is None or not self.heartbeat.running_batch_age_ms:
            return None
        return timedelta(milliseconds=self.heartbeat.running_batch_age_ms) + self.age


# ---- The rules ---------------------------------------------------------------------------------------------


def silent(evidence: Evidence, limits: Limits) -> bool:
    """Tell whether its heartbeat is missing for too long."""
    return evidence.quiet is not None and evidence.quiet >= limits.silence


def stalled(dagger: Dagger, age: timedelta, limits: Limits) -> bool:
    """Tell whether progress of this age is too old."""
    return age >= patience(dagger, limits)


def stuck(dagger: Dagger, evidence: Evidence, limits: Limits) -> bool:
    """Tell whether one batch takes too long, beside the last one."""
    if evidence.heartbeat is None or evidence.batch_age is None:
        return False
    last = timedelta(milliseconds=evidence.heartbeat.batch_duration_ms)
    return evidence.batch_age >= max(patience(dagger, limits), _BATCHES * last)


def progress_age(heartbeat: Heartbeat) -> timedelta | None:
    """Return the age of its last progress when the driver sent this, by its own clock; None without
    progress.
    """
    if not heartbeat.HasField("last_progress"):
        return None
    sent, progress = heartbeat.time, heartbeat.last_progress
    age_ms = (sent.seconds - progress.seconds) * 1_000 + sent.nanos // 1_000_000 - progress.nanos // 1_000_000
    return timedelta(milliseconds=max(age_ms, 0))


def lacks_rules(dagger: Dagger, heartbeat: Heartbeat) -> bool:
    """Tell whether a driver that runs judges other alert rules than those asked for, or none."""
    age = heartbeat.time.ToDatetime(tzinfo=UTC) - dagger.update_time
    if not dagger.spec.alerts or heartbeat.state != Heartbeat.STATE_RUNNING or age < RULES_PATIENCE:
        return False
    return heartbeat.rules_digest != digest_of_all(dagger.spec.alerts)


def driver_warnings(heartbeat: Heartbeat) -> dict[str, str]:
    """Return the texts of the driver's warnings by their codes. Of one code the first counts."""
    texts: dict[str, str] = {}
    for warning in heartbeat.warnings:
        code, _, text = warning.partition(" ")
        texts.setdefault(code.removesuffix(":"), text)
    return texts


def findings(heartbeat: Heartbeat) -> frozenset[str]:
    """Return the codes of its warnings that are findings of the query's validation: a colon follows them."""
    codes = (warning.partition(" ")[0] for warning in heartbeat.warnings)
    return frozenset(code.removesuffix(":") for code in codes if code.endswith(":"))


def share_kept_back(kept_back: int, went_on: int) -> float:
    """Return the share that was set aside or refused."""
    return kept_back / max(kept_back + went_on, 1)


def too_many(kept_back: int, went_on: int, limits: Limits) -> bool:
    """Tell whether too many records or rows, and too large a share of them, were set aside or refused."""
    share = share_kept_back(kept_back, went_on)
    return kept_back >= limits.quarantine_records and share > limits.quarantine_share


def patience(dagger: Dagger, limits: Limits) -> timedelta:
    """Return the age that the last progress may have."""
    return max(limits.progress, triggers(dagger) + limits.margin)


def triggers(dagger: Dagger) -> timedelta:
    """Return three of its triggers: within that a batch is committed, or the source found empty."""
    trigger = dagger.spec.trigger.ToTimedelta() if dagger.spec.HasField("trigger") else TRIGGER
    return _TRIGGERS * trigger


# ---- The judgement -----------------------------------------------------------------------------------------


def degradation_reasons(
    dagger: Dagger, evidence: Evidence, *, phase_age: timedelta, remote: bool, limits: Limits
) -> list[str]:
    """Return why a driver that lives is DEGRADED, in a fixed order; empty when it is healthy.

    `phase_age`: since when the dagger is in its phase. `remote`: only its heartbeats can be observed.
    """
    heartbeat, quiet = evidence.heartbeat, evidence.quiet
    if heartbeat is None and (dagger.phase == STARTING if remote else not dagger.ran):
        if quiet is None or quiet < limits.start:
            return []
        return [Reason.NO_HEARTBEAT if remote else Reason.START_TIMEOUT]
    if silent(evidence, limits):
        return [Reason.NO_HEARTBEAT]
    if heartbeat is None:
        unheard = dagger.phase == RUNNING and quiet is not None and stalled(dagger, quiet, limits)
        return [Reason.NO_PROGRESS] if unheard else list(dagger.reasons)
    reasons: list[str] = []
    if evidence.progress_age is not None and stalled(dagger, evidence.progress_age, limits):
        reasons.append(Reason.BATCH_STUCK if stuck(dagger, evidence, limits) else Reason.NO_PROGRESS)
    if heartbeat.retrying:
        own = {retry.reason for retry in heartbeat.retrying if retry.reason}
        reasons += [Reason.SINK_RETRYING, *sorted(own)]
    warned = driver_warnings(heartbeat)
    if reasons and heartbeat.overload:  # alone it is no reason: it gets on
        reasons.insert(0, Reason.HOST_OVERLOADED)
    reasons += [reason for reason in DRIVER_REASONS if reason in warned]
    if lacks_rules(dagger, heartbeat):
        reasons.append(Reason.RULES_NOT_TAKEN)
    if dagger.phase == STARTING and heartbeat.state == Heartbeat.STATE_STARTING and not reasons:
        busy = evidence.batch_age is not None
        return [Reason.NO_PROGRESS] if phase_age >= limits.start and not busy else []
    return reasons
