"""Helpers of test_walk_analyst.py and of its neighbours."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.documents.pages import ROOT, Page

PAGE = Page(ROOT / "docs" / "own-schema.md")
FILES = {"protobuf": "coffee.proto", "python": "feed.py"}


@dataclass(frozen=True)
class Step:
    """A file that is written, or a command that is run."""

    language: str
    text: str
    shown: str = ""
    """What the page shows of what it prints; it is all of it then."""


def steps() -> list[Step]:
    """The files and the command lines of the page, in its order."""
    found: list[Step] = []
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```", PAGE.text, re.MULTILINE | re.DOTALL):
        if language != "console":
            found.append(Step(language, text))
            continue
        for command in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            line, _, shown = command.replace("\\\n", " ").partition("\n")
            found.append(Step(language, line, shown))
    return found
