"""Records that Kafka had deleted before they were read: which event times they leave out, what is told."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from runtime.launch import expired
from runtime.source.offsets import LostRecords, Offsets, Partition
from runtime.source.planner.lost import NEVER, find, merge

P, Q = Partition("t", 0), Partition("t", 1)
SECOND = 1_000_000
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_US = int(NOON.timestamp()) * SECOND
DELAY, NOW = 5 * SECOND, NOON_US + 600 * SECOND


def test_a_gap_is_between_the_last_record_read_and_the_first_that_is_left_each_with_the_delay() -> None:
    found = find(
        {P: 10, Q: 7}, {P: 60, Q: 7}, {P: NOON_US}, {P: NOON_US + 90 * SECOND}, open_from=None,
        delay=DELAY, now=NOW,
    )  # fmt: skip

    end = NOON_US + 95 * SECOND + 1
    assert found == (LostRecords("t/0", 50, NOON_US - DELAY, end, NOW // 1000),)


def test_where_no_record_is_left_what_was_deleted_was_written_before_now() -> None:
    (found,) = find({P: 10}, {P: 60}, {P: NOON_US}, {}, open_from=None, delay=DELAY, now=NOW)

    assert found.end == NOW + DELAY + 1


def test_where_nobody_knows_what_was_read_all_open_windows_may_lack_it() -> None:
    begins = [
        find({P: 0}, {P: 3}, {}, {P: NOON_US}, open_from=known, delay=DELAY, now=NOW)[0].begin
        for known in (None, NOON_US - 7)
    ]

    assert begins == [NEVER, NOON_US - 7]


some = st.lists(
    st.builds(
        LostRecords,
        st.sampled_from(["t/0", "t/1"]), st.integers(1, 9), st.integers(0, 99), st.integers(100, 199),
        st.integers(0, 999),
    ),
    max_size=80,
)  # fmt: skip


@given(known=some, more=some)
def test_merging_keeps_every_gap_and_changes_nothing_when_it_is_done_again(
    known: list[LostRecords], more: list[LostRecords]
) -> None:
    together = merge(known, more)

    assert merge(together, ()) == together
    assert all(
        any(
            one.partition == whole.partition and whole.begin <= one.begin and one.end <= whole.end
            for whole in together
        )
        for one in (*known, *more)
    )
    assert sum(one.records for one in together) == sum(one.records for one in {*known, *more})
    assert len(together) <= 64


def test_offsets_carry_it_and_those_of_before_have_none() -> None:
    before = Offsets({"t": "id"}, {P: 5}, reader="0/t.0")
    after = Offsets({"t": "id"}, {P: 5}, reader="0/t.0", lost=(LostRecords("t/0", 3, 1, 2, 9),))

    assert "lost" not in before.as_json()
    assert [Offsets.from_json(one.as_json()) for one in (before, after)] == [before, after]
    assert after.move_to({P: 8}).lost == after.lost


def test_one_sentence_tells_all_partitions_for_five_minutes() -> None:
    noticed = int(NOON.timestamp()) * 1000
    both = (
        LostRecords("t/0", 1_200, NOON_US, NOON_US + 60 * SECOND, noticed),
        LostRecords("t/1", 34, NOON_US + 30 * SECOND, NOON_US + 90 * SECOND, noticed),
    )
    at = NOON + timedelta(minutes=4)

    told = expired.warning(both, at, windowed=True, early=True)
    assert told is not None
    assert (told.measure.value, told.measure.limit, told.measure.unit) == (1_234, 0, "count")  # type: ignore[union-attr]
    assert str(told) == (
        "RECORDS_EXPIRED: up to 1,234 records of 2 partitions (t/0 1,200, t/1 34) were deleted by their"
        " topic's retention before they were read; what touches event times from 2026-01-01T12:00:00Z to"
        " 2026-01-01T12:01:30Z is left out, for it would lack some: the rows of these windows that were"
        " written early stay as they were written last"
    )
    forwarded = expired.warning(both, at, windowed=False, early=False)
    assert str(forwarded).endswith("before they were read; their rows are in no sink")
    assert expired.warning(both, NOON + timedelta(minutes=6), windowed=True, early=False) is None


def test_a_gap_without_a_begin_says_so() -> None:
    told = expired.warning(
        (LostRecords("t/0", 1, NEVER, NOON_US, int(NOON.timestamp()) * 1000),),
        NOON,
        windowed=True,
        early=False,
    )

    assert told is not None
    assert "what touches event times up to 2026-01-01T12:00:00Z is left out" in told.text
