"""Show what alert rules would have said of a range, in words and as a document."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from daggers.v1 import gateway_pb2, rules_pb2

from chassis.durations import format_measure, format_span
from cli.output import preview_text
from cli.output.printer import Printer
from daggerclient.times import iso
from daggerspec.alertrules import format_key

OPEN = "open"


@dataclass(frozen=True)
class Incident:
    """Incident that a rule would have begun for a key."""

    fired: rules_pb2.RuleObserved
    until: datetime | None
    """End of the window in which it was over; None for one that is open at the end of the range."""

    @property
    def key(self) -> str:
        """Its key in words; of all keys beyond those with an incident each, how many they are."""
        if self.fired.others:
            return f"{self.fired.others:,} further keys"
        return format_key(self.fired.key)

    def duration(self, end: datetime) -> timedelta:
        """Return how long it was, up to the end of what was judged."""
        return max((self.until or end) - self.fired.since.ToDatetime(tzinfo=UTC), timedelta())


def find_incidents(rule: gateway_pb2.PreviewRule) -> list[Incident]:
    """Pair each firing of a rule with its end, in the order of their begins."""
    still: dict[tuple[tuple[str, str], ...], rules_pb2.RuleObserved] = {}
    incidents: list[Incident] = []
    for one in rule.observed:
        key = tuple(sorted(one.key.items()))
        if one.state == rules_pb2.RULE_STATE_FIRED:
            still[key] = one
        elif one.state == rules_pb2.RULE_STATE_RESOLVED and key in still:
            incidents.append(Incident(still.pop(key), one.window.ToDatetime(tzinfo=UTC)))
    incidents += [Incident(one, None) for one in still.values()]
    return sorted(incidents, key=lambda incident: (incident.fired.since.ToMicroseconds(), incident.key))


def show(out: Printer, done: gateway_pb2.PreviewDone) -> None:
    """Print a sentence for each rule, a table of all incidents, and what was read."""
    rows = []
    for rule in done.rules.rules:
        incidents = find_incidents(rule)
        out.line(f"{rule.rule}: {_describe(rule, incidents, done)}")
        rows += [
            (
                rule.rule,
                incident.key or "-",
                iso(incident.fired.since),
                iso(incident.until) if incident.until else OPEN,
                incident.fired.summary,
            )
            for incident in incidents
        ]
    if rows:
        out.table(("RULE", "KEY", "SINCE", "UNTIL", "WHAT"), rows, empty="")
    for note in _notes(done):
        out.note(note)


def document(done: gateway_pb2.PreviewDone) -> dict[str, Any]:
    """Build the document of a test."""
    end = done.rules.until.ToDatetime(tzinfo=UTC)
    return {
        "rules": [
            {
                "rule": rule.rule,
                "fired": [
                    {
                        "key": dict(sorted(incident.fired.key.items())),
                        "others": incident.fired.others,
                        "since": iso(incident.fired.since),
                        "until": iso(incident.until) if incident.until else None,
                        "seconds": incident.duration(end).total_seconds(),
                        "summary": incident.fired.summary,
                    }
                    for incident in find_incidents(rule)
                ],
                "observed_left_out": rule.observed_left_out,
                "nearest": rule.nearest if rule.HasField("nearest") else None,
                "nearest_window": iso(rule.nearest_window) if rule.HasField("nearest_window") else None,
                "limit": rule.limit if rule.HasField("limit") else None,
            }
            for rule in done.rules.rules
        ],
        "until": iso(done.rules.until) if done.rules.HasField("until") else None,
        "read": preview_text.end_document(done),
    }


def _describe(
    rule: gateway_pb2.PreviewRule, incidents: Sequence[Incident], done: gateway_pb2.PreviewDone
) -> str:
    if incidents:
        end = done.rules.until.ToDatetime(tzinfo=UTC)
        times = "once" if len(incidents) == 1 else f"{len(incidents):,} times"
        total = sum((incident.duration(end) for incident in incidents), timedelta())
        return f"would have fired {times}, {format_span(total)} in all"
    if done.empty:
        return "no data matched: there is no whole window in the range"
    if rule.HasField("nearest"):
        nearest, limit = (format_measure(value, "number") for value in (rule.nearest, rule.limit))
        return f"never fired: nearest {nearest} of {limit}, at {iso(rule.nearest_window)}"
    return "never fired"


def _notes(done: gateway_pb2.PreviewDone) -> Iterator[str]:
    if not done.HasField("rules"):
        yield "the host that ran the query judges no rules over a range: it is of an earlier version"
    if done.rules.HasField("until"):
        yield f"{done.records:,} records were read; windows up to {iso(done.rules.until)} were judged"
    if done.records_left_out:
        yield f"{done.records_left_out:,} older records of the range were not read: they are too many"
    if done.reason == gateway_pb2.PreviewDone.REASON_TIME_LIMIT:
        yield "the time of a preview was over: what is behind it was not judged"
    for rule in done.rules.rules:
        if rule.observed_left_out:
            yield f"{rule.rule}: {rule.observed_left_out:,} further firings and ends are not shown"
