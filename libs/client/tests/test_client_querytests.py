"""The key `tests` of a dagger file, both ways."""

from __future__ import annotations

import json

import pytest

from daggerclient.daggerfile.parse import read
from daggerclient.daggerfile.show import to_document
from daggerclient.daggerfile.write import to_yaml

HEAD = """\
name: orders
team: t
cluster: local
streams: [{stream: bookings}]
sql: SELECT 1 AS one
sinks: [log]
"""
TESTS = """\
tests:
  - name: completed bookings are counted
    now: 2026-01-01T00:05:00Z
    given:
      data_stream:
        - {status: COMPLETED, event_timestamp: 2026-01-01T00:00:01Z, lat: 1.50, city_id: 9007199254740993}
        - '{"status": "CANCELLED", "customer": {"phone": null}, "tags": ["a", true]}'
    expect:
      rows:
        - {tag_city: "1", n: 2, mean: 0.1, note: null}
      quarantined: {NO_EVENT_TIME: 1}
      late: 2
  - name: nothing comes of nothing
    expect: {rows: []}
"""


def test_tests_are_read_as_they_stand() -> None:
    (dagger,), findings = read(HEAD + TESTS, "d.yaml")

    assert findings == []
    first, second = dagger.spec.tests
    assert (first.name, first.now.ToJsonString()) == (
        "completed bookings are counted",
        "2026-01-01T00:05:00Z",
    )
    [given] = first.given
    assert given.table == "data_stream"
    assert [json.loads(text) for text in given.records] == [
        {
            "status": "COMPLETED",
            "event_timestamp": "2026-01-01T00:00:01Z",
            "lat": 1.5,
            "city_id": 9007199254740993,
        },
        {"status": "CANCELLED", "customer": {"phone": None}, "tags": ["a", True]},
    ]
    assert [json.loads(row) for row in first.expect.rows] == [
        {"tag_city": "1", "n": 2, "mean": 0.1, "note": None}
    ]
    assert (dict(first.expect.quarantined), first.expect.late) == ({"NO_EVENT_TIME": 1}, 2)
    assert (list(second.given), list(second.expect.rows)) == ([], [])


def test_what_is_shown_reads_as_the_same() -> None:
    (dagger,), _ = read(HEAD + TESTS, "d.yaml")

    (again,), findings = read(to_yaml({"name": "orders", **to_document(dagger.spec)}), "d.yaml")

    assert findings == []
    for one, other in zip(dagger.spec.tests, again.spec.tests, strict=True):
        assert (one.name, one.now, one.expect.late, one.expect.quarantined) == (
            other.name,
            other.now,
            other.expect.late,
            other.expect.quarantined,
        )
        for given, again_given in zip(one.given, other.given, strict=True):
            assert list(map(json.loads, given.records)) == list(map(json.loads, again_given.records))


def test_everything_that_is_wrong_is_found_at_once_with_its_place() -> None:
    text = """\
tests:
  - {name: "", now: soon, given: {data_stream: [7, "[1]", {a: 0x1F}]}, expect: {}}
  - {nam: x, expect: {rows: [{a: 1, a: 2}], late: -1, quarantined: {NO_EVENT_TIME: no}}}
"""

    _, findings = read(HEAD + text, "d.yaml")

    assert {(finding["code"], finding["field"], finding["line"]) for finding in findings} == {
        ("EMPTY_VALUE", "tests[0].name", 8),
        ("BAD_INSTANT", "tests[0].now", 8),
        ("WRONG_TYPE", "tests[0].given[0].records[0]", 8),
        ("WRONG_TYPE", "tests[0].given[0].records[1]", 8),
        ("WRONG_TYPE", "tests[0].given[0].records[2].a", 8),
        ("MISSING_KEY", "tests[0].expect", 8),
        ("UNKNOWN_KEY", "tests[1].nam", 9),
        ("MISSING_KEY", "tests[1].name", 9),
        ("DUPLICATE_KEY", "tests[1].expect.rows[0].a", 9),
        ("WRONG_TYPE", "tests[1].expect.late", 9),
        ("WRONG_TYPE", "tests[1].expect.quarantined.NO_EVENT_TIME", 9),
    }


@pytest.mark.parametrize("levels", [8, 200])
def test_aliases_do_not_make_a_file_grow_beyond_bounds(levels: int) -> None:
    # each level has ten times the values of the one before
    anchors = "\n".join(
        f"    a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10) if n else '1'}]" for n in range(levels)
    )
    text = f"tests:\n- name: t\n  expect:\n    rows:\n    - \n{anchors.replace('    a', '      a')}\n"

    _, findings = read(HEAD + text, "d.yaml")

    assert "TOO_LARGE" in {finding["code"] for finding in findings}
