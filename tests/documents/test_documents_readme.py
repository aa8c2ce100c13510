"""What README.md shows is what the commands print; times and counts are as they come."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.documents.pages import ROOT, Page

from daggerclient.daggerfile import parse

README = Page(ROOT / "README.md")
DAGGERS = Path(sys.executable).with_name("daggers")


def shape(line: str) -> str:
    """A line without its times, counts and places, and without what stands behind a cut."""
    line = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "T", line)
    line = re.sub(r"'[^']*demo\.token'", "FILE", line).partition("…")[0]
    line = re.sub(r"\d+ (d|h|min) \d+ (h|min|s)\b|\d+ (d|h|min)\b", "N s", line)
    line = re.sub(r"(?<![\w_])\d+(\.\d+)?", "N", line)
    return " ".join(line.split())


def shown(command: str) -> list[str]:
    """What README.md shows under a command: the lines of the block behind it."""
    blocks = re.findall(rf"\$ {command}\n```\n\n```\n(.*?)```", README.text, re.DOTALL)
    assert len(blocks) == 1
    return [line for line in blocks[0].splitlines() if line.strip() != "…"]


def missing(told: list[str], printed: str) -> list[str]:
    """The lines of a document that a command has not printed."""
    seen = [shape(line) for line in printed.splitlines()]
    return [line for line in told if not any(each.startswith(shape(line)) for each in seen)]


@pytest.mark.parametrize(
    ("told", "printed", "lacking"),
    [
        ("  29 s  feeding  701 bookings", "  31 s  feeding  690 bookings", 0),
        ("verified: 12 windows, 0 mismatches", "verified: 13 windows, 0 mismatches", 0),
        ("on-call | since 2026-11-21T11:17:10.8Z", "on-call | since 2026-12-01T01:00:00Z", 0),
        ("it was given up: SECRET_MISSING: The secr…", "it was given up: SECRET_MISSING: The secret file", 0),
        ("it lasted 43 s; it was", "it lasted 2 min 3 s; it was", 0),
        ("it lasted 43 s; it was", "it lasted 2 min; it was", 0),
        ("✓ kafka 1.6 s", "✓ Kafka 1.6 s", 1),
    ],
)
def test_lines_are_compared_but_for_times_and_counts(told: str, printed: str, lacking: int) -> None:
    assert len(missing([told], printed)) == lacking


def test_the_dagger_it_shows_is_a_whole_one() -> None:
    [text] = README.blocks("yaml")

    [dagger] = parse.parse(text, "README.md")
    [example] = parse.parse((ROOT / "examples/daggers/completed_bookings.yaml").read_text("utf-8"), "example")

    assert (dagger.name, " ".join(dagger.spec.sql.split())) == (
        example.name,
        " ".join(example.spec.sql.split()),
    )


@pytest.mark.integration
@pytest.mark.long
def test_the_demo_prints_what_it_shows(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    try:
        done = subprocess.run(
            [DAGGERS, "--state-dir", folder, "demo"],
            env={**os.environ, "COLUMNS": "120"},  # noqa: TID251 - a child's own
            capture_output=True, text=True, timeout=480,
        )  # fmt: skip
    finally:  # a demo that was ended leaves its stack behind
        subprocess.run([DAGGERS, "--state-dir", folder, "local", "down"], check=True, timeout=100)

    assert done.returncode == 0, done.stderr
    assert missing(shown("make demo"), done.stdout + done.stderr) == []
