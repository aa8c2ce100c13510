"""Routes, silences, inhibition, groups on a simulated clock: Alertmanager's acceptance tests told again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from daggers.v1 import alerts_pb2, events_pb2
from hypothesis import given as for_all
from hypothesis import strategies as st

from fleet.alerts.alert import Alert, evolve
from fleet.alerts.routing import escalation, grouping, silences
from fleet.alerts.routing.grouping import Notice
from fleet.alerts.routing.inhibition import CAUSES, Inhibition, find_causes
from fleet.alerts.routing.labels import list_labels
from fleet.alerts.routing.matching import Matcher, parse_matcher
from fleet.alerts.routing.routes import NEVER, Destination, Route, find_destinations
from fleet.alerts.routing.silences import Silence
from fleet.alerts.routing.windows import parse_window

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
"""A Monday."""
SECOND = timedelta(seconds=1)
Labels = Mapping[str, str]


def matchers(*texts: str) -> tuple[Matcher, ...]:
    return tuple(map(parse_matcher, texts))


def route(**changed: object) -> Route:
    """Build a route with Alertmanager's times of its tests: a second each."""
    fields = {
        "receivers": ("r",),
        "group_by": (),
        "group_wait": SECOND,
        "group_interval": SECOND,
        "repeat_interval": NEVER,
    }
    return Route(**{**fields, **changed})  # type: ignore[arg-type]


@dataclass
class Clockwork:
    """A monitor that looks ten times a second, and what its receivers were sent."""

    tree: Route
    silences: list[Silence] = field(default_factory=list)
    rules: Sequence[Inhibition] = ()
    now: float = 0.0
    """Seconds since noon."""
    groups: grouping.Groups = field(default_factory=dict)
    fails: set[str] = field(default_factory=set)
    """Receivers that take nothing."""
    sent: list[tuple[float, str, str, str]] = field(default_factory=list)
    """Time, receiver, incidents that fire, and those that are over."""
    spans: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)
    """Begin and end of each incident; datetime.max while it is open."""
    labels: dict[str, Labels] = field(default_factory=dict)

    @property
    def time(self) -> datetime:
        return NOON + timedelta(seconds=self.now)

    @property
    def open(self) -> dict[str, Labels]:
        return self.open_at(self.time)

    def open_at(self, instant: datetime) -> dict[str, Labels]:
        return {
            name: self.labels[name] for name, (begin, end) in self.spans.items() if begin <= instant < end
        }

    def fire(self, incident: str, **labels: str) -> None:
        self.labels[incident] = labels
        self.spans[incident] = self.time, datetime.max.replace(tzinfo=UTC)
        for destination in find_destinations(self.tree, labels, fallback=Route()):
            self.groups = grouping.join(self.groups, destination, labels, incident, self.time)

    def resolve(self, incident: str) -> None:
        self.spans[incident] = self.spans[incident][0], self.time
        self.groups = grouping.resolve(self.groups, self.groups, incident, self.time)

    def end_silences(self) -> None:
        self.silences = [replace(each, end=min(each.end, self.time)) for each in self.silences]

    def is_held(self, incident: str, instant: datetime) -> bool:
        silence = silences.find_silence(self.silences, self.labels[incident], instant)
        return silence is not None or incident in find_causes(self.open_at(instant), self.rules)

    def run_until(self, end: float) -> None:
        """Look until `end`."""
        while self.now < end - 1e-9:
            self.now = round(self.now + 0.1, 3)
            self.look()

    def look(self) -> None:
        for key, group in list(self.groups.items()):
            for receiver in group.destination.receivers:
                current = self.groups.get(key)
                if current is None or receiver in self.fails:
                    continue
                notice = grouping.plan(current, receiver, self.time, is_held=self.is_held)
                if notice is None:
                    continue
                names_of = (" ".join(sorted(names)) for names in (notice.firing, notice.resolved))
                self.sent.append((self.now, receiver, *names_of))  # type: ignore[arg-type]
                self.groups = grouping.record(self.groups, key, receiver, notice)


