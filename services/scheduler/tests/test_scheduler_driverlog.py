"""The logs of drivers, as files."""

from pathlib import Path

from scheduler import driverlog
from scheduler.driverlog import Tail


def test_logs_keep_what_an_exception_says_and_drop_its_trace() -> None:
    log = [
        "before",
        "Traceback (most recent call last):",
        '  File "x.py", line 1, in f',
        "    raise ValueError",
        "ValueError: no such thing",
        "java.lang.IllegalStateException: stopped",
        "\tat org.apache.spark.X.run(X.scala:1)",
        "Caused by: java.io.IOException: gone",
        "\t... 3 more",
        "after",
    ]

    assert list(driverlog.without_traces(log)) == [
        "before",
        "ValueError: no such thing",
        "java.lang.IllegalStateException: stopped",
        "after",
    ]


def test_a_log_that_was_moved_is_read_with_its_older_part(tmp_path: Path) -> None:
    (tmp_path / "driver.log.1").write_text("first\nsecond\n")
    (tmp_path / "driver.log").write_text("third\n")

    assert list(driverlog.lines(tmp_path / "driver.log")) == ["first", "second", "third"]


def test_a_log_is_followed_over_its_move(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_text("old\nfirst\nsec")
    tail = Tail(log, start=len("old\n"))
    before = tail.read()
    (tmp_path / "driver.log.1").write_text("old\nfirst\nsecond\nthird\n")
    log.write_text("fourth\n")
    after = tail.read()
    tail.close()

    assert (before, after) == (["first"], ["second", "third", "fourth"])


def test_a_line_that_is_being_written_is_left_to_who_follows(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_text("whole\nhal")
    end = driverlog.whole_end(log)
    tail = Tail(log, end)
    with log.open("a") as more:
        more.write("f\n")
    told = [*driverlog.lines(log, end), *tail.read()]
    tail.close()

    assert told == ["whole", "half"]


def test_the_newest_log_is_that_of_the_dagger_and_not_of_an_earlier_one_of_its_name(tmp_path: Path) -> None:
    for generation in ("3", "20", "100", "not-a-launch"):
        (tmp_path / "d" / generation).mkdir(parents=True)
    for generation in ("3", "20"):
        (tmp_path / "d" / generation / "driver.log").touch()

    assert driverlog.newest(tmp_path, "d", 1) == tmp_path / "d" / "20" / "driver.log"
    assert driverlog.newest(tmp_path, "d", 30) is None
    assert driverlog.newest(tmp_path, "e", 0) is None
