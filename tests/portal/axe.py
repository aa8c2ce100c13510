"""Judge a page as it is drawn, by axe and the checklist of docs/portal.md: each size and scheme, of one load.

With `pytest --pictures FOLDER` each page that is judged is pictured as well (`make portal-states`).
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page

SIZES: Final = ((1440, 900), (360, 740))
SCHEMES: Final = ("light", "dark")
RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
CHECKLIST: Final = Path(__file__).with_name("checklist.js").read_text()
TALLEST: Final = 2_400
"""Pixels of a picture: what is further down is more of the same."""
_RUN: Final = "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})"
_DRAWN: Final = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"""
_BEYOND: Final = "document.documentElement.scrollWidth - innerWidth"
_HEIGHT: Final = """() => {
  const main = document.querySelector("main");
  return innerHeight - main.clientHeight + main.scrollHeight;
}"""


class Pictures:
    """Where pages are pictured; nowhere by default."""

    folder: Path | None = None
    test: str = ""

    def take(self, page: Page, width: int, height: int, scheme: str) -> None:
        """Picture all of a page, as long as it is."""
        if self.folder is None:
            return
        address = page.url.partition("://")[2].partition("/")[2]
        name = re.sub(r"[^\w=]+", "-", f"{address} {self.test.removeprefix('test_')}").strip("-")[:120]
        tall = min(max(height, page.evaluate(_HEIGHT)), TALLEST)
        page.set_viewport_size({"width": width, "height": tall})
        page.evaluate(_DRAWN)
        end = f"{width}-{scheme}.png"
        paths = (self.folder / f"{name}{more}-{end}" for more in ("", *(f"-{step}" for step in range(2, 99))))
        page.screenshot(path=next(path for path in paths if not path.exists()))
        page.set_viewport_size({"width": width, "height": height})

    def take_all(self, page: Page) -> None:
        """Picture a page in both sizes and schemes."""
        for (width, height), scheme in product(SIZES, SCHEMES) if self.folder else ():
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=scheme)
            self.take(page, width, height, scheme)


PICTURES: Final = Pictures()


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
        if scheme == SCHEMES[0]:  # where things stand does not depend on their colours
            found += [(width, fault) for fault in page.evaluate(CHECKLIST)]
        PICTURES.take(page, width, height, scheme)
    return found