# ---- Groups: send_test.go ----------------------------------------------------------------------------------


def test_repeat() -> None:
    """Tell of an incident that goes on at the interval, and not in between."""
    clock = Clockwork(route(repeat_interval=2 * SECOND))
    clock.fire("a")
    clock.run_until(6.5)

    assert clock.sent == [(1, "r", "a", ""), (3, "r", "a", ""), (5, "r", "a", "")]


def test_retry() -> None:
    """Let a receiver that takes nothing delay no other, and tell it once it takes something."""
    clock = Clockwork(route(receivers=("r", "s")), fails={"s"})
    clock.fire("a")
    clock.run_until(2.5)
    clock.fails.clear()
    clock.run_until(4)

    assert clock.sent == [(1, "r", "a", ""), (2.6, "s", "a", "")]


def test_batching() -> None:
    """Tell what comes while a group waits with the first, and what comes later with the next look."""
    clock = Clockwork(route(group_interval=3 * SECOND))
    clock.fire("a")
    clock.run_until(0.5)
    clock.fire("b")
    clock.run_until(2)
    clock.fire("c")
    clock.run_until(3)
    clock.fire("d")
    clock.run_until(9)

    assert clock.sent == [(1, "r", "a b", ""), (4, "r", "a b c d", "")]


def test_resolved() -> None:
    clock = Clockwork(route())
    clock.fire("a")
    clock.fire("b")
    clock.run_until(1.5)
    clock.resolve("a")
    clock.run_until(2.5)
    clock.resolve("b")
    clock.run_until(5)

    assert clock.sent == [(1, "r", "a b", ""), (2, "r", "b", "a"), (3, "r", "", "b")]
    assert clock.groups == {}


def test_what_begins_and_ends_between_two_looks_is_told_to_nobody() -> None:
    clock = Clockwork(route(group_wait=2 * SECOND))
    clock.fire("a")
    clock.run_until(1)
    clock.resolve("a")
    clock.run_until(10)
    clock.fire("b")
    clock.run_until(13)

    assert clock.sent == [(12, "r", "b", "")]


def test_groups_are_told_apart_by_their_labels() -> None:
    clock = Clockwork(route(group_by=("team",)))
    for number, team in enumerate(["pricing", "supply", "pricing"]):
        clock.fire(f"i{number}", team=team)
    clock.run_until(3)

    assert clock.sent == [(1, "r", "i0 i2", ""), (1, "r", "i1", "")]


def test_a_group_that_ended_begins_anew_with_its_wait() -> None:
    clock = Clockwork(route(group_wait=2 * SECOND))
    clock.fire("a")
    clock.run_until(3.5)
    clock.resolve("a")
    clock.run_until(10)
    clock.fire("b")
    clock.run_until(15)

    assert clock.sent == [(2, "r", "a", ""), (4, "r", "", "a"), (12, "r", "b", "")]


def test_what_was_over_before_its_notice_was_recorded_is_told_to_be_over() -> None:
    group = route()
    destination = find_destinations(group, {}, fallback=Route())[0]
    groups = grouping.join({}, destination, {}, "a", NOON)
    [key] = groups
    sent = grouping.plan(groups[key], "r", NOON + SECOND, is_held=lambda *_: False)
    assert sent is not None
    groups = grouping.resolve(groups, [key], "a", NOON + 1.1 * SECOND)
    groups = grouping.join(groups, destination, {}, "b", NOON + 1.2 * SECOND)
    groups = grouping.record(groups, key, "r", sent)

    after = grouping.plan(groups[key], "r", NOON + 3 * SECOND, is_held=lambda *_: False)
    assert after == Notice(NOON + 3 * SECOND, frozenset({"b"}), frozenset({"a"}))


# ---- Silences: silence_test.go -----------------------------------------------------------------------------


def silence(begin: float, end: float, *texts: str, **fields: str) -> Silence:
    texts_of = {"id": "s", "author": "user:ada", "reason": "maintenance", **fields}
    return Silence(
        matchers=matchers(*texts),
        begin=NOON + timedelta(seconds=begin),
        end=NOON + timedelta(seconds=end),
        **texts_of,
    )


