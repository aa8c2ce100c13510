"""What is not as it should be with a dagger, in sentences: its warnings in `daggers get`. Pure.

`degradation` judges, and the driver itself where it has the numbers; `advice` says whose it is and
what to do next. A page about missing progress says what `standstill` names first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from daggers.v1 import vitals_pb2

from chassis.durations import format_span
from fleet.fold.dagger import Dagger
from fleet.fold.phases import BACKING_OFF, DEGRADED, FAILED, PENDING, RUNNING, STARTING, UNREACHABLE
from fleet.health import advice
from fleet.health.advice import (
    ADVICE,
    LATE_RECORDS,
    NOT_LAUNCHED,
    OF_THE_QUERY,
    QUARANTINED,
    REFUSED,
    UNKNOWN_CODE,
    Advice,
)
from fleet.health.degradation import (
    SHOWN,
    Evidence,
    Heartbeat,
    Limits,
    Reason,
    degradation_reasons,
    driver_warnings,
    findings,
    share_kept_back,
    silent,
)
from fleet.health.watch import Recent, Watch, evidence_of, pause, recent

Warned = vitals_pb2.HealthWarning


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that is not as it should be."""

    code: str
    text: str
    """One sentence about its object."""
    since: datetime
    advice: Advice
    """Whose it is, and what to do next."""

    def to_proto(self, name: str) -> Warned:
        """As the API shows it of this dagger."""
        warned = Warned(
            code=self.code,
            object=self.advice.object,
            message=self.text,
            domain=self.advice.domain,
            next=self.advice.next_of(name),
        )
        warned.since.FromDatetime(self.since)
        return warned


def warnings(dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None) -> list[Warned]:
    """What is not as it should be, what matters most first. `hearing`: as in `evidence_of`."""
    told = standstill(dagger, watch, now=now, hearing=hearing)
    if dagger.phase in _DRIVEN:
        judged_at = now if hearing is not None else watch.heard or now
        told += [
            *_of_its_work(dagger, watch, _evidence(watch, now, hearing), judged_at),
            *_of_its_last_end(dagger, now),
        ]
    return [warning.to_proto(dagger.name) for warning in told]


def standstill(dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None) -> list[Told]:
    """Why it does not run, or does not get on, what explains most first; as `warnings`."""
    if dagger.phase not in _DRIVEN:
        return list(_of_its_ends(dagger, now))
    evidence = _evidence(watch, now, hearing)
    reasons = _reasons(dagger, evidence, now)
    return [
        *(_of_its_host(evidence, now) if Reason.HOST_OVERLOADED in reasons else ()),
        *(_of_sinks(watch, evidence, now) if Reason.SINK_RETRYING in reasons else ()),
        *_of_its_ends(dagger, now),
        *_of_its_progress(reasons, evidence, now),
    ]


_DRIVEN = (STARTING, RUNNING, DEGRADED)
"""Phases in which a driver is to get on."""


def _evidence(watch: Watch, now: datetime, hearing: datetime | None) -> Evidence:
    """Deaf, nothing newer is known than what was heard last."""
    return evidence_of(watch, now if hearing is not None else watch.heard or now, hearing)


def _reasons(dagger: Dagger, evidence: Evidence, now: datetime) -> list[str]:
    return degradation_reasons(dagger, evidence, phase_age=now - dagger.phase_time, remote=True, limits=SHOWN)


def _of_its_ends(dagger: Dagger, now: datetime) -> Iterator[Told]:
    """Why it does not run, or not for long."""
    error, since = dagger.last_error, dagger.phase_time
    if dagger.phase == UNREACHABLE:
        host = dagger.driver.host if dagger.driver else "its host"
        text = f"neither its heartbeat nor its process on {host} answers, for {format_span(now - since)}"
        yield _known(advice.UNREACHABLE, f"{text}; it may still run", since)
    elif dagger.phase == PENDING and error is None:
        if now - since >= SHOWN.start:
            text = f"no driver has been launched for {format_span(now - since)}; does a scheduler run?"
            yield _known(NOT_LAUNCHED, text, since)
    elif error is None:
        return
    elif dagger.phase == FAILED:
        text = f"it was given up: {_clause(error.detail)}"
        yield Told(error.reason, text, since, advice.given_up(error, dagger.last_good_version))
    elif dagger.phase == PENDING:
        yield Told(error.reason, f"it waits: {_clause(error.detail)}", since, advice.waits(error))
    elif dagger.phase in (BACKING_OFF, STARTING) and dagger.ends:
        text = f"{advice.often(dagger.ends)}: {_clause(error.detail)}"
        yield Told(error.reason, text, since, advice.ended(error, dagger.last_good_version))


