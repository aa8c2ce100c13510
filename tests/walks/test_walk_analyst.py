"""An analyst: docs/own-schema.md as somebody follows it, from a .proto of their own to right rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Stack
from tests.walks.conftest import Say
from tests.walks.walk_analyst import FILES, steps

DEADLINE_S = 120


def run(line: str, stack: Stack, folder: Path) -> tuple[int, str]:
    """The exit code of a command of the page, and what it prints."""
    scripts = str(Path(sys.executable).parent)
    here = {
        "PATH": f"{scripts}:{os.environ['PATH']}",  # noqa: TID251 - a child's own
        "DAGGERS_GATEWAY": stack.gateway,
        "DAGGERS_TOKEN_FILE": str(stack.token_file),
    }
    done = subprocess.run(
        ["bash", "-c", f"({line.replace('HOST:PORT', stack.kafka).replace('CLUSTER', 'local')}) 2>&1"],
        cwd=folder,
        env={**os.environ, **here},  # noqa: TID251 - a child's own
        stdout=subprocess.PIPE, text=True, check=False, timeout=DEADLINE_S + 60,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_a_page_without_a_stack_has_its_files_and_its_commands() -> None:
    languages = [step.language for step in steps()]

    assert (languages.count("protobuf"), languages.count("python")) == (1, 1)
    assert languages.count("console") > 10
    assert [step.text for step in steps() if step.shown] == ["daggers validate coffee_by_city.yaml"]


@pytest.mark.integration
@pytest.mark.long
def test_an_analyst_comes_from_a_schema_of_their_own_to_right_rows(
    stack: Stack, tmp_path: Path, say: Say
) -> None:
    printed: dict[str, str] = {}
    counted = sent = 0
    for step in steps():
        if step.language != "console":
            (tmp_path / FILES[step.language]).write_text(step.text)
        elif step.text.startswith(("export ", "daggers local ", "daggers() ", "mkdir ", "python3 -m venv ")):
            continue  # the stack of the tests, and a folder of this one's
        else:
            if step.text == "daggers rows coffee_by_city":
                sent = int(printed["python feed.py HOST:PORT 20"].split()[-1])
                counted = rows_counted(f"{step.text} --limit 1000 -o json", sent, stack, tmp_path)
            code, printed[step.text] = run(step.text, stack, tmp_path)

            assert (code == 0) != bool(step.shown), f"{step.text}\n{printed[step.text]}"
            assert printed[step.text] == step.shown or not step.shown
    say(f"analyst: {len(printed)} commands, {counted} of {sent} records in rows, one mistake with its hint")

    assert sent > 0
    assert counted == sent
    assert "placed_at" in printed["daggers stream describe coffee_orders"]
    assert '"city": "' in printed["daggers stream sample coffee_orders"]


def rows_counted(line: str, sent: int, stack: Stack, folder: Path) -> int:
    """How many records its rows count, once they count as many as were sent."""
    counted, end = 0, time.monotonic() + DEADLINE_S
    while counted < sent and time.monotonic() < end:
        code, rows = run(line.replace("-o json", "-o json 2>/dev/null"), stack, folder)
        assert code == 0, rows
        counted = sum(row["fields"]["num_of_records"] for row in json.loads(rows))
    return counted