def test_silencing() -> None:
    """Hold back what a silence matches, and nothing else; tell what outlives it."""
    clock = Clockwork(route(), [silence(0, 4.5, "dagger=bookings")])
    clock.fire("a", dagger="bookings")
    clock.fire("b", dagger="orders")
    clock.run_until(8)

    assert clock.sent == [(1, "r", "b", ""), (5, "r", "a b", "")]


def test_what_is_over_before_its_silence_is_told_to_nobody() -> None:
    clock = Clockwork(route(), [silence(0, 4.5, "dagger=bookings")])
    clock.fire("a", dagger="bookings")
    clock.run_until(3)
    clock.resolve("a")
    clock.run_until(8)

    assert clock.sent == []


def test_a_silence_that_is_ended_early_holds_nothing_back() -> None:
    clock = Clockwork(route(), [silence(0, 100, "dagger=bookings")])
    clock.fire("a", dagger="bookings")
    clock.run_until(3.5)
    clock.end_silences()
    clock.run_until(6)

    assert clock.sent == [(4, "r", "a", "")]


def test_what_was_told_before_a_silence_is_told_to_be_over_after_it() -> None:
    clock = Clockwork(route(), [silence(2, 5.5, "dagger=bookings")])
    clock.fire("a", dagger="bookings")
    clock.run_until(3)
    clock.resolve("a")
    clock.run_until(8)

    assert clock.sent == [(1, "r", "a", ""), (6, "r", "", "a")]


def test_what_was_told_before_a_silence_is_told_to_be_over_whatever_was_told_meanwhile() -> None:
    clock = Clockwork(route(), [silence(2, 5.5, "dagger=bookings")])
    clock.fire("a", dagger="bookings")
    clock.run_until(2.5)
    clock.fire("b", dagger="orders")
    clock.run_until(3.5)
    clock.resolve("a")
    clock.run_until(8)

    assert clock.sent == [(1, "r", "a", ""), (3, "r", "a b", ""), (6, "r", "b", "a")]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (silence(0, 10), ("matchers", "at least one")),
        (silence(0, 10, "dagger=a", reason=" "), ("reason", "must say why")),
        (silence(10, 5, "dagger=a"), ("duration", "end after now")),
        (silence(0, -5, "dagger=a"), ("duration", "end after now")),
        (silence(0, 31 * 86400, "dagger=a"), ("duration", "longer than 30 days")),
        (silence(31 * 86400, 32 * 86400, "dagger=a"), ("begin", "30 days ahead")),
    ],
)
def test_a_silence_that_is_none_is_refused_with_why(wrong: Silence, problem: tuple[str, str]) -> None:
    [(field_, why)] = silences.find_problems(wrong, NOON)

    assert (field_, problem[1] in why) == (problem[0], True)


def test_a_silence_of_a_team_holds_back_what_is_of_that_team_alone() -> None:
    of_team = silence(0, 60, "severity=*", team="pricing")
    labels = [{"severity": "error", "team": team} for team in ("pricing", "supply", "")]

    assert [of_team.holds(each, NOON) for each in labels] == [True, False, False]
    assert all(silence(0, 60, "severity=*").holds(each, NOON) for each in labels)


def test_a_silence_reads_back_as_it_was_written() -> None:
    written = silence(0.25, 60, "dagger=book*", "severity!=critical", team="pricing")

    assert silences.parse_silence(silences.build_message(written)) == written


def test_a_silence_that_matches_nothing_is_known() -> None:
    useless, good = silence(0, 60, "dagger=boookings"), silence(0, 60, "dagger=bookings")
    labels = [{"dagger": "bookings"}]

    assert (silences.count_matches(useless, labels), silences.count_matches(good, labels)) == (0, 1)
    assert list(silences.find_problems(good, NOON)) == []


