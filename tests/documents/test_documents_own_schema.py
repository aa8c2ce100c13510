"""docs/own-schema.md as somebody follows it, on the real stack: every file written, every command run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Stack
from tests.documents.pages import ROOT, Page

PAGE = Page(ROOT / "docs" / "own-schema.md")
DEADLINE_S = 120


def steps() -> list[tuple[str, str]]:
    """The files and the command lines of the page, in its order: a language, and the text."""
    found = []
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```", PAGE.text, re.MULTILINE | re.DOTALL):
        if language == "console":
            lines = text.replace("\\\n", " ").splitlines()
            found += [("console", line.removeprefix("$ ")) for line in lines]
        else:
            found.append((language, text))
    return found


def run(line: str, stack: Stack, folder: Path) -> str:
    """What a command of the page prints; it must succeed."""
    scripts = str(Path(sys.executable).parent)
    here = {"PATH": f"{scripts}:{os.environ['PATH']}", "DAGGERS_GATEWAY": stack.gateway}  # noqa: TID251
    done = subprocess.run(
        ["bash", "-c", line.replace("HOST:PORT", stack.kafka)],
        cwd=folder,
        env={**os.environ, **here},  # noqa: TID251 - a child's own
        capture_output=True, text=True, check=False, timeout=DEADLINE_S + 60,
    )  # fmt: skip
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_page_without_a_stack_has_its_files_and_its_commands() -> None:
    languages = [language for language, _ in steps()]

    assert (languages.count("protobuf"), languages.count("python")) == (1, 1)
    assert languages.count("console") > 10


@pytest.mark.integration
@pytest.mark.long
def test_every_command_of_the_page_works_and_the_rows_count_what_was_sent(
    stack: Stack, tmp_path: Path
) -> None:
    printed: dict[str, str] = {}
    counted = sent = 0
    for language, text in steps():
        if language != "console":
            (tmp_path / {"protobuf": "coffee.proto", "python": "feed.py"}[language]).write_text(text)
        elif text.startswith(("export ", "daggers local ", "mkdir ")):
            continue  # the stack of the tests, and a folder of this one's
        elif text == "daggers rows coffee_by_city":
            sent = int(printed["python feed.py HOST:PORT 20"].split()[-1])
            end = time.monotonic() + DEADLINE_S
            while counted < sent and time.monotonic() < end:
                rows = json.loads(run(f"{text} --limit 1000 -o json", stack, tmp_path))
                counted = sum(row["fields"]["num_of_records"] for row in rows)
            run(text, stack, tmp_path)
        else:
            printed[text] = run(text, stack, tmp_path)

    assert sent > 0
    assert counted == sent
    assert "placed_at" in printed["daggers stream describe coffee_orders"]
