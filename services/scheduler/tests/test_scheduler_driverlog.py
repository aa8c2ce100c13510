"""The logs of drivers, as files."""

import os
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chassis import lines
from chassis.tail import Cursor, Tail
from scheduler.host import driver_log
from scheduler.host.driver_log import Position, TraceFilter

TRACE = """\
before
Traceback (most recent call last):
  File "x.py", line 1, in f
    raise ValueError
ValueError: no such thing
java.lang.IllegalStateException: stopped
\tat org.apache.spark.X.run(X.scala:1)
Caused by: java.io.IOException: gone
\t... 3 more
after
"""


def told(log: Path, cursor: Cursor = Cursor()) -> list[str]:  # noqa: B008 - a constant
    """Every line behind a cursor, as it stands now."""
    tail = Tail(log, cursor)
    found = lines_of(tail)
    tail.close()
    return found


def lines_of(tail: Tail) -> list[str]:
    """What is there to be read."""
    return [line for lines in iter(tail.read, []) for line in lines]


def moved(log: Path) -> None:
    """As a driver keeps its log short."""
    fresh = log.with_name("fresh")
    fresh.write_bytes(log.read_bytes())
    fresh.replace(log.with_name("driver.log.1"))
    log.write_text("")


def test_logs_keep_what_an_exception_says_and_drop_its_trace() -> None:
    kept = TraceFilter()

    assert [line for line in TRACE.splitlines() if kept.keeps(line)] == [
        "before",
        "ValueError: no such thing",
        "java.lang.IllegalStateException: stopped",
        "after",
    ]


@pytest.mark.parametrize(
    ("count", "traces", "first"),
    [
        (2, False, "java.lang.IllegalStateException: stopped"),
        (2, True, "\t... 3 more"),
        (99, False, "before"),
    ],
)
def test_the_last_lines_are_counted_with_or_without_traces(
    tmp_path: Path, count: int, traces: bool, first: str
) -> None:
    log = tmp_path / "driver.log"
    log.write_text(TRACE)

    assert told(log, driver_log.last(log, count, traces=traces))[0] == first
    assert told(log, driver_log.last(log, 0, traces=traces)) == []


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(second: int, message: str) -> str:
    """A line of that second after noon."""
    return lines.line(NOON + timedelta(seconds=second), "INFO", "runtime", message) + "\n"


@pytest.mark.parametrize(
    ("since", "count", "expected"),
    [
        (0, 99, ["a", "trace of a", "b", "c"]),
        (1, 99, ["b", "c"]),  # a line without a time has that of the one before it
        (2, 99, ["b", "c"]),
        (2, 1, ["c"]),
        (3, 99, ["c"]),
        (4, 99, []),
    ],
)
@pytest.mark.parametrize("older", [0, 1, 2])
def test_lines_since_an_instant_begin_with_the_first_that_is_not_older(
    tmp_path: Path, since: int, count: int, expected: list[str], older: int
) -> None:
    log, written = tmp_path / "driver.log", [at(0, "a") + "trace of a\n", at(2, "b"), at(3, "c")]
    (tmp_path / "driver.log.1").write_text("".join(written[:older]))
    log.write_text("".join(written[older:]))

    begin = driver_log.last(log, count, traces=False, since=NOON + timedelta(seconds=since))

    assert [line.rpartition(": ")[2] for line in told(log, begin)] == expected