def test_a_silence_is_about_to_end_a_quarter_of_an_hour_before_unless_it_is_shorter() -> None:
    short, long = silence(0, 900, "dagger=bookings"), silence(0, 3600, "dagger=bookings")

    assert silences.list_ending([short, long], NOON + 2699 * SECOND) == []
    assert silences.list_ending([short, long], NOON + 2700 * SECOND) == [long]
    assert silences.list_ending([short, long], NOON + 3600 * SECOND) == []
    assert silences.list_ending([short], NOON) == []


def test_what_another_silence_goes_on_to_hold_back_is_not_freed() -> None:
    ending, next_ = silence(0, 3600, "dagger=*o*"), silence(3600, 7200, "dagger=orders")
    labels = [{"dagger": "bookings"}, {"dagger": "orders"}, {"dagger": "calls"}]

    assert silences.find_freed(ending, [ending, next_], labels) == [0]


# ---- Inhibition: inhibit_test.go ---------------------------------------------------------------------------


def test_inhibiting() -> None:
    """Keep an incident while its cause lasts, and tell it if it outlives that."""
    clock = Clockwork(route(), rules=CAUSES)
    clock.fire("kafka", dagger="platform", condition="kafka_away")
    for number in range(40):
        clock.fire(f"d{number:02}", dagger=f"d{number:02}", condition="no_progress")
    clock.fire("bad", dagger="bad", condition="failed")
    clock.run_until(2.5)
    count = Counter(find_causes(clock.open, CAUSES).values())
    for number in range(39):
        clock.resolve(f"d{number:02}")
    clock.resolve("kafka")
    clock.run_until(5)

    assert count == {"kafka": 40}
    assert clock.sent == [(1, "r", "bad kafka", ""), (3, "r", "bad d39", "kafka")]


def test_what_was_told_already_is_not_told_to_be_over_by_its_cause() -> None:
    clock = Clockwork(route(), rules=CAUSES)
    clock.fire("a", dagger="a", condition="no_progress")
    clock.run_until(1.5)
    clock.fire("kafka", dagger="platform", condition="kafka_away")
    clock.run_until(4)

    assert [notice[3] for notice in clock.sent] == ["", ""]


def test_only_what_has_the_same_labels_is_held_back() -> None:
    rule = Inhibition(source=matchers("condition=host_away"), target=matchers("dagger=*"), equal=("host",))
    incidents = {
        "h": {"condition": "host_away", "host": "h1"},
        "a": {"dagger": "a", "host": "h1"},
        "b": {"dagger": "b", "host": "h2"},
    }

    assert find_causes(incidents, [rule]) == {"a": "h"}


def test_two_that_are_cause_and_consequence_at_once_do_not_hold_back_each_other() -> None:
    rule = Inhibition(source=matchers("severity=*"), target=matchers("severity=*"))
    incidents = {name: {"severity": "error"} for name in "ab"}

    assert find_causes(incidents, [rule]) == {}


# ---- Routes: dispatch/route_test.go ------------------------------------------------------------------------

TREE = Route(
    receivers=("notify-def",),
    group_wait=timedelta(0),
    routes=(
        Route(
            match=matchers("owner=team-A"),
            receivers=("notify-A",),
            routes=(
                Route(match=matchers("env=testing"), receivers=("notify-testing",), group_by=()),
                Route(
                    match=matchers("env=production"),
                    receivers=("notify-productionA",),
                    group_wait=timedelta(minutes=1),
                    continues=True,
                ),
                Route(match=matchers("env=produ*"), receivers=("notify-productionB",), group_by=("job",)),
            ),
        ),
        Route(match=matchers("owner=team-B"), receivers=("notify-B",)),
        Route(match=matchers("owner=team-C"), group_by=("foo",)),
    ),
)


@pytest.mark.parametrize(
    ("labels", "receivers"),
    [
        ({"owner": "team-A"}, ["notify-A"]),
        ({"owner": "team-A", "env": "unset"}, ["notify-A"]),
        ({"owner": "team-A", "env": "testing"}, ["notify-testing"]),
        ({"owner": "team-A", "env": "production"}, ["notify-productionA", "notify-productionB"]),
        ({"owner": "team-B"}, ["notify-B"]),
        ({"owner": "team-C"}, ["notify-def"]),
        ({"owner": "team-D"}, ["notify-def"]),
        ({}, ["notify-def"]),
    ],
)
def test_a_tree_gives_the_destinations_that_alertmanager_gives(labels: Labels, receivers: list[str]) -> None:
    found = find_destinations(TREE, labels, fallback=Route())

    assert [receiver for each in found for receiver in each.receivers] == receivers


