"""Show what daggers do now: ages in place of instants, and short counts. Pure: now is an argument."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from daggers.v1 import dagger_pb2, spec_pb2, telemetry_pb2, vitals_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from chassis.durations import format_span, rough
from cli.output import error_text
from cli.output.visible import printable
from daggerclient.times import duration, iso
from daggerspec.limits import RECENT_S

NONE = "-"
COLUMNS = ("NAME", "PHASE", "FOR", "REC/S", "ROWS/S", "LAG", "WARNINGS")
"""Columns that fit into a hundred characters, with names of up to thirty."""
WIDE = (
    *COLUMNS, "COMMIT", "RESTARTS", "WATERMARK", "LATE", "QUARANTINED", "STATE", "MEMORY", "TEAM", "VERSION",
    "DESIRED", "HOST",
)  # fmt: skip
_NAMES = 5
"""Most daggers of a process that are named."""
_RECENTLY = f"in {format_span(timedelta(seconds=RECENT_S))}"


def row(dagger: dagger_pb2.Dagger, now: datetime, *, wide: bool) -> Sequence[str]:
    """Build a dagger's row of `COLUMNS`, or of `WIDE`."""
    vitals = dagger.vitals
    warned = list(dict.fromkeys(warned_.code for warned_ in vitals.warnings))
    more = f" +{len(warned) - 1}" if len(warned) > 1 else ""
    codes = ", ".join(warned) if wide or not warned else warned[0] + more
    narrow = (
        dagger.name,
        _phase(dagger),
        age(dagger.phase_time, now) if dagger.HasField("phase_time") else NONE,
        short(vitals.records_per_s) if vitals.HasField("records_per_s") else NONE,
        short(vitals.rows_per_s) if vitals.HasField("rows_per_s") else NONE,
        short(vitals.lag) if vitals.HasField("lag") else NONE,
        codes or NONE,
    )
    if not wide:
        return narrow
    return (
        *narrow,
        age(vitals.last_commit, now) if vitals.HasField("last_commit") else NONE,
        str(dagger.restarts),
        age(vitals.watermark, now) if vitals.HasField("watermark") else NONE,
        short(vitals.late_rows),
        short(sum(vitals.quarantined.values())),
        short(vitals.state_rows),
        size(vitals.memory_bytes),
        dagger.spec.team,
        str(dagger.version),
        dagger_pb2.Desired.Name(dagger.desired).removeprefix("DESIRED_"),
        dagger.driver.host or NONE,
    )


def describe_company(company: dagger_pb2.Company, process: str) -> str:
    """Describe with which daggers one shares a process, and why with no others."""
    names = list(company.daggers)
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    shared = f"{process}, shared with {', '.join(names[:_NAMES])}{more}" if names else f"{process}, alone"
    return f"{shared}: {printable(company.alone_because)}" if company.alone_because else shared


def facts(dagger: dagger_pb2.Dagger, now: datetime) -> Sequence[tuple[str, str]]:
    """Build the lines of a dagger's own page."""
    vitals = dagger.vitals
    phase = _phase(dagger)
    if dagger.HasField("phase_time"):
        phase += f", for {format_span(_since(dagger.phase_time, now))}"
    lines = [("phase", phase), ("restarts", str(dagger.restarts))]
    if dagger.driver.pid:
        lines.append(("started", "by the warm spare" if dagger.driver.spare else "cold"))
    if dagger.HasField("company"):
        lines.append(("process", describe_company(dagger.company, f"pid {dagger.driver.pid or NONE}")))
    if dagger.HasField("shadow"):
        lines.append(("shadow", _shadow(dagger.shadow, now)))
    if dagger.HasField("last_exit"):
        lines.append(("last exit", _exit(dagger.last_exit, now)))
    if not vitals.HasField("heard_time"):
        return lines
    recent_quarantined = vitals.recent_quarantined
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(vitals.quarantined.items()))
    return (
        *lines,
        ("heard", ago(vitals.heard_time, now)),
        ("records/s", short(vitals.records_per_s) if vitals.HasField("records_per_s") else NONE),
        ("rows/s", short(vitals.rows_per_s) if vitals.HasField("rows_per_s") else NONE),
        ("records, rows", f"{vitals.records:,}, {vitals.rows:,} since its launch"),
        ("lag", _lag(vitals)),
        ("watermark", ago(vitals.watermark, now) if vitals.HasField("watermark") else NONE),
        ("last commit", ago(vitals.last_commit, now) if vitals.HasField("last_commit") else NONE),
        ("late", _late(vitals, dagger.spec.late)),
        *(("freshness", _freshness(sink, vitals.freshness[sink], now)) for sink in sorted(vitals.freshness)),
        *(("waiting", _waiting(sink, vitals.spools[sink], now)) for sink in sorted(vitals.spools)),
        (
            "quarantined",
            (reasons or "0") + (f"; {recent_quarantined:,} {_RECENTLY}" if recent_quarantined else ""),
        ),
        ("state", f"{vitals.state_rows:,} open groups"),
        *(("rule", f"{rule.rule} is {describe_learning(rule)}") for rule in vitals.learning_rules),
        ("memory", size(vitals.memory_bytes)),
    )