def test_a_log_that_was_moved_is_read_with_its_older_part(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    (tmp_path / "driver.log.1").write_text("first\nsecond\n")
    log.write_text("third\n")

    assert told(log) == ["first", "second", "third"]
    assert [told(log, driver_log.last(log, count, traces=True)) for count in (0, 1, 2)] == [
        [],
        ["third"],
        ["second", "third"],
    ]


def test_a_line_that_is_being_written_is_told_when_it_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_text("whole\nhal")
    tail = Tail(log)
    before, unfinished = tail.read(), tail.unfinished_line()
    with log.open("a") as more:
        more.write("f\n")
    after = tail.read()
    tail.close()

    assert (before, unfinished, after) == (["whole"], "hal", ["half"])


@pytest.mark.parametrize("seed", range(20))
def test_no_line_is_lost_or_doubled_over_moves_and_restarts_of_who_follows(tmp_path: Path, seed: int) -> None:
    chosen, log = random.Random(seed), tmp_path / "driver.log"
    log.write_text("")
    written = "".join(f"{str(number) * chosen.randrange(1, 500)}\n" for number in range(300))
    tail, followed, offset = Tail(log), list[str](), 0
    read = True  # since it was moved: who is two moves behind has a gap
    while offset < len(written):
        size = chosen.randrange(3000)
        with log.open("a") as more:
            more.write(written[offset : offset + size])
        offset += size
        match chosen.randrange(4):
            case 0:
                followed += lines_of(tail)
                read = "\n" in log.read_text()
            case 1 if read:
                moved(log)
                read = False
            case 2:
                tail.close()
                tail = Tail(log, tail.cursor)
    followed += lines_of(tail)
    tail.close()

    assert not tail.gap
    assert "\n".join([*followed, ""]) == written


def test_what_was_moved_away_twice_is_a_gap(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_text("first\n")
    tail = Tail(log)
    tail.read()
    tail.close()
    for text in ("second\n", "third\n"):
        moved(log)
        log.write_text(text)
    later = Tail(log, tail.cursor)
    lines = later.read() + later.read()
    later.close()

    assert (later.gap, lines) == (True, ["second", "third"])


ROTATIONS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "nothing": (lambda _: None, ["second", "third"]),
    "deleted": (lambda log: log.unlink(), ["second"]),
    "moved": (lambda log: log.rename(log.with_name("moved")), ["second"]),
    "moved, and a file in its place": (
        lambda log: (log.rename(log.with_name("moved")), log.touch()), ["second", "third"],
    ),
    "copied and emptied": (
        lambda log: (log.with_name("driver.log-1").write_bytes(log.read_bytes()), os.truncate(log, 0)),
        ["third"],
    ),
    "emptied, and written on": (lambda log: log.write_text("later\n"), ["later", "third"]),
}  # fmt: skip


@pytest.mark.parametrize("has_older", [False, True])
@pytest.mark.parametrize("way", ROTATIONS)
def test_a_log_that_something_else_rotates_is_read_on_and_what_it_took_is_a_gap(
    tmp_path: Path, way: str, has_older: bool
) -> None:
    rotate, expected = ROTATIONS[way]
    log = tmp_path / "driver.log"
    log.write_text("first\n")
    if has_older:
        (tmp_path / "driver.log.1").write_text("before\n")
    tail = Tail(log)
    assert lines_of(tail) == [*(["before"] if has_older else []), "first"]
    with log.open("a") as driver:  # which opened it once
        driver.write("second\n")
        driver.flush()
        rotate(log)
        now = lines_of(tail)
        if log.exists():
            with log.open("a") as more:
                more.write("third\n")
        found = now + lines_of(tail)
    tail.close()

    assert (found, tail.gap) == (expected, "third" in expected and way != "nothing")


def test_a_position_is_read_as_it_was_told_and_nothing_else_is_one() -> None:
    position = Position(7, Cursor(12, "0123456789abcdef"), inside=True)

    assert Position.parse(str(position)) == position
    assert [Position.parse(text) for text in ("", "7-12", "7-12-xyz", "-1-2-0123456789abcdef")] == [None] * 4


def test_the_newest_log_is_that_of_the_dagger_and_not_of_an_earlier_one_of_its_name(tmp_path: Path) -> None:
    for generation in ("3", "20", "100", "not-a-launch"):
        (tmp_path / "d" / generation).mkdir(parents=True)
    for generation in ("3", "20"):
        (tmp_path / "d" / generation / "driver.log").touch()

    assert driver_log.newest(tmp_path, "d", 1) == tmp_path / "d" / "20" / "driver.log"
    assert driver_log.newest(tmp_path, "d", 30) is None
    assert driver_log.newest(tmp_path, "e", 0) is None
