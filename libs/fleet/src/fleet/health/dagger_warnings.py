"""Warnings of a dagger in `daggers get`: a sentence for each of its problems. Pure.

`degradation` judges, and the driver itself where it has the numbers; `advice` says who has to act and what to
do next. An alert about missing progress has the first text of `find_progress_issues`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from daggers.v1 import vitals_pb2

from chassis.durations import format_span
from fleet.fold.dagger import Dagger
from fleet.fold.fact_changes import TWO_DEATHS
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
    UNLAUNCHED,
    WAITS_FOR_TURN,
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
class HealthIssue:
    """Problem of a dagger."""

    code: str
    text: str
    """One sentence about its object."""
    since: datetime
    advice: Advice
    """Domain of who has to act, and the next step."""

    def to_proto(self, name: str) -> Warned:
        """Build the warning that the API has, of this dagger."""
        warned = Warned(
            code=self.code,
            object=self.advice.object,
            message=self.text,
            domain=self.advice.domain,
            next=self.advice.next_of(name),
        )
        warned.since.FromDatetime(self.since)
        return warned


def warnings(
    dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None, turn: str = ""
) -> list[Warned]:
    """Return the warnings of a dagger, what matters most first.

    hearing: as in `evidence_of`. turn: why its launch waits for its turn, as a clause; empty: it does not.
    """
    issues = find_progress_issues(dagger, watch, now=now, hearing=hearing)
    if turn:
        since = dagger.not_before or dagger.phase_time
        text = f"it waits for its turn to start, for {format_span(now - since)}: {turn}"
        others = [issue for issue in issues if issue.code != NOT_LAUNCHED]  # its question is answered
        issues = [_build_issue(WAITS_FOR_TURN, text, since), *others]
    if dagger.phase in _DRIVEN:
        evidence_time = now if hearing is not None else watch.heard_at or now
        issues += [
            *_of_its_work(dagger, watch, _evidence(watch, now, hearing), evidence_time),
            *_of_its_last_end(dagger, now),
            *_of_its_isolation(dagger),
        ]
    return [warning.to_proto(dagger.name) for warning in issues]


def find_progress_issues(
    dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None
) -> list[HealthIssue]:
    """Return why it does not run, or makes no progress, what explains most first. Arguments: as of
    `warnings`.
    """
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
"""Phases in which a driver is to make progress."""


def _evidence(watch: Watch, now: datetime, hearing: datetime | None) -> Evidence:
    """Return the evidence at `now`; while deaf, that at the newest heartbeat."""
    return evidence_of(watch, now if hearing is not None else watch.heard_at or now, hearing)


def _reasons(dagger: Dagger, evidence: Evidence, now: datetime) -> list[str]:
    return degradation_reasons(dagger, evidence, phase_age=now - dagger.phase_time, remote=True, limits=SHOWN)


def _of_its_ends(dagger: Dagger, now: datetime) -> Iterator[HealthIssue]:
    """Yield why it does not run, or not for long."""
    error, since = dagger.last_error, dagger.phase_time
    if dagger.phase == UNREACHABLE:
        host = dagger.driver.host if dagger.driver else "its host"
        text = f"neither its heartbeat nor its process on {host} answers, for {format_span(now - since)}"
        yield _build_issue(advice.UNREACHABLE, f"{text}; it may still run", since)
    elif dagger.phase == PENDING and error is None:
        if now - since >= SHOWN.start:
            text = f"no driver has been launched for {format_span(now - since)}; {UNLAUNCHED}"
            yield _build_issue(NOT_LAUNCHED, text, since)
    elif error is None:
        return
    elif dagger.phase == FAILED:
        text = f"it was given up: {_clause(error.detail)}"
        yield HealthIssue(error.reason, text, since, advice.advise_failed(error, dagger.last_good_version))
    elif dagger.phase == PENDING:
        yield HealthIssue(
            error.reason, f"it waits: {_clause(error.detail)}", since, advice.advise_waiting(error)
        )
    elif dagger.phase in (BACKING_OFF, STARTING) and dagger.ends:
        text = f"{advice.describe_ends(dagger.ends)}: {_clause(error.detail)}"
        yield HealthIssue(error.reason, text, since, advice.advise_ended(error, dagger.last_good_version))


def _of_its_last_end(dagger: Dagger, now: datetime) -> Iterator[HealthIssue]:
    """Yield why the driver before this one ended: one that ends again and again runs well in between."""
    ended = dagger.last_exit
    if dagger.phase in (RUNNING, DEGRADED) and dagger.ends and ended is not None and ended.HasField("error"):
        since = ended.time.ToDatetime(UTC)
        last = f"the last time {format_span(now - since)} ago"
        text = f"{advice.describe_ends(dagger.ends)}, {last}: {_clause(ended.error.detail)}; it runs again"
        yield HealthIssue(ended.error.reason, text, since, advice.advise_running_again(ended.error))


def _of_its_isolation(dagger: Dagger) -> Iterator[HealthIssue]:
    """Yield that it has a process of its own, because those that it shared died."""
    if dagger.isolated and dagger.suspected is not None:
        yield _build_issue(advice.ISOLATED, f"it has a process of its own: {TWO_DEATHS}", dagger.suspected)


def _of_its_host(evidence: Evidence, now: datetime) -> Iterator[HealthIssue]:
    """Yield that its host is overloaded, which explains what else is slow."""
    if evidence.heartbeat is not None:
        yield _build_issue(Reason.HOST_OVERLOADED, evidence.heartbeat.overload, now)


def _of_sinks(watch: Watch, evidence: Evidence, now: datetime) -> Iterator[HealthIssue]:
    for error in evidence.heartbeat.retrying if evidence.heartbeat else ():
        since = watch.retrying.get(error.reason, now)
        text = f"{_clause(error.detail)}, for {format_span(now - since)}; its rows wait, nothing is lost"
        yield HealthIssue(error.reason, text, since, advice.advise_retrying(error))


def _of_its_progress(reasons: list[str], evidence: Evidence, now: datetime) -> Iterator[HealthIssue]:
    """Yield that it is silent, or makes no progress."""
    for reason in reasons:
        if (span := _lasts(reason, evidence)) is not None:
            yield _build_issue(reason, _sentence(reason, evidence.heartbeat or Heartbeat(), span), now - span)


def _of_its_work(dagger: Dagger, watch: Watch, evidence: Evidence, now: datetime) -> Iterator[HealthIssue]:
    """Yield what a driver that is heard reports itself: what degrades it first, then its other warnings."""
    if silent(evidence, SHOWN):
        return
    heartbeat = evidence.heartbeat or Heartbeat()
    texts, of_query = driver_warnings(heartbeat), findings(heartbeat)
    reasons = [reason for reason in _reasons(dagger, evidence, now) if reason in texts] if texts else []
    for code in (*reasons, *(code for code in texts if code not in reasons)):
        if not (code == LATE_RECORDS and Reason.LATE_ROWS in texts):
            entry = ADVICE.get(code, OF_THE_QUERY if code in of_query else UNKNOWN_CODE)
            yield HealthIssue(code, texts[code], watch.warned.get(code, now), entry)
    if Reason.QUARANTINE_FLOOD not in texts:
        yield from _of_the_quarantine(recent(watch))
    if dagger.phase in (RUNNING, DEGRADED):
        yield from _of_its_input(dagger, watch, now)


def _of_its_input(dagger: Dagger, watch: Watch, now: datetime) -> Iterator[HealthIssue]:
    """Yield that no input comes any more, or more than it reads: as alerts judge it, by default limits."""
    limits = Limits()
    missed = pause(watch, requested_at=dagger.update_time, now=now, limits=limits)
    if missed is not None and missed.over_limit and missed.flow.steady(limits):
        yield _build_issue("NO_INPUT", str(missed), missed.since)
    if watch.growth is not None and watch.growth.too_much(limits):
        yield _build_issue("LAG_GROWING", str(watch.growth), watch.growth.first.time)


def _of_the_quarantine(lately: Recent) -> Iterator[HealthIssue]:
    """Yield what was set aside or refused in the last minutes, however little: too large a share is an
    alert.
    """
    if lately.kept_back_since is None:
        return
    for counts, went_on, noun, code in (
        (lately.quarantined - lately.refused, lately.rows_in, "records were quarantined", QUARANTINED),
        (lately.refused, lately.rows_out, "rows were refused by sinks", REFUSED),
    ):
        if count := counts.total():
            share = share_kept_back(count, went_on)
            reasons = ", ".join(reason for reason, _ in counts.most_common(3))
            text = (
                f"{count:,} {noun} in {format_span(lately.span)} ({share:.1%}): {reasons};"
                " each is kept, with why"
            )
            yield HealthIssue(QUARANTINED, text, lately.kept_back_since, ADVICE[code])


def _lasts(reason: str, evidence: Evidence) -> timedelta | None:
    """Return for how long a reason has held; None of a reason without a time of its own."""
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


def _build_issue(code: str, text: str, since: datetime) -> HealthIssue:
    return HealthIssue(code, text, since, ADVICE[code])


def _clause(sentence: str) -> str:
    return sentence.strip().removesuffix(".")
