"""What a person is told of what is not as it should be: a sentence about its object, who has to act, and what
to do next. Pure.

`fleet.health` judges, and the driver itself where it has the numbers. These are the words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from daggers.v1 import events_pb2, vitals_pb2

from chassis.durations import spoken
from fleet.dagger import Dagger
from fleet.health import (
    SHOWN,
    Evidence,
    Heartbeat,
    Reason,
    degradation_reasons,
    driver_warnings,
    share_kept_back,
    silent,
)
from fleet.phases import BACKING_OFF, DEGRADED, FAILED, PENDING, RUNNING, STARTING, UNREACHABLE
from fleet.watch import Recent, Watch, evidence_of, recent

Domain = events_pb2.ErrorDomain
Warned = vitals_pb2.HealthWarning

LATE_RECORDS: Final = "LATE_RECORDS"
"""The code of a driver's warning: rows came late, however few."""
QUARANTINED: Final = "QUARANTINED"
"""Records were set aside, or rows refused, however few."""
_USER, _EXTERNAL, _INTERNAL, _UNKNOWN = (
    events_pb2.ERROR_DOMAIN_USER,
    events_pb2.ERROR_DOMAIN_EXTERNAL,
    events_pb2.ERROR_DOMAIN_INTERNAL,
    events_pb2.ERROR_DOMAIN_UNSPECIFIED,
)


@dataclass(frozen=True, slots=True)
class Advice:
    """What is known of a code wherever it is told."""

    object: str
    """What it is about, where the warning itself does not say."""
    domain: Domain.ValueType
    """Who has to act."""
    next: str
    """What to do next."""


ADVICE: Final[Mapping[str, Advice]] = {
    Reason.START_TIMEOUT: Advice(
        "driver", _INTERNAL, "Read `daggers logs {name}`: it says how far the start came."
    ),
    Reason.NO_HEARTBEAT: Advice(
        "driver",
        _EXTERNAL,
        "See whether its host runs and reaches Kafka; if it lasts, `daggers restart {name}`.",
    ),
    Reason.BATCH_STUCK: Advice("batch", _UNKNOWN, "Read `daggers logs {name}` and its Spark UI."),
    Reason.NO_PROGRESS: Advice(
        "source", _EXTERNAL, "See whether the Kafka of its streams answers; `daggers logs {name}` says more."
    ),
    Reason.SINK_RETRYING: Advice(
        "sink", _EXTERNAL, "Repair the sink or its secret: the driver goes on by itself."
    ),
    Reason.REFERENCE_STALE: Advice(
        "reference table", _EXTERNAL, "Put the file back as it was: it is read anew at its refresh time."
    ),
    Reason.LATE_ROWS: Advice(
        "input", _USER, "Raise its watermark_delay, or correct the clock of the producer that is named."
    ),
    LATE_RECORDS: Advice("input", _USER, "Raise its watermark_delay if rows are to wait longer."),
    Reason.NO_OUTPUT: Advice(
        "windows", _USER, "See which records move event time: `daggers get {name}` says where it stands."
    ),
    Reason.QUARANTINE_FLOOD: Advice(
        "quarantine", _EXTERNAL, "Read `daggers quarantine list {name}`: it shows some, and why."
    ),
    QUARANTINED: Advice(
        "quarantine", _EXTERNAL, "Read `daggers quarantine list {name}`: it shows each, and why."
    ),
    "STREAM_UNREACHABLE": Advice(
        "source", _EXTERNAL, "Bring its Kafka back: the driver goes on where it was, nothing is lost."
    ),
    "UNREACHABLE": Advice(
        "driver",
        _EXTERNAL,
        "Bring its host or its network back: nothing is launched in its place until it is proven gone.",
    ),
}
"""By code: every reason, and the warnings that ask for something."""
_UNKNOWN_CODE: Final = Advice("", _UNKNOWN, "")
_WHEN_FAILED: Final[Mapping[int, str]] = {
    _USER: "Correct the query or the file, then `daggers apply -f FILE`.",
    _EXTERNAL: "Repair what it names, then `daggers start {name}`.",
    _INTERNAL: "Read `daggers logs {name}`, and report it; `daggers start {name}` tries again.",
}


def warnings(dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None) -> list[Warned]:
    """What is not as it should be, what matters most first. `hearing`: as in `evidence_of`."""
    warned = list(_of_its_ends(dagger, now))
    if dagger.phase in (STARTING, RUNNING, DEGRADED):
        # Deaf, nothing newer is known than what was heard last.
        judged_at = now if hearing is not None else watch.heard or now
        warned += _of_its_driver(dagger, watch, evidence_of(watch, judged_at, hearing), now)
    return warned