def _of_its_last_end(dagger: Dagger, now: datetime) -> Iterator[Told]:
    """Why the driver before this one ended: one that ends again and again runs well in between."""
    ended = dagger.last_exit
    if dagger.phase in (RUNNING, DEGRADED) and dagger.ends and ended is not None and ended.HasField("error"):
        since = ended.time.ToDatetime(UTC)
        last = f"the last time {format_span(now - since)} ago"
        text = f"{advice.often(dagger.ends)}, {last}: {_clause(ended.error.detail)}; it runs again"
        yield Told(ended.error.reason, text, since, advice.runs_again(ended.error))


def _of_its_host(evidence: Evidence, now: datetime) -> Iterator[Told]:
    """That it has too much to do, which explains what else is slow."""
    if evidence.heartbeat is not None:
        yield _known(Reason.HOST_OVERLOADED, evidence.heartbeat.overload, now)


def _of_sinks(watch: Watch, evidence: Evidence, now: datetime) -> Iterator[Told]:
    for error in evidence.heartbeat.retrying if evidence.heartbeat else ():
        since = watch.retrying.get(error.reason, now)
        text = f"{_clause(error.detail)}, for {format_span(now - since)}; its rows wait, nothing is lost"
        yield Told(error.reason, text, since, advice.retries(error))


def _of_its_progress(reasons: list[str], evidence: Evidence, now: datetime) -> Iterator[Told]:
    """That it is silent, or does not get on."""
    for reason in reasons:
        if (span := _lasts(reason, evidence)) is not None:
            yield _known(reason, _sentence(reason, evidence.heartbeat or Heartbeat(), span), now - span)


def _of_its_work(dagger: Dagger, watch: Watch, evidence: Evidence, now: datetime) -> Iterator[Told]:
    """What a driver that is heard says of itself: what degrades it first, then what else it warns of."""
    if silent(evidence, SHOWN):
        return
    heartbeat = evidence.heartbeat or Heartbeat()
    told, of_query = driver_warnings(heartbeat), findings(heartbeat)
    reasons = [reason for reason in _reasons(dagger, evidence, now) if reason in told]
    for code in (*reasons, *(code for code in told if code not in reasons)):
        if not (code == LATE_RECORDS and Reason.LATE_ROWS in told):
            known = ADVICE.get(code, OF_THE_QUERY if code in of_query else UNKNOWN_CODE)
            yield Told(code, told[code], watch.warned.get(code, now), known)
    if Reason.QUARANTINE_FLOOD not in told:
        yield from _of_the_quarantine(recent(watch))
    if dagger.phase in (RUNNING, DEGRADED):
        yield from _of_its_input(dagger, watch, now)


def _of_its_input(dagger: Dagger, watch: Watch, now: datetime) -> Iterator[Told]:
    """That none comes any more, or more than it reads: as an alert says it, by the limits of no settings."""
    limits = Limits()
    missed = pause(watch, asked=dagger.update_time, now=now, limits=limits)
    if missed is not None and missed.over_limit and missed.flow.steady(limits):
        yield _known("NO_INPUT", str(missed), missed.since)
    if watch.growth is not None and watch.growth.too_much(limits):
        yield _known("LAG_GROWING", str(watch.growth), watch.growth.first.time)


def _of_the_quarantine(lately: Recent) -> Iterator[Told]:
    """What was kept back in the last minutes, however little: a share that is too great is an alert."""
    if lately.kept_back_since is None:
        return
    for counts, went_on, what, code in (
        (lately.quarantined - lately.refused, lately.rows_in, "records were quarantined", QUARANTINED),
        (lately.refused, lately.rows_out, "rows were refused by sinks", REFUSED),
    ):
        if count := counts.total():
            share = share_kept_back(count, went_on)
            reasons = ", ".join(reason for reason, _ in counts.most_common(3))
            text = (
                f"{count:,} {what} in {format_span(lately.span)} ({share:.1%}): {reasons};"
                " each is kept, with why"
            )
            yield Told(QUARANTINED, text, lately.kept_back_since, ADVICE[code])


def _lasts(reason: str, evidence: Evidence) -> timedelta | None:
    """For how long it has been so; None of a reason that says nothing of itself."""
    match reason:
        case Reason.START_TIMEOUT | Reason.NO_HEARTBEAT:
            return evidence.quiet
        case Reason.BATCH_STUCK:
            return evidence.batch_age
        case Reason.NO_PROGRESS:
            return evidence.progress_age or evidence.quiet
    return None


def _sentence(reason: str, heartbeat: Heartbeat, span: timedelta) -> str:
    lasting = format_span(span)
    if reason == Reason.BATCH_STUCK:
        took = format_span(timedelta(milliseconds=heartbeat.batch_duration_ms))
        return f"batch {heartbeat.running_batch_id} has run for {lasting} so far, the last one took {took}"
    if reason == Reason.NO_PROGRESS:
        return f"no batch was committed and the source was not found empty for {lasting}; nothing is lost"
    return f"its driver has sent no heartbeat for {lasting}; it may still run"


def _known(code: str, text: str, since: datetime) -> Told:
    return Told(code, text, since, ADVICE[code])


def _clause(sentence: str) -> str:
    return sentence.strip().removesuffix(".")
