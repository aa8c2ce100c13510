"""Topics come and go, readers change with them, and every topic goes on where it stood."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable
from services.runtime.tests.source_assignment import HERE, THERE, reader_plan

from runtime.source.datasource import KafkaReader
from runtime.source.offsets import LostRecords, Offsets, Partition, Positions
from runtime.source.planner.assignment import (
    MAX_READERS,
    Assignment,
    LoggedBatch,
    merge,
    next_assignment,
    planned_records,
)
from runtime.source.tasks import ReadRanges

TABLES = ("bookings", "trips")
NAMES = [f"t{number:02}" for number in range(12)]
Wanted = Mapping[str, Sequence[str]]
topics = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)


def join(table: str, topics: Sequence[str], ended: Offsets) -> Offsets:
    """Topics begin at offset 0; those that were read before go on."""
    ids = {topic: f"id-{topic}" for topic in topics}
    start = {Partition(topic, 0): ended.next.get(Partition(topic, 0), 0) for topic in topics}
    return Offsets(ids, start)


def first(wanted: Wanted) -> Assignment:
    """The first assignment of a checkpoint."""
    return next_assignment(None, LoggedBatch(), wanted, join)[0]


def ends(assignment: Assignment, far: Mapping[str, int]) -> tuple[Offsets, ...]:
    """What a batch of this assignment leaves in the log: each topic of a table has moved on by `far`."""
    return tuple(
        replace(share, next={p: offset + far[p.topic] for p, offset in share.next.items()})
        for shares in assignment.shares.values()
        for share in shares
    )


def positions(assignment: Assignment) -> dict[str, dict[str, int]]:
    """Where each topic of each table is read on."""
    return {
        table: {p.topic: offset for p, offset in merge(shares).next.items()}
        for table, shares in assignment.shares.items()
    }


@given(
    changes=st.lists(
        st.tuples(
            st.fixed_dictionaries(dict.fromkeys(TABLES, topics)),
            st.fixed_dictionaries({name: st.integers(0, 9) for name in NAMES}),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_every_topic_goes_on_where_it_stood_whatever_came_and_went(
    changes: list[tuple[Wanted, Mapping[str, int], bool]],
) -> None:
    stood: dict[str, dict[str, int]] = {table: {} for table in TABLES}
    known, logged = None, LoggedBatch()
    for wanted, far, ran in changes:
        known, until = next_assignment(known, logged, wanted, join)
        expected = {t: {name: stood[t].get(name, 0) for name in wanted[t]} for t in TABLES}
        here = {end.reader: end for end in logged.ends}
        now = {table: [here.get(share.reader, share) for share in known.shares[table]] for table in TABLES}

        assert until == {}
        assert {
            table: {p.topic: offset for end in now[table] for p, offset in end.next.items()}
            for table in TABLES
        } == expected

        if ran:
            logged = LoggedBatch(
                tuple(
                    replace(end, next={p: offset + far[p.topic] for p, offset in end.next.items()})
                    for table in TABLES
                    for end in now[table]
                )
            )
            for table in TABLES:
                for name in wanted[table]:
                    stood[table][name] = expected[table][name] + far[name]


@given(wanted=st.fixed_dictionaries(dict.fromkeys(TABLES, topics)))
def test_an_assignment_has_each_topic_once_names_each_reader_once_and_survives_its_json_form(
    wanted: Wanted,
) -> None:
    made = first(wanted)
    readers = [share for shares in made.shares.values() for share in shares]

    assert Assignment.from_json(json.loads(json.dumps(made.as_json()))) == made
    assert len(readers) == len({share.reader for share in readers}) <= MAX_READERS
    for table in TABLES:
        assert sorted(t for share in made.shares[table] for t in share.topics) == sorted(wanted[table])


def test_the_same_topics_in_another_order_keep_their_readers() -> None:
    made = first({"s": ["b", "a"]})
    moved = LoggedBatch(ends(made, {"a": 5, "b": 7}), committed=False)

    assert next_assignment(made, moved, {"s": ["a", "b"]}, join) == (made, {})


def test_a_planned_batch_is_finished_by_the_readers_that_planned_it() -> None:
    made = first({"s": ["a"]})
    logged = LoggedBatch(ends(made, {"a": 5}), committed=False)

    assert next_assignment(made, logged, {"s": ["a", "b"]}, join) == (
        made,
        {"0/s.0": {Partition("a", 0): 5}},
    )

    then, until = next_assignment(made, replace(logged, committed=True), {"s": ["a", "b"]}, join)

    assert (positions(then), until, then.number) == ({"s": {"a": 5, "b": 0}}, {}, 1)


def test_two_readings_of_one_stream_come_to_one_place_before_topics_change() -> None:
    made = first({"s": ["a"]})
    near, far = ends(made, {"a": 5})[0], ends(made, {"a": 9})[0]

    assert next_assignment(made, LoggedBatch((near, far)), {"s": ["a", "b"]}, join) == (
        made,
        {"0/s.0": {Partition("a", 0): 9}},
    )

    then, until = next_assignment(made, LoggedBatch((far, far)), {"s": ["a", "b"]}, join)

    assert (positions(then), until) == ({"s": {"a": 9, "b": 0}}, {})


def test_an_assignment_that_no_batch_was_read_by_hands_on_its_own_starts() -> None:
    made = first({"s": ["a"]})
    logged = LoggedBatch(ends(made, {"a": 5}))
    second, _ = next_assignment(made, logged, {"s": ["a", "b"]}, join)
    third, _ = next_assignment(second, logged, {"s": ["a", "c"]}, join)

    assert (positions(third), third.ended["s"].topics) == ({"s": {"a": 5, "c": 0}}, ("b",))


GAP, LATER = LostRecords("a/0", 3, 1, 2, 7), LostRecords("a/0", 4, 5, 6, 8)


def test_a_launch_knows_what_was_missed_up_to_the_newest_batch_and_where_that_began() -> None:
    assignment = first({"s": ["a"], "t": ["a"]})
    (share,) = assignment.shares["s"]
    near, far = (ends(assignment, {"a": end}) for end in (5, 9))
    logged = LoggedBatch(tuple(replace(end, lost=(GAP,)) for end in far), begins=near)
    joined, _ = next_assignment(assignment, logged, {"s": ["a", "b"], "t": ["a"]}, join)

    assert (logged.find_lost(share), logged.find_begins(share)) == ((GAP,), {Partition("a", 0): 5})
    assert [(logged.find_lost(one), logged.find_begins(one)) for one in joined.shares["s"]] == [
        ((GAP,), {Partition("a", 0): 5}),
        ((GAP,), {Partition("b", 0): 0}),
    ]


def test_the_first_batch_began_where_its_readers_did_and_without_one_nothing_was_begun() -> None:
    assignment = first({"s": ["a"]})
    (share,) = assignment.shares["s"]

    assert LoggedBatch(ends(assignment, {"a": 5})).find_begins(share) == dict(share.next)
    assert LoggedBatch().find_begins(share) == {}
    assert LoggedBatch().find_lost(replace(share, lost=(LATER,))) == (LATER,)


def test_of_two_readings_of_one_stream_the_one_that_is_behind_says_where_the_batch_began() -> None:
    assignment = first({"s": ["a"]})
    (share,) = assignment.shares["s"]
    (near,), (far,) = (ends(assignment, {"a": end}) for end in (5, 9))
    logged = LoggedBatch((far, replace(far, lost=(LATER,))), begins=(far, near))

    assert (logged.find_lost(share), logged.find_begins(share)) == ((LATER,), {Partition("a", 0): 5})


def test_what_is_still_to_be_read_of_a_topic_is_counted_from_where_each_reading_of_it_stands() -> None:
    made = first({"s": ["a", "b"]})
    near, far = (ends(made, {"a": 0, "b": end}) for end in (2, 9))

    assert planned_records(made, LoggedBatch(near, committed=False), {"a", "b"}) == {"b": 2}
    assert planned_records(made, LoggedBatch(far, committed=False, begins=near), {"b"}) == {"b": 7}
    assert planned_records(made, LoggedBatch((*near, *far)), {"b"}) == {"b": 7}
    assert planned_records(made, LoggedBatch(far), {"b"}) == {}
    assert planned_records(made, LoggedBatch(far, committed=False), {"a"}) == {}


def test_a_topic_that_was_taken_out_goes_on_where_it_ended() -> None:
    made = first({"s": ["a", "b"]})
    without, _ = next_assignment(made, LoggedBatch(ends(made, {"a": 3, "b": 4})), {"s": ["a"]}, join)
    again, _ = next_assignment(without, LoggedBatch(ends(without, {"a": 2})), {"s": ["a", "b"]}, join)

    assert (positions(without), positions(again)) == ({"s": {"a": 3}}, {"s": {"a": 5, "b": 4}})
    assert (without.ended["s"].topics, again.ended["s"].topics) == (("b",), ())


def test_rows_are_whole_and_were_written_as_far_as_under_the_readers_before() -> None:
    made = first({"s": ["a"]})
    edited = tuple(replace(share, complete_from=77, closed=55) for share in made.shares["s"])
    made = replace(made, shares={"s": edited})
    then, _ = next_assignment(made, LoggedBatch(ends(made, {"a": 5})), {"s": ["a", "b"]}, join)

    assert {(share.complete_from, share.closed) for share in then.shares["s"]} == {(77, 55)}


def reader(run_dir: Path, until: Positions, missing: Sequence[str] = ()) -> KafkaReader:
    """The same, that only comes to its end."""
    return KafkaReader(replace(reader_plan(run_dir), until=until, missing=frozenset(missing)))


def test_a_reader_that_is_handed_the_offsets_of_another_begins_at_its_own_start(tmp_path: Path) -> None:
    other = Offsets({"c": "id-c"}, {Partition("c", 0): 99}, reader="0/s.0").as_json()
    made = reader(tmp_path, {HERE: 7, THERE: 5})

    end = made.latestOffset(other, ReadAllAvailable())
    (part,) = made.partitions(other, end)

    assert isinstance(part.value, ReadRanges)
    assert [(one.partition, one.start, one.end) for one in part.value.ranges] == [(HERE, 5, 7)]
    assert made.latestOffset(end, ReadAllAvailable()) == end


def test_nothing_is_read_of_a_topic_that_is_gone(tmp_path: Path) -> None:
    made = reader(tmp_path, {HERE: 7, THERE: 8}, missing=["a"])

    (part,) = made.partitions(
        made.initialOffset(), made.latestOffset(made.initialOffset(), ReadAllAvailable())
    )

    assert isinstance(part.value, ReadRanges)
    assert [(one.partition, one.start, one.end) for one in part.value.ranges] == [(THERE, 5, 8)]
