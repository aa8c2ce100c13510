"""What others wrote is printed so that it can be seen: it moves, hides and turns around nothing."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cli.errors import CliError
from cli.output.console import Console
from cli.output.printer import Format, Printer, align, print_error, print_text
from cli.output.progress import Steps
from cli.output.sparkline import Series, table
from cli.output.visible import printable, visible
from daggerclient.daggerfile.write import to_yaml

# ESC and the one-byte introducer of the same, overrides of direction, what rings and moves, no character.
ATTACK = "a\x1b[2J\x9b31m\u202eb\u2066c\x07\x08\r\x0b\x7f\u200b\ufeff\U000e0041\ud800[red]d[/red]"
TEXTS = st.text(max_size=30) | st.text(st.characters(categories=["Cc", "Cf", "Zl", "Zp", "Cn"]), max_size=10)


def drawing(file: io.StringIO) -> Console:
    """A terminal without colours, so that every escape in it is somebody else's."""
    return Console(file=file, force_terminal=True, color_system=None, width=80)


def finding(text: str) -> dict[str, str]:
    return {
        "severity": "warning",
        "message": text,
        "suggestion": f"{text} x",
        "source": text,
        "code": text,
        "field": text,
    }


# Every way in which a command prints.
WAYS: dict[str, Callable[[Printer, str], None]] = {
    "line": lambda out, text: out.line(text),
    "lines": lambda out, text: out.lines([text, text]),
    "table": lambda out, text: out.table([text, "B"], [[text, 1]], empty=text),
    "no rows": lambda out, text: out.table(["A"], [], empty=text),
    "findings": lambda out, text: out.findings([finding(text)]),
    "note": lambda out, text: out.note(text),
    "warn": lambda out, text: out.warn(text),
    "done": lambda out, text: out.print_result({text: text}, text),
    "stream": lambda out, text: out.stream([text], str, lambda each: {each: [each]}),
    "step": lambda out, text: _step(out.steps, text),
    "watch": lambda out, text: out.console.print(table(text, [Series(text, text, (1.0,), text)], 9)),
    "error": lambda out, text: print_error(CliError(text, findings=[finding(text)]), as_json=out.json),
    "text": lambda out, text: print_text(text),
}


def _step(steps: Steps, text: str) -> None:
    with steps.step("A") as report:
        report(text)
    steps.note(text)


def printed(way: str, text: str, form: Format, *, terminal: bool) -> str:
    """All that is on stdout and stderr then."""
    written = io.StringIO()
    with redirect_stdout(written), redirect_stderr(written):
        WAYS[way](Printer(form, drawing(written) if terminal else None), text)
    return written.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("form", [Format.TEXT, Format.JSON])
@pytest.mark.parametrize("way", WAYS)
def test_nothing_that_is_printed_moves_or_hides_anything(way: str, form: Format, terminal: bool) -> None:
    @settings(max_examples=settings.default.max_examples // 4)
    @given(TEXTS)
    @example(ATTACK)
    def prints(text: str) -> None:
        # A spinner moves its own cursor; whoever waits without a terminal is told the same.
        seen = printed(way, text, form, terminal=terminal and way != "step")

        assert [each for each in seen if not each.isprintable() and each not in "\n\t"] == []

    prints()


@pytest.mark.parametrize("way", ["line", "table", "warn", "error", "watch"])
def test_what_is_hidden_in_a_text_is_shown(way: str) -> None:
    seen = printed(way, ATTACK, Format.TEXT, terminal=True).replace("\n", "")

    assert r"a\x1b[2J\x9b31m\u202eb" in seen


@given(TEXTS)
@example(ATTACK)
def test_what_can_be_seen_stays_as_it_is_and_the_rest_is_escaped_once(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    assert printable(text).isprintable()
    assert visible("".join(filter(str.isprintable, text))) == "".join(filter(str.isprintable, text))


@given(TEXTS)
@example(ATTACK.replace("\ud800", ""))
def test_documents_mean_what_they_meant(text: str) -> None:
    written = printed("done", text, Format.JSON, terminal=False)

    assert json.loads(written) == {text: text}
    assert yaml.safe_load(to_yaml({"sql": text})) == {"sql": text}
    assert to_yaml({"sql": text}).replace("\n", "").isprintable()


def test_columns_stand_right_beside_what_is_escaped() -> None:
    assert align([["a\x1b", "b"], ["long", "c"]]) == ["a\\x1b  b", "long   c"]
