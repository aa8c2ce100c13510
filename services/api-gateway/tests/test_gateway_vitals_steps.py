"""Steps of WatchVitals: two told as one say what both would have said."""

from __future__ import annotations

from daggers.v1 import vitals_pb2
from hypothesis import given
from hypothesis import strategies as st

from api_gateway.rpc import paging
from api_gateway.rpc.watch_vitals import Step

NAMES = ["one", "two", "three"]
State = dict[str, tuple[int, bool]]
"""What somebody knows who is told: of each dagger its records, and whether it has to be read anew."""


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    """Steps as they follow each other: who is gone was there, who is there has vitals."""
    steps, there = [Step(0, {})], set[str]()
    for sequence in range(1, draw(st.integers(2, 7))):
        gone = {name for name in sorted(there) if draw(st.booleans())}
        new = {name for name in NAMES if name not in there and draw(st.booleans())}
        there = there - gone | new
        changed = new | {name for name in sorted(there) if draw(st.booleans())}
        told = new | {name for name in sorted(there) if draw(st.booleans())}
        vitals = {name: vitals_pb2.Vitals(dagger=name, records=sequence) for name in told}
        steps.append(Step(sequence, vitals, frozenset(changed), frozenset(gone)))
    return steps


def told(state: State, step: Step) -> State:
    """What is known behind a step."""
    known = {name: each for name, each in state.items() if name not in step.gone}
    for name in step.vitals.keys() | step.changed:
        records, anew = known.get(name, (0, False))
        vitals = step.vitals.get(name)
        known[name] = (records if vitals is None else vitals.records, anew or name in step.changed)
    return known


@given(histories(), st.integers(0, 7))
def test_who_is_told_of_several_steps_in_one_knows_the_same(steps: list[Step], told_alone: int) -> None:
    each: State = {}
    for step in steps:
        each = told(each, step)
    at_once: State = {}
    for step in steps[:told_alone]:
        at_once = told(at_once, step)
    waiting = steps[told_alone:]
    if waiting:
        merged = waiting[0]
        for step in waiting[1:]:
            merged = step.behind(merged)
        at_once = told(at_once, merged)
        assert merged.sequence == steps[-1].sequence
        assert not merged.gone & merged.changed

    assert {name: records for name, (records, _) in at_once.items()} == {
        name: records for name, (records, _) in each.items()
    }
    assert all(at_once[name][1] for name, (_, anew) in each.items() if anew)


def test_a_step_of_more_than_one_answer_takes_says_once_what_has_changed() -> None:
    warning = vitals_pb2.HealthWarning(message="x" * (paging.MAX_ANSWER_BYTES // 2))
    vitals = {name: vitals_pb2.Vitals(dagger=name, warnings=[warning]) for name in NAMES}

    answers = Step(7, vitals, frozenset(["one"]), frozenset(["four"])).answers

    assert [[each.dagger for each in answer.vitals] for answer in answers] == [["one"], ["three"], ["two"]]
    assert [(list(answer.changed), list(answer.gone)) for answer in answers] == [
        (["one"], ["four"]), ([], []), ([], []),
    ]  # fmt: skip
    assert {answer.sequence for answer in answers} == {7}
