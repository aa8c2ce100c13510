"""Let axe judge a page: in both schemes and sizes, of one load."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page

SIZES: Final = ((1440, 900), (390, 844))
SCHEMES: Final = ("light", "dark")
RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_RUN: Final = "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})"
_DRAWN: Final = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"""
_BEYOND: Final = "document.documentElement.scrollWidth - innerWidth"


def violations(page: Page, packages: Path) -> list[tuple[Any, ...]]:
    """Of a page that was opened with `axe=True`: width, scheme, rule, and where; being too wide is one."""
    if not page.evaluate("'axe' in window"):
        page.evaluate((packages / "node_modules" / "axe-core" / "axe.min.js").read_text())
    found: list[tuple[Any, ...]] = []
    for (width, height), scheme in product(SIZES, SCHEMES):
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        page.evaluate(_DRAWN)
        judged = page.evaluate(_RUN, RULES)
        found += [
            (width, scheme, each["id"], [node["target"] for node in each["nodes"]])
            for each in judged["violations"]
        ]
        if (beyond := page.evaluate(_BEYOND)) > 0:
            found.append((width, scheme, "wider than the page", beyond))
    return found
