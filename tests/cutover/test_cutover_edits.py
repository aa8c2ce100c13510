"""What the harness of cutovers takes for right and for wrong."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

from tests.cutover.edits import Query, Row, edited, judged, silence

COUNTS, SUMS = Query(), Query(revision=1, function="SUM(city_id)", without=1)
EVENTS = [(second, city) for second in range(60) for city in (1, 2)]
GOOD = [
    *(Row(end, city, 10, 0) for end in (10, 20) for city in (1, 2)),
    *(Row(end, 2, 20, 1) for end in (30, 40)),
]


def test_edits_come_from_the_seed_and_each_recomputes() -> None:
    draw, again = random.Random(1), random.Random(1)
    queries = [COUNTS]
    for _ in range(20):
        queries.append(edited(queries[-1], draw))
    others = [edited(query, again) for query in queries[:-1]]

    assert others == queries[1:]
    assert all(replace(one, revision=0) != replace(two, revision=0) for one, two in pairwise(queries))
    assert {query.size for query in queries} == {10, 20, 30}


def test_a_hop_is_recounted_by_hand() -> None:
    hop = Query(size=20, function="SUM(city_id)")

    assert hop.rows(20, {0: [1, 2], 19: [2], 20: [2]}) == {(20, 1): 1, (20, 2): 4}


def test_windows_that_two_revisions_have_written_one_after_the_other_are_right() -> None:
    verdict = judged(GOOD, [COUNTS, SUMS], EVENTS, 40)

    assert (verdict.missing, verdict.doubled) == ([], [])


def test_a_window_that_is_missing_doubled_or_miscounted_is_told() -> None:
    queries = [COUNTS, SUMS]
    missing = judged([row for row in GOOD if row.end != 20], queries, EVENTS, 40)
    repeated = judged([*GOOD, GOOD[0]], queries, EVENTS, 40)
    twice = judged([*GOOD, Row(20, 2, 20, 1)], queries, EVENTS, 40)
    back = judged([*GOOD[:-1], Row(40, 1, 10, 0), Row(40, 2, 10, 0)], queries, EVENTS, 40)
    wrong = judged([*GOOD[:-1], Row(40, 2, 19, 1)], queries, EVENTS, 40)

    assert [(len(each.missing), len(each.doubled)) for each in (missing, repeated, twice, back, wrong)] == [
        (1, 0), (0, 1), (0, 1), (0, 1), (1, 0),
    ]  # fmt: skip


def test_the_longest_silence_is_between_the_first_rows_of_two_windows() -> None:
    arrivals = {10: 1.0, 20: 11.5, 30: 20.0, 50: 90.0}

    assert (silence(arrivals, 30), silence({}, 30)) == (10.5, 0.0)
