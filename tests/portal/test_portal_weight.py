"""What comes over the wire for a screen, by the built files: each as a browser takes it, by Brotli."""

from __future__ import annotations

import json
from graphlib import TopologicalSorter
from typing import Any, Final

import pytest

from portal.pages import STATIC

CALLS: Final = "src/lib/who.ts"
"""What the frame loads before any screen: the calls."""


@pytest.fixture(scope="module")
def modules() -> dict[str, dict[str, Any]]:
    """What the build says of its files: module to file, styles and imports."""
    told = STATIC / ".vite" / "manifest.json"
    assert told.exists(), "the pages are not built: make web"
    manifest: dict[str, dict[str, Any]] = json.loads(told.read_text())
    # Where a file has several modules, the manifest has a name of the file in place of theirs.
    of = {each["name"]: name for name, each in manifest.items() if name.startswith("_") and "name" in each}
    return manifest | {CALLS: manifest.get(CALLS) or manifest[of["who"]]}


def kib(modules: dict[str, dict[str, Any]], *names: str) -> float:
    """KiB of all files that these modules need."""
    needed, due = set[str](), list(names)
    while due:
        name = due.pop()
        if name not in needed:
            needed.add(name)
            due += modules[name].get("imports", [])
    files = {file for name in needed for file in (modules[name]["file"], *modules[name].get("css", []))}
    assert files
    return sum((STATIC / f"{file}.br").stat().st_size for file in files) / 1024


def test_the_frame_is_drawn_from_few_bytes(modules: dict[str, dict[str, Any]]) -> None:
    assert kib(modules, "index.html") <= 30


@pytest.mark.parametrize(
    ("screen", "bound"),
    [("list/List", 89), ("dagger/Dagger", 124), ("studio/Studio", 220)],  # messages of the API among it
)
def test_a_screen_stays_within_its_bound(
    modules: dict[str, dict[str, Any]], screen: str, bound: float
) -> None:
    assert kib(modules, "index.html", CALLS, f"src/screens/{screen}.svelte") <= bound


def test_who_reads_a_list_loads_no_editor_and_no_chart(modules: dict[str, dict[str, Any]]) -> None:
    """Beyond the frame, the calls and its own messages, a small screen has next to nothing."""
    frame = kib(modules, "index.html", CALLS)

    assert kib(modules, "index.html", CALLS, "src/screens/list/List.svelte") - frame <= 23


def test_no_file_needs_one_that_needs_it(modules: dict[str, dict[str, Any]]) -> None:
    """Files that need each other run in no order that is right for both: one finds the other empty."""
    order = TopologicalSorter({name: each.get("imports", []) for name, each in modules.items()})

    assert list(order.static_order())  # raises CycleError
