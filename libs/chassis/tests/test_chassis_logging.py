from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog

from chassis import lines as lines_
from chassis.logging import configure, logger, note, unit_of_work


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_unit_of_work_is_one_json_line_with_everything_noted() -> None:
    out = io.StringIO()
    configure("oven", stream=out)

    with unit_of_work("bake", bread="rye"):
        note(loaves=3)
    (line,) = lines(out)

    del line["timestamp"], line["duration_ms"]
    assert line == {"event": "bake", "bread": "rye", "loaves": 3, "level": "info", "service": "oven"}


def test_what_fails_is_named_in_its_line_and_goes_on() -> None:
    out = io.StringIO()
    configure("oven", stream=out)

    with pytest.raises(KeyError), unit_of_work("bake"):
        raise KeyError("flour")

    assert [line["error"] for line in lines(out)] == ["KeyError"]


def test_units_of_work_do_not_share_notes() -> None:
    out = io.StringIO()
    configure("oven", stream=out)
    with unit_of_work("outer"):
        with unit_of_work("inner"):
            note(inside=True)
        note(outside=True)

    notes = {line["event"]: (line.get("inside"), line.get("outside")) for line in lines(out)}

    assert notes == {"inner": (True, None), "outer": (None, True)}


def test_libraries_speak_from_warning_on_and_in_the_same_form() -> None:
    out = io.StringIO()
    configure("oven", stream=out)
    logging.getLogger("library").info("chatter")
    logging.getLogger("library").warning("broker %s gone", 3)
    logging.getLogger("aiokafka.conn").error("Unable connect to node 3, said thirty times a second")
    logger().debug("detail")

    said = [line["event"] for line in lines(out)]

    assert said == ["broker 3 gone"]


def test_a_terminal_gets_lines_for_people() -> None:
    out = Terminal()
    configure("oven", stream=out)

    logger().info("hello", loaves=3)

    assert "hello" in out.getvalue()
    assert not out.getvalue().startswith("{")


def test_an_exception_is_logged_without_the_variables_of_its_frames() -> None:
    out = io.StringIO()
    configure("oven", stream=out)
    try:
        fail_with("canary-of-a-secret")
    except ValueError:
        logger().exception("burnt")

    assert "fail_with" in out.getvalue()
    assert "canary-of-a-secret" not in out.getvalue()


def fail_with(secret: str) -> None:
    raise ValueError(len(secret))


STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def test_a_drivers_lines_have_time_level_logger_and_message_whoever_speaks() -> None:
    out = io.StringIO()
    configure("oven", stream=out, as_driver=True)
    with unit_of_work("bake", bread="rye bread", loaves=[1, 2]):
        note(kind="dark", burnt={}, none=None)
    logging.getLogger("py4j.java_gateway").warning("gone: %s", "a=b")

    baked, gone = out.getvalue().splitlines()

    assert re.fullmatch(
        STAMP + r' INFO oven: bake bread="rye bread" loaves=\[1,2\] kind=dark burnt=\{\} none=null'
        r" duration_ms=[0-9.]+",
        baked,
    )
    assert re.fullmatch(STAMP + " WARN py4j.java_gateway: gone: a=b", gone)


def test_a_trace_stands_below_a_drivers_line_without_the_variables_of_its_frames() -> None:
    out, secret = io.StringIO(), "-".join(("canary", "of", "a", "secret"))
    configure("oven", stream=out, as_driver=True)
    try:
        fail_with(secret)
    except ValueError:
        logger().exception("burnt")
        logging.getLogger("lib").exception("as well")

    said = [line for line in out.getvalue().splitlines() if not line.startswith(" ")]

    assert [lines_.stamp_of(line) != "" for line in said] == [True, False, False] * 2
    assert (said[0].partition(" ")[2], said[3].partition(" ")[2]) == (
        "ERROR oven: burnt",
        "ERROR lib: as well",
    )
    assert secret not in out.getvalue()


def test_stamps_are_ordered_as_their_instants_and_nothing_else_is_one() -> None:
    first, later = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1_000, tzinfo=UTC)

    assert lines_.stamp(first) < lines_.stamp(later) == "2026-01-01T00:00:00.001Z"
    assert lines_.stamp_of(lines_.line(later, "INFO", "x", "y")) == lines_.stamp(later)
    assert {lines_.stamp_of(each) for each in ("", "row {}", "2026-01-01 x", "2026-01-01T00:00:00Z x")} == {
        ""
    }