def test_what_a_route_does_not_say_is_its_parents_and_the_way_is_known() -> None:
    [one, other] = find_destinations(TREE, {"owner": "team-A", "env": "production"}, fallback=Route())

    assert (one.group_wait, other.group_wait) == (timedelta(minutes=1), timedelta(0))
    assert (one.group_by, other.group_by) == (("dagger", "condition"), ("job",))
    assert (one.path, other.path) == ((0, 1), (0, 2))
    assert other.why == ("owner=team-A", "env=produ*")


def test_a_team_whose_tree_names_nobody_falls_back_to_the_platform() -> None:
    own = Route(routes=(Route(match=matchers("severity=critical"), receivers=("pager",)),))
    platform = Route(receivers=("on-call",))

    assert find_destinations(own, {"severity": "critical"}, fallback=platform)[0].receivers == ("pager",)
    assert find_destinations(own, {"severity": "warning"}, fallback=platform)[0].receivers == ("on-call",)
    assert find_destinations(None, {}, fallback=platform)[0].receivers == ("on-call",)


# ---- Windows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("mon-fri 09:00-18:00 Europe/Berlin", "2026-06-01T07:00", "2026-06-01T06:59"),
        ("mon-fri 09:00-18:00 Europe/Berlin", "2026-06-05T15:59", "2026-06-06T12:00"),
        ("fri-mon 00:00-24:00 UTC", "2026-06-07T12:00", "2026-06-03T12:00"),
        ("sun 22:00-06:00 UTC", "2026-06-08T05:59", "2026-06-08T06:00"),
        ("22:00-06:00 Asia/Kolkata", "2026-06-01T16:30", "2026-06-01T16:29"),
        ("02:00-03:00 Europe/Berlin", "2026-10-25T01:30", "2026-10-25T02:00"),
    ],
)
def test_a_window_is_of_the_local_clock(text: str, inside: str, outside: str) -> None:
    window = parse_window(text)

    assert window.contains(datetime.fromisoformat(inside).replace(tzinfo=UTC))
    assert not window.contains(datetime.fromisoformat(outside).replace(tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "reason"),
    [("always", "must be such as"), ("moo 09:00-18:00 UTC", "moo is no day"), ("09:00-25:00 UTC", "25:00"),
     ("09:00-18:00 Mars/Base", "no time zone"), ("09:00-18:00 ../../etc", "must be such as")],
)  # fmt: skip
def test_a_window_that_is_none_is_named(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_window(text)


def test_what_is_due_outside_its_window_is_told_when_that_begins() -> None:
    window = parse_window("12:00-12:01 UTC")
    later = type(window)(window.days, time(12, 0, 5), time(13), ZoneInfo("UTC"))
    clock = Clockwork(route(windows=(later,)))
    clock.fire("a")
    clock.run_until(7)

    assert clock.sent == [(5, "r", "a", "")]


# ---- Matchers, labels, escalation --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value", "matches"),
    [
        ("x=a", "a", True), ("x=a", "ab", False), ("x!=a", "b", True), ("x=", "", True), ("x!=", "", False),
        ("x=a*", "abc", True), ("x=*c", "abc", True), ("x=a*c", "ac", True), ("x=a*a", "a", False),
        ("x=*a*b*", "xaxxb", True), ("x=*b*a*", "xaxxb", False), ("x=[a]*", "[a]b", True), ("x=*", "", True),
    ],
)  # fmt: skip
def test_a_star_stands_for_any_characters(text: str, value: str, *, matches: bool) -> None:
    matcher = parse_matcher(text)

    assert matcher.matches({"x": value} if value else {}) == matches
    assert parse_matcher(str(matcher)) == matcher


