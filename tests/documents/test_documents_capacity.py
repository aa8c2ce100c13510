"""docs/capacity.md reckons with the numbers that the code has, and with those that were measured."""

from __future__ import annotations

import re

import pytest
from tests.documents.pages import ROOT, Page

from daggerspec import limits
from scheduler.leader import capacity

PAGE = Page(ROOT / "docs" / "capacity.md")
MEASURED = Page(ROOT / "docs" / "performance.md")


@pytest.mark.parametrize(
    "number",
    [
        capacity.RESERVE_MIB,
        limits.DRIVER_OVERHEAD_MIB,
        limits.DEFAULT_DRIVER_MEMORY_MIB,
        limits.MIN_DRIVER_MEMORY_MIB,
        limits.MAX_STREAMS,
        limits.MAX_SINKS,
        limits.MAX_TOPICS,
    ],
)
def test_a_limit_of_the_code_stands_in_the_page(number: int) -> None:
    assert f" {number:,} " in PAGE.text.replace("(", " ").replace(")", " ").replace("-", " ")


@pytest.mark.parametrize(
    "said",
    [
        r"^live, 41667 records/s, .*: ([\d.]+) cores",
        r"^idle dagger, .* ([\d.]+) cores",
        r"^daggers per machine: (\d+) idle ones by memory",
        r"^cold start, .* median ([\d.]+ s) of",
        r"^disk: .* ([\d,]+) rows written",
    ],
)
def test_a_number_of_a_bench_is_the_published_one(said: str) -> None:
    measured = re.search(said, MEASURED.text, re.MULTILINE)

    assert measured
    assert measured[1] in PAGE.text


def test_the_formula_is_the_schedulers_and_its_examples_are_right() -> None:
    each = limits.DEFAULT_DRIVER_MEMORY_MIB + limits.DRIVER_OVERHEAD_MIB
    room = int(re.findall(r"idle ones by memory \((\d+) MiB\)", MEASURED.text)[0])
    by_cores = 16 / (0.02 + 10_000 / 130_000)

    assert capacity.max_drivers(61_440, limits.DEFAULT_DRIVER_MEMORY_MIB) == 25
    assert f"÷ {each:,} = 25" in PAGE.text
    assert f"formula says {capacity.max_drivers(room, limits.DEFAULT_DRIVER_MEMORY_MIB)}" in PAGE.text
    assert int(by_cores) == 165