def _of_its_ends(dagger: Dagger, now: datetime) -> Iterator[Warned]:
    """Why it does not run, or not for long."""
    error = dagger.last_error
    if dagger.phase == UNREACHABLE:
        host = dagger.driver.host if dagger.driver else "its host"
        span = spoken(now - dagger.phase_time)
        text = f"neither its heartbeat nor its process on {host} answers, for {span}; it may still run"
        yield _warned(dagger, "UNREACHABLE", text, dagger.phase_time)
    elif error is not None and dagger.phase == FAILED:
        text = f"it was given up: {_clause(error.detail)}"
        advice = Advice("driver", error.domain, _WHEN_FAILED.get(error.domain, _WHEN_FAILED[_INTERNAL]))
        yield _warned(dagger, error.reason, text, dagger.phase_time, advice)
    elif error is not None and dagger.phase == PENDING:
        advice = Advice("launch", error.domain, "It is launched as soon as that is so.")
        yield _warned(dagger, error.reason, f"it waits: {_clause(error.detail)}", dagger.phase_time, advice)
    elif error is not None and dagger.phase in (BACKING_OFF, STARTING):
        ends = dagger.attempt + (dagger.phase == BACKING_OFF and dagger.not_before is None)
        times = {0: "once", 1: "once", 2: "twice"}.get(ends, f"{ends} times")
        advice = Advice("driver", error.domain, "It is launched again by itself; read `daggers logs {name}`.")
        text = f"its driver has ended {times}: {_clause(error.detail)}"
        yield _warned(dagger, error.reason, text, dagger.phase_time, advice)


def _of_its_driver(dagger: Dagger, watch: Watch, evidence: Evidence, now: datetime) -> Iterator[Warned]:
    """What is wrong with a driver that may live: the judgement, then what it warns of beside that."""
    heartbeat = evidence.heartbeat or Heartbeat()
    told = driver_warnings(heartbeat)
    reasons = degradation_reasons(
        dagger, evidence, phase_age=now - dagger.phase_time, remote=True, limits=SHOWN
    )
    for reason in reasons:
        if reason == Reason.SINK_RETRYING:
            for error in heartbeat.retrying:
                yield _of_a_sink(dagger, error, watch.retrying.get(error.reason, now), now)
        elif reason in told:
            yield _warned(dagger, reason, told[reason], watch.warned.get(reason, now))
        elif (span := _lasts(reason, evidence)) is not None:
            yield _warned(dagger, reason, _sentence(reason, heartbeat, span), now - span)
    if not silent(evidence, SHOWN):
        for code, text in told.items():
            if code not in reasons and not (code == LATE_RECORDS and Reason.LATE_ROWS in told):
                yield _warned(dagger, code, text, watch.warned.get(code, now))
        if Reason.QUARANTINE_FLOOD not in told:
            yield from _of_the_quarantine(dagger, recent(watch))


def _of_a_sink(dagger: Dagger, error: events_pb2.DaggerError, since: datetime, now: datetime) -> Warned:
    sink, _, _ = error.detail.partition(": ")
    text = f"{_clause(error.detail)}, for {spoken(now - since)}; its rows wait, nothing is lost"
    advice = Advice(sink, error.domain, ADVICE[Reason.SINK_RETRYING].next)
    return _warned(dagger, error.reason, text, since, advice)


def _of_the_quarantine(dagger: Dagger, lately: Recent) -> Iterator[Warned]:
    """What was kept back in the last minutes, however little: a share that is too great is an alert."""
    if lately.kept_back_since is None:
        return
    for counts, went_on, what, domain in (
        (lately.quarantined - lately.refused, lately.rows_in, "records were set aside", _EXTERNAL),
        (lately.refused, lately.rows_out, "rows were refused by sinks", _USER),
    ):
        if count := counts.total():
            share = share_kept_back(count, went_on)
            reasons = ", ".join(reason for reason, _ in counts.most_common(3))
            text = (
                f"{count:,} {what} in {spoken(lately.span)} ({share:.1%}): {reasons}; each is kept, with why"
            )
            advice = Advice("quarantine", domain, ADVICE[QUARANTINED].next)
            yield _warned(dagger, QUARANTINED, text, lately.kept_back_since, advice)


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
    lasting = spoken(span)
    if reason == Reason.BATCH_STUCK:
        took = spoken(timedelta(milliseconds=heartbeat.batch_duration_ms))
        return f"batch {heartbeat.running_batch_id} has run for {lasting} so far, the last one took {took}"
    if reason == Reason.NO_PROGRESS:
        return f"no batch was committed and the source was not found empty for {lasting}; nothing is lost"
    return f"its driver has sent no heartbeat for {lasting}; it may still run"


def _warned(dagger: Dagger, code: str, text: str, since: datetime, advice: Advice | None = None) -> Warned:
    known = advice or ADVICE.get(code, _UNKNOWN_CODE)
    warned = Warned(
        code=code,
        object=known.object,
        message=text,
        domain=known.domain,
        next=known.next.format(name=dagger.name),
    )
    warned.since.FromDatetime(since)
    return warned


def _clause(sentence: str) -> str:
    return sentence.strip().removesuffix(".")