@pytest.mark.parametrize("text", ["severity", "=critical", "1x=a", "a b=c", "x=" + "a" * 200])
def test_a_matcher_that_is_none_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="must be LABEL=VALUE"):
        parse_matcher(text)


@for_all(pattern=st.text("ab*", max_size=8), value=st.text("ab", max_size=8))
def test_a_pattern_matches_as_the_expression_that_it_stands_for(pattern: str, value: str) -> None:
    import re

    expression = ".*".join(map(re.escape, pattern.split("*")))

    assert Matcher("x", pattern).matches({"x": value}) == bool(re.fullmatch(expression, value))


def test_an_alert_has_the_labels_that_routes_match() -> None:
    meta = alerts_pb2.AlertMeta(dagger="a", condition=alerts_pb2.ALERT_CONDITION_NO_PROGRESS, incident=1)
    fired = alerts_pb2.AlertFired(
        meta=meta,
        severity=alerts_pb2.ALERT_SEVERITY_CRITICAL,
        team="pricing",
        domain=events_pb2.ERROR_DOMAIN_USER,
    )

    assert list_labels(evolve(Alert(dagger="a", condition=meta.condition), fired, NOON)) == {
        "dagger": "a", "condition": "no_progress", "severity": "critical", "team": "pricing",
        "domain": "user",
    }  # fmt: skip


def test_what_nobody_acknowledges_is_escalated() -> None:
    destination = Destination(receivers=("r",), escalate_after=timedelta(minutes=5), escalate_to=("boss",))

    def find(minutes: float, first: datetime | None = NOON, *, ack: bool = False) -> tuple[str, ...]:
        now = NOON + timedelta(minutes=minutes)
        return escalation.find_escalation(destination, first_notice=first, is_acknowledged=ack, now=now)

    assert (find(4.9), find(5), find(9, ack=True), find(9, first=None)) == ((), ("boss",), (), ())
    assert escalation.find_escalation(Destination(), first_notice=NOON, is_acknowledged=False, now=NOON) == ()


# ---- Whatever comes ----------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["fire", "resolve", "fail", "mend", "silence", "end silence", "wait"]),
        st.integers(0, 3),
        st.floats(0.1, 4, allow_nan=False),
    ),
    max_size=25,
)


@for_all(steps=STEPS, wait=st.integers(0, 3), interval=st.integers(1, 3))
def test_no_incident_is_lost_and_nothing_is_over_that_did_not_begin(
    steps: list[tuple[str, int, float]], wait: int, interval: int
) -> None:
    """Check that receivers, once they take everything, know what is open and nothing else."""
    tree = route(
        receivers=("r", "s"),
        group_by=("dagger",),
        group_wait=wait * SECOND,
        group_interval=interval * SECOND,
    )
    clock, count = Clockwork(tree), 0
    for step, number, pause in steps:
        names = [name for name, labels in clock.open.items() if labels["dagger"] == f"d{number}"]
        if step == "fire" and not names:
            count += 1
            clock.fire(f"i{count}", dagger=f"d{number}")
        elif step == "resolve" and names:
            clock.resolve(names[0])
        elif step in ("fail", "mend"):
            (clock.fails.add if step == "fail" else clock.fails.discard)("rs"[number % 2])
        elif step in ("silence", "end silence"):
            clock.end_silences()
            if step == "silence":
                clock.silences.append(silence(clock.now, 10**6, f"dagger=d{number}"))
        clock.run_until(clock.now + pause)
    clock.fails.clear()
    clock.end_silences()
    clock.run_until(clock.now + wait + 2 * interval + 1)

    for receiver in ("r", "s"):
        current = set[str]()
        for _, to, firing, resolved in clock.sent:
            if to == receiver:
                assert set(resolved.split()) <= current
                current = current - set(resolved.split()) | set(firing.split())
        assert current == set(clock.open)
    # What was over before anybody was told stays in its group until the next incident comes.
    members = [each for group in clock.groups.values() for each in group.members.items()]
    assert {name for name, member in members if member.end is None} == set(clock.open)
