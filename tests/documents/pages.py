"""The documents as data: their text, their code spans and blocks, their headings and links."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)


@lru_cache
def tracked() -> frozenset[str]:
    """Every file of the project, and every folder of one, relative to its root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    files = [Path(line) for line in done.stdout.splitlines() if (ROOT / line).exists()]
    folders = {str(folder) for file in files for folder in file.parents}
    return frozenset({*map(str, files), *folders} - {"."})


def slug(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@dataclass(frozen=True)
class Page:
    """One document."""

    path: Path

    @property
    def name(self) -> str:
        """Relative to the root."""
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        """As it stands in the file."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def prose(self) -> str:
        """Without the code blocks."""
        return _FENCE.sub("\n", self.text)

    @property
    def spans(self) -> list[str]:
        """What stands in backticks, a line break as a blank."""
        return [" ".join(found.split()) for found in _SPAN.findall(self.prose)]

    def blocks(self, *languages: str) -> list[str]:
        """The code blocks in these languages."""
        return [text for language, text in _FENCE.findall(self.text) if language in languages]

    @property
    def links(self) -> list[str]:
        """Where its links lead, but for those out of the project."""
        return [word for word in _LINK.findall(self.prose) if not word.startswith(("http://", "https://"))]

    @cached_property
    def anchors(self) -> frozenset[str]:
        """Where links may lead within it."""
        return frozenset(slug(title) for _, title in _HEADING.findall(self.prose))

    def section(self, anchor: str) -> str:
        """The text below a heading, up to the next one that is not below it."""
        headings = list(_HEADING.finditer(self.text))
        for number, found in enumerate(headings):
            if slug(found[2]) == anchor:
                end = (
                    heading.start() for heading in headings[number + 1 :] if len(heading[1]) <= len(found[1])
                )
                return self.text[found.end() : next(end, len(self.text))].strip()
        raise KeyError(anchor)


def pages() -> Iterator[Page]:
    """Every document of the project."""
    yield from (Page(ROOT / name) for name in sorted(tracked()) if name.endswith(".md"))


def current() -> Iterator[Page]:
    """The documents that say what is: not the changelog and not the decisions, which say what was."""
    yield from (
        page
        for page in pages()
        if page.name != "CHANGELOG.md" and not page.name.startswith("docs/decisions/")
    )
