"""Rules judged on windows: what fires, what is over, and that no division and no repetition changes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import timedelta

import pytest
from daggers.v1 import rules_pb2
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from daggersql.rules import engine, incidents
from daggersql.rules.compiled import CompiledRule, LimitComparison, RuleText
from daggersql.rules.conditions import GONE_WINDOWS
from daggersql.rules.engine import judge
from daggersql.rules.judged import JudgedRow, JudgedRule, combine, prepare
from daggersql.rules.memory import Memory

MINUTE = 60_000_000
LIMIT = 10.0


def rule(**fields: object) -> JudgedRule:
    """Prepare the rule `n > 10` by city."""
    message = rules_pb2.AlertRule(name="many", when="n > 10", **fields)  # type: ignore[arg-type]
    text = RuleText("many", "n > 10")
    compiled = CompiledRule(
        text, "n > 10", message.resolve_when, ("city",), ("n",), LimitComparison("n", LIMIT, above=True)
    )
    return prepare([message], [compiled], timedelta(minutes=1))[0]


def row(minute: int, n: float | None, city: str | None = "a", over_below: float = LIMIT) -> JudgedRow:
    is_true = n is not None and n > LIMIT
    is_over = not is_true if over_below == LIMIT else n is not None and n < over_below
    return JudgedRow("many", minute * MINUTE, (city,), is_true, is_over, {"n": n})


def run(
    rules: Sequence[JudgedRule], batches: Iterable[tuple[Sequence[JudgedRow], int]]
) -> list[rules_pb2.RuleObserved]:
    memory, observed = Memory(), []
    for rows, closed in batches:
        memory, more = judge(memory, rules, rows, closed * MINUTE)
        memory = Memory.from_json(json.loads(json.dumps(memory.to_json())))  # as a driver keeps it
        observed += more
    return observed


def turns_of(observed: Iterable[rules_pb2.RuleObserved]) -> list[tuple[str, int, str]]:
    states = {1: "fired", 2: "changed", 3: "resolved"}
    return [
        (states[one.state], one.window.ToMicroseconds() // MINUTE, one.key.get("city", ""))
        for one in observed
    ]


def test_a_rule_fires_once_and_is_over_in_the_first_window_in_which_it_is_not_true() -> None:
    rows = [row(1, 5), row(2, 11), row(3, 12), row(4, 10), row(5, 9)]

    observed = run([rule(summary="{n:.1f} in all")], [(rows, 5)])

    assert turns_of(observed) == [("fired", 2, "a"), ("resolved", 4, "a")]
    fired, resolved = observed
    assert (fired.summary, fired.value, fired.limit) == ("11.0 in all", 11.0, LIMIT)
    assert (resolved.summary, resolved.since.ToMicroseconds()) == ("many is over: n 10", 2 * MINUTE)
    assert fired.severity == rules_pb2.RULE_SEVERITY_WARNING


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"for_windows": 2}, [("fired", 4, "a")]),
        ({"for_windows": 3}, [("fired", 5, "a")]),
        ({"for_time": timedelta(minutes=1)}, [("fired", 4, "a")]),
        ({"for_time": timedelta(minutes=3)}, []),
    ],
)
def test_it_has_to_be_true_in_windows_that_follow_each_other(
    fields: dict[str, object], expected: list[tuple[str, int, str]]
) -> None:
    rows = [row(1, 11), row(3, 11), row(4, 11), row(5, 11)]  # no row in minute 2

    assert turns_of(run([rule(**fields)], [(rows, 5)])) == expected


def test_between_its_limits_an_incident_goes_on() -> None:
    rows = [row(minute, n, over_below=5) for minute, n in enumerate([11, 8, 6, 11, 5, 4], 1)]

    assert turns_of(run([rule(resolve_when="n < 5")], [(rows, 6)])) == [
        ("fired", 1, "a"),
        ("resolved", 6, "a"),
    ]


def test_null_is_not_true_and_a_null_key_is_a_key() -> None:
    rows = [row(1, None), row(1, 11, None), row(2, None, None)]

    observed = run([rule()], [(rows, 2)])

    assert turns_of(observed) == [("fired", 1, ""), ("resolved", 2, "")]
    assert observed[1].summary == "many is over: n unknown"


def test_a_key_without_rows_is_over_after_some_windows() -> None:
    silent = 1 + GONE_WINDOWS

    assert turns_of(run([rule()], [([row(1, 11)], silent - 1)])) == [("fired", 1, "a")]
    observed = run([rule()], [([row(1, 11)], silent - 1), ([], silent), ([row(silent + 1, 11)], silent + 1)])
    assert turns_of(observed) == [("fired", 1, "a"), ("resolved", silent, "a"), ("fired", silent + 1, "a")]
    assert observed[1].summary == f"many: no row for {GONE_WINDOWS} windows"


def test_of_rows_with_one_key_the_worst_is_told_whatever_their_order() -> None:
    rows = [row(1, 12), row(1, 40), row(1, 3)]

    [one], [other] = (run([rule()], [(some, 1)]) for some in (rows, rows[::-1]))

    assert one == other
    assert one.value == 40


def test_an_edited_and_a_removed_rule_resolve_what_they_fired() -> None:
    first, edited = rule(), rule(runbook="https://a.example")
    memory, _ = judge(Memory(), [first], [row(1, 11)], MINUTE)

    after, changed = judge(memory, [edited], [row(2, 11)], 2 * MINUTE)
    _, removed = judge(memory, [], [], 2 * MINUTE)

    assert turns_of(changed) == [("resolved", 1, "a"), ("fired", 2, "a")]
    assert changed[0].summary == "the rule many was changed"
    assert (turns_of(removed), removed[0].summary) == ([("resolved", 1, "a")], "the rule many was removed")
    assert after.rules["many"].digest == edited.digest != first.digest


def test_beyond_the_most_keys_one_incident_tells_how_many_and_the_worst(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(incidents, "MOST_INCIDENTS", 2)
    rows = [row(1, 11 + n, f"c{n:02}") for n in range(15)]
    later = [row(2, 11, f"c{n:02}") for n in range(14)] + [row(2, 1, "c14")]
    end = [row(3, 1, f"c{n:02}") for n in range(15)]

    observed = run([rule()], [(rows, 1), (later, 2), (end, 3)])

    assert [(*one[:2], len(one[2])) for one in turns_of(observed)] == [
        ("fired", 1, 3), ("fired", 1, 3), ("fired", 1, 0),
        ("changed", 2, 0),
        ("resolved", 3, 3), ("resolved", 3, 3), ("resolved", 3, 0),
    ]  # fmt: skip
    assert [one.others for one in observed if not one.key] == [13, 12, 0]
    assert observed[2].summary.startswith("many is true of 13 further keys, as c14 25; c13 24; ")
    assert observed[2].summary.count(";") == 9


def test_beyond_what_is_remembered_no_key_is_judged_until_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "MOST_KEYS", 2)
    batches = [
        ([row(1, 11, "a"), row(1, 11, "b"), row(1, 11, "c")], 1),
        ([row(2, 1, "a"), row(2, 11, "b"), row(2, 11, "c")], 2),
    ]

    assert turns_of(run([rule()], batches)) == [
        ("fired", 1, "a"), ("fired", 1, "b"), ("resolved", 2, "a"), ("fired", 2, "c"),
    ]  # fmt: skip


# ---- Properties ------------------------------------------------------------------------------------------

FEWER = settings(max_examples=max(settings.default.max_examples // 2, 10))
WINDOWS = st.lists(
    st.dictionaries(
        st.sampled_from(["a", "b", None]),
        st.one_of(st.none(), st.integers(0, 20).map(float)),
    ),
    max_size=14,
)
RULES = st.builds(rule, for_windows=st.integers(0, 3), resolve_when=st.just(""))


def rows_of(windows: Sequence[dict[str | None, float | None]]) -> list[JudgedRow]:
    return [row(minute, n, city) for minute, window in enumerate(windows, 1) for city, n in window.items()]


@FEWER
@given(windows=WINDOWS, one_rule=RULES, data=st.data())
def test_no_division_into_batches_and_no_repetition_changes_what_is_observed(
    windows: list[dict[str | None, float | None]], one_rule: JudgedRule, data: st.DataObject
) -> None:
    rows, last = rows_of(windows), len(windows)
    ends = sorted(data.draw(st.sets(st.integers(1, max(last, 1)))) | {last})
    repeated = data.draw(st.booleans())
    batches, begin = [], 0
    for end in ends:
        batch = [one for one in rows if begin < one.window // MINUTE <= end]
        batches += [(batch, end)] * (2 if repeated else 1)
        begin = end

    whole, divided = run([one_rule], [(rows, last)]), run([one_rule], batches)

    assert [json_format.MessageToDict(one) for one in divided] == [
        json_format.MessageToDict(one) for one in whole
    ]


@FEWER
@given(windows=WINDOWS, one_rule=RULES, data=st.data())
def test_rows_of_keys_that_a_rule_is_never_true_of_need_not_be_judged(
    windows: list[dict[str | None, float | None]], one_rule: JudgedRule, data: st.DataObject
) -> None:
    """Compare with workers: of a batch they select rows of remembered keys, and of those it is true of."""
    rows, last = rows_of(windows), len(windows)
    ends = sorted(data.draw(st.sets(st.integers(1, max(last, 1)))) | {last})
    memory, filtered, begin = Memory(), [], 0
    for end in ends:
        batch = [one for one in rows if begin < one.window // MINUTE <= end]
        keys = memory.active("many", one_rule.digest) | {one.key for one in batch if one.is_true}
        passed = [one for one in batch if one.key in keys]
        memory, more = judge(memory, [one_rule], passed, end * MINUTE)
        filtered += more
        begin = end

    assert filtered == run([one_rule], [(rows, last)])


@FEWER
@given(rows=st.lists(st.one_of(st.none(), st.integers(0, 20).map(float)), min_size=1), data=st.data())
def test_rows_may_be_combined_in_parts_and_in_any_order(
    rows: list[float | None], data: st.DataObject
) -> None:
    limit = LimitComparison("n", LIMIT, above=True)
    given = [row(1, n) for n in rows]
    place = data.draw(st.integers(0, len(given)))
    parts = [part for part in (given[place:], given[:place]) if part]

    combined = combine(given, limit)

    assert combine([combine(part, limit) for part in parts], limit) == combined
    assert (combined.is_true, combined.is_over) == (
        any(one.is_true for one in given), all(one.is_over for one in given),
    )  # fmt: skip


@FEWER
@given(windows=WINDOWS, count=st.integers(1, 3))
def test_what_fires_is_what_a_plain_recount_finds(
    windows: list[dict[str | None, float | None]], count: int
) -> None:
    expected = []
    for city in ("a", "b", None):
        streak, firing, last = 0, False, 0
        for minute in range(1, len(windows) + 1):
            window = windows[minute - 1]
            if city not in window:
                streak = 0
                if firing and minute - last == GONE_WINDOWS:
                    expected.append((minute, city or "", "resolved"))
                    firing = False
                continue
            last, n = minute, window[city]
            is_true = n is not None and n > LIMIT
            streak = streak + 1 if is_true else 0
            if firing and not is_true:
                expected.append((minute, city or "", "resolved"))
                firing = False
            elif not firing and streak >= count:
                expected.append((minute, city or "", "fired"))
                firing = True

    observed = turns_of(run([rule(for_windows=count)], [(rows_of(windows), len(windows))]))

    assert sorted((minute, city, state) for state, minute, city in observed) == sorted(expected)
