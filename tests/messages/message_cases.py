"""Messages that an on-call may get, one of each kind: what fires, changes, is held back, told next and over.

Their events are as the monitor decides them; what it finds is as its conditions word it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1 import alerts_pb2, events_pb2, gateway_pb2, spec_pb2, telemetry_pb2

from fleet import Dagger
from fleet.alerts.alert import (
    HOST,
    PLATFORM,
    STORE,
    Acknowledgement,
    Alert,
    Condition,
    GroupTurn,
    Notify,
    Span,
    acknowledge,
    dedup_key_of,
    evolve,
)
from fleet.alerts.ending_silences import EndingSilence
from fleet.alerts.routing.matching import parse_matcher
from fleet.alerts.routing.silences import Silence
from fleet.conditions.finding import Finding, Measure
from fleet.health import advice, watch
from fleet.health.watch import Watch
from health_monitor.alerts.alert import HeldFinding, Policy, decide
from health_monitor.alerts.outage import Reach, kafka_away
from health_monitor.observe.traces import Trace, build_chart
from health_monitor.page import Page
from health_monitor.silence_page import build_page

NOON: Final = datetime(2026, 1, 31, 2, 57, 12, tzinfo=UTC)
"""Time at which alerts fire: three in the morning."""
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
PORTAL: Final = "https://daggers.example.org"
ROWS_PER_S: Final = 40
_HOSTILE: Final = "<!channel> & </td><b>*bold*</b> 😀\u202e\x07 https://evil.example/x "


@dataclass(frozen=True, slots=True)
class MessageCase:
    """A message of one kind."""

    name: str
    page: Page


def list_cases() -> list[MessageCase]:
    """List all kinds of messages."""
    return [MessageCase(name, page) for name, page in _cases().items()]


def _cases() -> dict[str, Page]:
    failed = _fire(alerts_pb2.ALERT_CONDITION_FAILED, _find_failure())
    stuck = _fire(alerts_pb2.ALERT_CONDITION_NO_PROGRESS, _find_stall())
    rule = _fire_rule({"tag_api": "pay"})
    late = _fire(alerts_pb2.ALERT_CONDITION_LATE_ROWS, _find_late_rows())
    kafka = _fire(alerts_pb2.ALERT_CONDITION_KAFKA_AWAY, _find_kafka_away(), PLATFORM)
    return {
        "rule-fires": _page(rule),
        "rule-repeats": _page(_with_past(rule), after=245 * MINUTE),
        "rule-further-keys": _page(_fire_rule({}, _FURTHER)),
        "rule-absent": _page(
            _fire_rule({"tag_api": "search"}, "no row since 2026-01-31T02:45:00Z", "silent")
        ),
        "rule-over": _page(_resolve(rule, "api_errors is over: error_rate 0.011, requests 4102")),
        "failed": _page(failed),
        "no-progress": _page(stuck, _trace(stops=True)),
        "no-progress-over": _page(_resolve(stuck, "it makes progress")),
        "lag-growing": _page(
            _fire(alerts_pb2.ALERT_CONDITION_LAG_GROWING, _find_growing_lag()), _trace(lag=900)
        ),
        "late-rows": _page(late, _trace(late=12)),
        "freshness": _page(
            _fire(alerts_pb2.ALERT_CONDITION_FRESHNESS_MISSED, _find_old_rows()), _trace(fresh=340)
        ),
        "sink-behind": _page(
            _fire(alerts_pb2.ALERT_CONDITION_SINK_BEHIND, _find_sink_behind()), _trace(stops=True)
        ),
        "waiting-for-executors": _page(
            _fire(alerts_pb2.ALERT_CONDITION_WAITING_FOR_EXECUTORS, _find_no_executors())
        ),
        "kafka-away": _page(kafka),
        "kafka-away-over": _page(_resolve(kafka, "Kafka takes records again")),
        "store-away": _page(
            _fire(
                alerts_pb2.ALERT_CONDITION_STORE_AWAY, _find_store_away(), f"{STORE}influx.example.org:8086"
            )
        ),
        "host-away": _page(_fire(alerts_pb2.ALERT_CONDITION_HOST_AWAY, _find_host_away(), f"{HOST}spark-07")),
        "group": _group(40, resolved=2, number=3),
        "group-over": _group(0, resolved=40, number=4),
        "acknowledged": _page(_acknowledge(failed), after=245 * MINUTE),
        "acknowledged-at-pagerduty": _page(_acknowledge(failed), is_acknowledgement=True),
        "escalated": _group(1, receiver="pricing/pagerduty"),
        "held-back": _page(failed, after=61 * MINUTE, released_at=NOON + 60 * MINUTE),
        "attempted-again": _page(failed, attempt=3, after=5 * MINUTE),
        "receiver-test": _receiver_test(),
        "silence-ends": _ending_silence(),
        "hostile": _page(_fire_rule({"tag_api": _HOSTILE * 3, "tag_city": "7"}, (_HOSTILE * 12)[:500])),
    }


_FURTHER: Final = (
    "api_errors is true of 214 further keys, as checkout/berlin 0.41; checkout/hamburg 0.38; pay/berlin 0.33;"
    " pay/none 0.31; search/berlin 0.29; search/bremen 0.28; pay/bremen 0.25; cart/berlin 0.21;"
    " cart/none 0.2; cart/bremen 0.19"
)


# ---- What is found -----------------------------------------------------------------------------------------


def _find_failure() -> Finding:
    error = events_pb2.DaggerError(reason="SECRET_MISSING", domain=events_pb2.ERROR_DOMAIN_EXTERNAL)
    summary = (
        "it was given up: SECRET_MISSING: sinks[0].postgres.password: the file /run/secrets/pg is not there"
    )
    return Finding(True, summary, NOON - 12 * SECOND, advice=advice.advise_failed(error, 6))


def _find_stall() -> Finding:
    summary = (
        "no progress for 2 min 43 s, it retries a sink: SINK_UNREACHABLE: orders: influx.example.org:8086"
        " refuses connections"
    )
    error = events_pb2.DaggerError(reason="SINK_UNREACHABLE", domain=events_pb2.ERROR_DOMAIN_EXTERNAL)
    owner = advice.advise_retrying(error)
    return Finding(True, summary, NOON - 163 * SECOND, measure=Measure(163, 120, "s"), advice=owner)


def _find_late_rows() -> Finding:
    summary = "3.0% of its rows in the last 5 min came late: clock of producer bookings-3 is 14 min behind"
    return Finding(True, summary, NOON - 5 * MINUTE, measure=Measure(0.03, 0.01, "share"))


def _find_growing_lag() -> Finding:
    summary = "its lag grew by 54,000 to 54,900 records in 10 min: 18.4% of what came was not read"
    return Finding(True, summary, NOON - 10 * MINUTE, measure=Measure(0.184, 0.05, "share"))


def _find_old_rows() -> Finding:
    summary = "its rows came to orders 24.4 s after the end of their window, 95 of 100, and may take 10 s"
    return Finding(True, summary, NOON - 4 * MINUTE, measure=Measure(24.4, 10, "s"))


def _find_sink_behind() -> Finding:
    summary = (
        "orders is 5 min 12 s behind, 12,480 rows wait in its log: REFUSED: orders: 429 Too Many Requests"
    )
    return Finding(True, summary, NOON - 312 * SECOND, measure=Measure(312, 300, "s"))


def _find_no_executors() -> Finding:
    summary = "its Spark master gives it no executor: others have them, or none is there"
    return Finding(True, summary, NOON - 35 * SECOND, measure=Measure(2, 0, "count"))


def _find_kafka_away() -> Finding:
    reach = Reach().writes(NOON - 45 * SECOND).misses(NOON - 41 * SECOND).misses(NOON - 20 * SECOND)
    finding = kafka_away(reach, now=NOON, limit=30 * SECOND, count_daggers=lambda: 40)
    assert finding is not None
    return finding


def _find_store_away() -> Finding:
    summary = (
        "40 daggers wait for influx.example.org:8086, which takes no rows: SINK_UNREACHABLE: orders: refuses"
        " connections"
    )
    return Finding(True, summary, NOON - 2 * MINUTE, measure=Measure(40, 1, "count"))


def _find_host_away() -> Finding:
    summary = (
        "none of the 12 daggers on spark-07 has been heard for 41 s: the host is away, or its network is"
    )
    return Finding(True, summary, NOON - 41 * SECOND, measure=Measure(41, 30, "s"))


# ---- Alerts ------------------------------------------------------------------------------------------------


def _dagger(name: str) -> Dagger:
    return Dagger(
        name=name,
        spec=spec_pb2.DaggerSpec(team="pricing", cluster="blue"),
        warnings=(),
        version=7,
        desired=gateway_pb2.DESIRED_RUNNING,
        phase=gateway_pb2.RUNNING,
        phase_time=NOON,
        sequence=50,
        create_sequence=1,
        create_time=NOON,
        update_time=NOON,
        generation=41,
    )


def _change() -> alerts_pb2.LastChange:
    change = alerts_pb2.LastChange(revision=7, actor="user:ada@example.org")
    change.time.FromDatetime(NOON - 4 * MINUTE)
    return change


def _fire(condition: Condition, finding: Finding, name: str = "completed_bookings") -> Alert:
    """Fire an alert of a dagger, or of what is none."""
    is_dagger = "/" not in name and name != PLATFORM
    fired = decide(
        Alert(dagger=name, condition=condition, incident=2),
        HeldFinding(finding, NOON - 60 * MINUTE, finding.since),
        dagger=_dagger(name) if is_dagger else None,
        receivers=["pricing/slack"],
        now=NOON,
        policy=Policy(),
        change=_change() if is_dagger else None,
    )
    assert fired is not None
    return evolve(Alert(dagger=name, condition=condition, incident=2), fired, NOON)


def _fire_rule(
    key: dict[str, str], summary: str = "pay: 8.1% of 4,210 calls fail", rule: str = "api_errors"
) -> Alert:
    is_absent = rule == "silent"
    meta = alerts_pb2.AlertMeta(
        dagger="api_calls", condition=alerts_pb2.ALERT_CONDITION_RULE, incident=3, rule=rule, key=key,
        values={} if is_absent else {"error_rate": "0.081", "requests": "4210"},
    )  # fmt: skip
    fired = alerts_pb2.AlertFired(
        meta=meta,
        dedup_key=dedup_key_of(meta),
        severity=alerts_pb2.ALERT_SEVERITY_CRITICAL,
        summary=summary,
        generation=41,
        team="pricing",
        receivers=["pricing/slack"],
        next="Read https://wiki.example.org/api-errors",
        last_change=_change(),
    )
    if key and not is_absent:
        fired.value, fired.limit, fired.unit = 0.081, 0.05, "number"
    fired.since.FromDatetime(NOON - 72 * SECOND)
    before = Alert(dagger="api_calls", condition=meta.condition, rule=rule, key=key, incident=2)
    return evolve(before, fired, NOON)


def _with_past(alert: Alert) -> Alert:
    """Return the alert as one that was open four times in the week before."""
    begins = (NOON - timedelta(days=day, hours=3 * day) for day in (6, 4, 2, 1))
    return alert._replace(past=tuple(Span(begin, begin + 40 * MINUTE) for begin in begins))


def _resolve(alert: Alert, summary: str) -> Alert:
    resolved = alerts_pb2.AlertResolved(meta=alert.meta(), summary=summary)
    resolved.until.FromDatetime(NOON + 12 * MINUTE)
    return evolve(alert, resolved, NOON + 13 * MINUTE)


def _acknowledge(alert: Alert) -> Alert:
    given = Acknowledgement(
        author="user:ada@example.org",
        time=NOON + MINUTE,
        comment="the secret is being rotated",
        until=NOON + 360 * MINUTE,
    )
    return acknowledge(alert, alert.incident, given)


# ---- Pages -------------------------------------------------------------------------------------------------


def _page(
    alert: Alert,
    trace: tuple[Trace, Watch] | None = None,
    *,
    after: timedelta = 2 * SECOND,
    attempt: int = 1,
    released_at: datetime | None = None,
    is_acknowledgement: bool = False,
) -> Page:
    """Build the page of a notice that is sent some time after the alert fired, or was over."""
    notify = Notify(
        alert, "pricing/slack", attempt, released_at=released_at, is_acknowledgement=is_acknowledgement
    )
    sent_at = (alert.resolved_at or NOON) + after
    return Page(notify, PORTAL, sent_at, build_chart(alert, *(trace or (None, None)), sent_at))


def _trace(
    *, lag: int = 0, late: int = 0, fresh: int = 0, stops: bool = False, beats: int = 120
) -> tuple[Trace, Watch]:
    """Build the trace of a dagger over twenty minutes, in the second half of which it falls behind."""
    trace, current = Trace(), watch.begin(NOON - beats * 10 * SECOND, 41)
    records = written = behind = late_rows = 0
    for number in range(1, beats + 1):
        now, bad = NOON - (beats - number) * 10 * SECOND, number > beats // 2
        stopped = stops and number > beats * 3 // 4
        wave = 1 + 0.2 * ((number * 7) % 5 - 2) / 2
        records += round(10 * ROWS_PER_S * wave)
        written += 0 if stopped else round(10 * ROWS_PER_S * wave / 4)
        behind += lag if bad else 0
        late_rows += late if bad else late // 10
        heartbeat = telemetry_pb2.Heartbeat(
            dagger="completed_bookings",
            generation=41,
            rows_in=records,
            rows_out=[written],
            late_rows=late_rows,
            lag={"bookings-0": behind + number % 7 * 40},
        )
        heartbeat.time.FromDatetime(now)
        if fresh:
            heartbeat.freshness["orders"].recent_p95_ms = 4_000 + (
                fresh * (number - beats // 2) if bad else 0
            )
        if stopped:
            heartbeat.spools["orders"].since.FromDatetime(NOON - beats // 4 * 10 * SECOND)
        current = watch.hear(current, heartbeat, now)
        trace.add(current)
    return trace, current


def _group(firing: int, *, resolved: int = 0, number: int = 1, receiver: str = "pricing/slack") -> Page:
    """Build the page of a group of daggers that failed."""
    own = alerts_pb2.AlertDestination(revision=4, path=[0], receivers=["pricing/slack"])
    own.escalate_to.append("pricing/pagerduty")
    own.escalate_after.FromTimedelta(15 * MINUTE)

    def fire(index: int) -> Alert:
        alert = _fire(alerts_pb2.ALERT_CONDITION_FAILED, _find_failure(), f"bookings_{index:02}")
        assert alert.fired is not None
        alert.fired.destinations.append(own)
        return alert

    alerts = [fire(index) for index in range(firing + resolved)]
    over = tuple(_resolve(alert, "it runs again") for alert in alerts[firing:])
    turn = GroupTurn(
        team="pricing",
        revision=4,
        path=(0,),
        labels={"condition": "failed"},
        begin=NOON,
        number=number,
        time=NOON,
        first_attempt=NOON,
        firing=tuple(alerts[:firing]),
        resolved=over,
    )
    first: Sequence[Alert] = (*turn.firing, *turn.resolved)
    return Page(Notify(first[0], receiver, 1, group=turn), PORTAL, NOON + 15 * MINUTE)


def _ending_silence() -> Page:
    """Build the page of a silence that holds back five daggers that failed."""
    begin, end = NOON - 47 * MINUTE - 12 * SECOND, NOON + 12 * MINUTE + 48 * SECOND
    matchers = map(parse_matcher, ("dagger=bookings_*", "severity!=critical"))
    silence = Silence(
        id="pricing/1f3c9a0b52", matchers=tuple(matchers), begin=begin, end=end,
        author="user:ada@example.org", reason="new disk on host 2", team="pricing",
    )  # fmt: skip
    stuck = alerts_pb2.ALERT_CONDITION_NO_PROGRESS
    alerts = tuple(_fire(stuck, _find_stall(), f"bookings_{index}") for index in range(5))
    notify = Notify(alerts[0], "pricing/slack", 1, ending=EndingSilence(silence, alerts))
    return build_page(notify, PORTAL, NOON, "")


def _receiver_test() -> Page:
    alert = Alert(
        dagger="team/pricing", condition=alerts_pb2.ALERT_CONDITION_RULE, rule="receiver test", incident=1
    )
    fired = alerts_pb2.AlertFired(
        meta=alert.meta(),
        dedup_key="daggers/team/pricing/test/1",
        severity=alerts_pb2.ALERT_SEVERITY_WARNING,
        summary="This is a test of user:ada@example.org: nothing is wrong, and nobody has to act.",
        team="pricing",
    )
    fired.since.FromDatetime(NOON)
    return Page(
        Notify(alert._replace(fired=fired, fired_at=NOON), "pricing/slack", 1, is_test=True), PORTAL, NOON
    )
