"""Rules on absent rows: when a key fires that had rows, and what ends that."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

import pytest
from daggers.v1 import rules_pb2
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from daggersql.rules import absence, engine, incidents
from daggersql.rules.absence import UnwrittenWindows
from daggersql.rules.compiled import CompiledRule, RuleText
from daggersql.rules.engine import judge
from daggersql.rules.judged import JudgedRow, JudgedRule, prepare
from daggersql.rules.memory import Memory

MINUTE = 60_000_000
Turn = tuple[str, int, str]


def silent(minutes: float = 3, **fields: object) -> JudgedRule:
    """Prepare a rule on cities that give no row, of windows of a minute."""
    absent = timedelta(minutes=minutes)
    message = rules_pb2.AlertRule(name="silent", absent=absent, **fields)  # type: ignore[arg-type]
    compiled = CompiledRule(RuleText("silent", "", absent=absent), "TRUE", "", ("city",), (), None)
    return prepare([message], [compiled], timedelta(minutes=1))[0]


def rows_of(cities: Mapping[int, Iterable[str | None]]) -> list[JudgedRow]:
    """Build the rows of windows, by the minute that they end in."""
    return [
        JudgedRow("silent", minute * MINUTE, (city,), is_true=True, is_over=False, values={})
        for minute, those in cities.items()
        for city in those
    ]


def run(
    rule: JudgedRule,
    batches: Iterable[tuple[Sequence[JudgedRow], int]],
    gaps: Iterable[tuple[int, int]] = (),
) -> list[rules_pb2.RuleObserved]:
    """Judge batches of rows and the minute up to which each closes windows. gaps: minutes, both included."""
    unwritten = [UnwrittenWindows((first - 1) * MINUTE, last * MINUTE) for first, last in gaps]
    memory, observed = Memory(), []
    for rows, closed in batches:
        memory, more = judge(memory, [rule], rows, closed * MINUTE, unwritten)
        memory = Memory.from_json(json.loads(json.dumps(memory.to_json())))  # as a driver stores it
        observed += more
    return observed


def turns_of(observed: Iterable[rules_pb2.RuleObserved]) -> list[Turn]:
    return [
        (
            rules_pb2.RuleState.Name(one.state).removeprefix("RULE_STATE_").lower(),
            one.window.ToMicroseconds() // MINUTE,
            one.key.get("city", ""),
        )
        for one in observed
    ]


def test_a_key_fires_once_it_has_had_no_row_for_long_enough_and_is_over_with_the_next_one() -> None:
    rows = rows_of({1: ["a", "b"], 2: ["b"], 3: ["b"], 4: ["b"], 5: ["b"], 6: ["a", "b"]})

    fired, resolved = run(silent(), [(rows, 6)])

    assert turns_of([fired, resolved]) == [("fired", 4, "a"), ("resolved", 6, "a")]
    assert fired.since == resolved.since
    assert fired.since.ToMicroseconds() == 2 * MINUTE
    assert fired.summary == "no row since 1970-01-01T00:01:00Z"
    assert resolved.summary == "silent is over: there is a row again"
    assert fired.severity == rules_pb2.RULE_SEVERITY_WARNING


def test_time_passes_in_windows_without_any_row() -> None:
    batches = [(rows_of({1: ["a"]}), 1), ([], 3), ([], 4), ([], 9)]

    assert turns_of(run(silent(), batches)) == [("fired", 4, "a")]


@pytest.mark.parametrize(("minutes", "expected"), [(1, 2), (1.5, 3), (2, 3), (2.1, 4)])
def test_it_fires_with_the_first_window_that_ends_late_enough(minutes: float, expected: int) -> None:
    assert turns_of(run(silent(minutes), [(rows_of({1: ["a"]}), 9)])) == [("fired", expected, "a")]


def test_a_key_that_never_had_a_row_is_no_key() -> None:
    assert run(silent(), [([], 100)]) == []


def test_a_summary_has_the_key() -> None:
    [fired] = run(silent(summary="{city} is silent"), [(rows_of({1: [None]}), 4)])

    assert (fired.summary, dict(fired.key)) == ("unknown is silent", {})


def test_windows_that_are_not_written_are_no_silence() -> None:
    rows = [(rows_of({1: ["a"]}), 20)]

    assert turns_of(run(silent(), rows, gaps=[(3, 8)])) == [("fired", 11, "a")]
    assert turns_of(run(silent(), rows, gaps=[(4, 8), (10, 12)])) == [("fired", 15, "a")]
    assert turns_of(run(silent(), rows, gaps=[(5, 8)])) == [("fired", 4, "a")]


def test_a_key_that_never_comes_back_is_forgotten() -> None:
    week = timedelta(days=7) // timedelta(minutes=1)
    batches = [
        (rows_of({1: ["a"]}), 4),
        ([], 3 + week),
        ([], 4 + week),
        (rows_of({5 + week: ["a"]}), 8 + week),
    ]

    observed = run(silent(), batches)

    assert turns_of(observed) == [("fired", 4, "a"), ("resolved", 4 + week, "a"), ("fired", 8 + week, "a")]
    assert observed[1].summary == "silent: no row for 7 days more, so it is forgotten"


def test_beyond_the_most_keys_one_incident_tells_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incidents, "MOST_INCIDENTS", 1)
    rows = rows_of({1: ["a", "b", "c"], 6: ["b", "c"]})

    observed = run(silent(), [(rows, 6)])

    assert turns_of(observed) == [("fired", 4, "a"), ("fired", 4, ""), ("resolved", 6, "")]
    assert observed[1].summary == "silent is true of 2 further keys, as b; c"


def test_beyond_what_is_remembered_no_key_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_KEYS", 2)

    assert turns_of(run(silent(), [(rows_of({1: ["a", "b", "c"]}), 4)])) == [
        ("fired", 4, "a"), ("fired", 4, "b"),
    ]  # fmt: skip


def test_an_edited_rule_resolves_what_it_fired_and_begins_anew() -> None:
    first, edited = silent(), silent(runbook="https://a.example")
    memory, _ = judge(Memory(), [first], rows_of({1: ["a"]}), 4 * MINUTE)

    memory, changed = judge(memory, [edited], [], 9 * MINUTE)

    assert [(one.state, one.summary) for one in changed] == [
        (rules_pb2.RULE_STATE_RESOLVED, "the rule silent was changed")
    ]
    assert memory.size == 0


# ---- Properties ------------------------------------------------------------------------------------------

WINDOWS = st.lists(st.sets(st.sampled_from(["a", "b", None])), min_size=1, max_size=16)
GAPS = st.lists(
    st.tuples(st.integers(1, 16), st.integers(0, 4)).map(lambda one: (one[0], sum(one))), max_size=2
)


def without(
    windows: Sequence[set[str | None]], gaps: Sequence[tuple[int, int]]
) -> dict[int, list[str | None]]:
    """Leave out the rows of windows that are not written."""
    return {
        minute: sorted(cities, key=str)
        for minute, cities in enumerate(windows, 1)
        if not any(first <= minute <= last for first, last in gaps)
    }


@given(windows=WINDOWS, gaps=GAPS, data=st.data())
def test_no_division_into_batches_and_no_repetition_changes_what_is_observed(
    windows: list[set[str | None]], gaps: list[tuple[int, int]], data: st.DataObject
) -> None:
    rows, last = rows_of(without(windows, gaps)), len(windows)
    ends = sorted(data.draw(st.sets(st.integers(1, last))) | {last})
    repeated = data.draw(st.booleans())
    batches, begin = [], 0
    for end in ends:
        batches += [([one for one in rows if begin < one.window // MINUTE <= end], end)] * (1 + repeated)
        begin = end

    whole, divided = run(silent(), [(rows, last)], gaps), run(silent(), batches, gaps)

    assert [*map(json_format.MessageToDict, divided)] == [*map(json_format.MessageToDict, whole)]


@settings(max_examples=max(settings.default.max_examples // 2, 10))
@given(windows=WINDOWS, minutes=st.integers(1, 4), gaps=GAPS, forgotten=st.integers(1, 6))
def test_what_fires_is_what_a_plain_recount_finds(
    windows: list[set[str | None]], minutes: int, gaps: list[tuple[int, int]], forgotten: int
) -> None:
    written = without(windows, gaps)
    expected: list[Turn] = []
    for city in ("a", "b", None):
        silence: int | None = None  # windows in a row without a row of it; None: it is no key
        fires = False
        for minute in range(1, len(windows) + 1):
            if city in written.get(minute, ()):
                if fires:
                    expected.append(("resolved", minute, city or ""))
                silence, fires = 0, False
            elif silence is not None and minute not in written and not fires:
                silence = 0
            elif silence is not None:
                silence += 1
                if not fires and silence == minutes:
                    fires = True
                    expected.append(("fired", minute, city or ""))
                elif fires and silence == minutes + forgotten:
                    expected.append(("resolved", minute, city or ""))
                    silence, fires = None, False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(absence, "FORGOTTEN", timedelta(minutes=forgotten))
        observed = turns_of(run(silent(minutes), [(rows_of(written), len(windows))], gaps))

    assert sorted(observed) == sorted(expected)