def _lag(vitals: vitals_pb2.Vitals) -> str:
    """Format how many records are not read, and how far event time was behind when the driver was heard."""
    if not vitals.HasField("lag"):
        return "not known"
    records = f"{vitals.lag:,} records"
    if not vitals.HasField("watermark"):
        return records
    behind = vitals.heard_time.ToDatetime(UTC) - vitals.watermark.ToDatetime(UTC)
    return f"{records}, {rough(max(behind, timedelta(0)))}"


def _freshness(sink: str, fresh: telemetry_pb2.Freshness, now: datetime) -> str:
    """Format how long after the end of their windows a sink had its rows, in an hour, and what waits."""
    lines = []
    if fresh.rows:
        ages = ", ".join(
            f"{share} {_span(age_ms)}"
            for share, age_ms in (("p50", fresh.p50_ms), ("p95", fresh.p95_ms), ("p99", fresh.p99_ms))
        )
        lines.append(f"{ages} of {fresh.rows:,} rows in an hour")
    if fresh.HasField("waiting_since"):
        lines.append(f"the oldest that waits is of {ago(fresh.waiting_since, now)}")
    return f"{sink}: {'; '.join(lines)}"


def _waiting(sink: str, spool: telemetry_pb2.Spool, now: datetime) -> str:
    """Format what waits in the log of a sink, and how fast the sink takes it."""
    pace = (
        f"{short(spool.rows_per_second)} rows/s are written" if spool.rows_per_second else "none is written"
    )
    why = f"; {spool.error.reason}" if spool.HasField("error") else ""
    oldest = f", the oldest since {ago(spool.since, now)}" if spool.HasField("since") else ""
    waiting = f"{spool.rows:,} rows{f', {size(spool.bytes)}' if spool.bytes else ''}{oldest}"
    return f"{sink}: {waiting}; {'paused' if spool.paused else pace + why}"


def describe_learning(rule: telemetry_pb2.LearningRule) -> str:
    """Describe until when a rule has not enough past to be true of anything."""
    if rule.HasField("until"):
        return f"learning: compares windows from {iso(rule.until)} on"
    return "learning: there was no window yet"


def _span(span_ms: int) -> str:
    """Format a short time as seconds with a digit, `0.3 s`, and a longer one as people say it."""
    return f"{span_ms / 1000:.1f} s" if span_ms < 60_000 else rough(timedelta(milliseconds=span_ms))


def _late(vitals: vitals_pb2.Vitals, rule: spec_pb2.LateRows) -> str:
    """Format the late rows, the sum of windows that they are missing from, and what becomes of late rows."""
    where = f"; kept by {rule.keep}" if rule.keep else ""
    if rule.HasField("update"):
        where += f"; until {duration(rule.update)} behind a window its row is written again"
    rows, recent = vitals.late_rows, vitals.recent_late_rows
    if not vitals.HasField("late_windows"):
        return f"{rows:,} rows" + (f", {recent:,} {_RECENTLY}" if recent else "") + where
    lately = f"; {recent:,} from {vitals.recent_late_windows:,} {_RECENTLY}" if recent else ""
    return f"{rows:,} rows, missing from {vitals.late_windows:,} windows in all{lately}{where}"


def warning(warning_: vitals_pb2.HealthWarning) -> str:
    """Format a warning as a line: domain, problem, next action."""
    return f"{complaint(warning_)} {warning_.next}".rstrip()


def complaint(warning_: vitals_pb2.HealthWarning) -> str:
    """Format the domain and the problem of a warning."""
    whose = error_text.domain(warning_.domain) if warning_.domain else ""
    return f"{whose} {warning_.code}: {warning_.message.removesuffix('.')}.".lstrip()


def age(instant: Timestamp, now: datetime) -> str:
    """Format an age by its greatest unit: `4 min`."""
    return rough(_since(instant, now))


def ago(instant: Timestamp, now: datetime) -> str:
    """Format an instant relative to now: `4 min ago`, or `in 4 min`."""
    ahead = instant.ToDatetime(tzinfo=UTC) - now
    if ahead >= timedelta(seconds=1):
        return f"in {rough(ahead)}"
    return f"{age(instant, now)} ago"


def short(number: float) -> str:
    """Format a number with three significant digits: `0`, `0.25`, `9.1`, `1,234`, `12.3k`, `4.5M`."""
    if number >= 1e6:
        return f"{number / 1e6:.1f}M"
    if number >= 1e4:
        return f"{number / 1e3:.1f}k"
    if number >= 100 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 1 else f"{number:.2f}"


def size(memory: int) -> str:
    """Format bytes in MiB or GiB."""
    mib = memory / 2**20
    if not memory:
        return NONE
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"


def _since(instant: Timestamp, now: datetime) -> timedelta:
    return now - instant.ToDatetime(tzinfo=UTC)


def _phase(dagger: dagger_pb2.Dagger) -> str:
    return dagger_pb2.Phase.Name(dagger.phase)


def _shadow(shadow: dagger_pb2.DriverShadow, now: datetime) -> str:
    beside = f"version {shadow.version} runs beside its driver, generation {shadow.generation}"
    if not shadow.HasField("boundary"):
        return f"{beside}, begun {ago(shadow.time, now)}"
    return f"{beside}, and takes its place behind {iso(shadow.boundary)}"


def _exit(last_exit: dagger_pb2.DriverExit, now: datetime) -> str:
    code = f", code {last_exit.code}" if last_exit.HasField("code") else ""
    why = f": {error_text.sentence(last_exit.error)}" if last_exit.HasField("error") else ""
    return f"{ago(last_exit.time, now)}{code}{why}"
