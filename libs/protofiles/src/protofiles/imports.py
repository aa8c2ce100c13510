"""What a Protobuf source imports, read without a compiler: known also where that refuses. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""//[^\n]* | /\*.*?(?:\*/|\Z) | (?P<text>"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*')
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*) | (?P<mark>[^\s])""",
    re.DOTALL | re.VERBOSE,
)
_KINDS: Final = frozenset({"public", "weak", "option"})


@dataclass(frozen=True, slots=True)
class Import:
    """One import of a source."""

    name: str
    """As the source writes it."""
    line: int
    """Of the word `import`, from 1."""
    column: int
    """From 1, in code points."""


def scan(source: str) -> list[Import]:
    """The imports of a source, in order."""
    return list(_imports(source))


def _imports(source: str) -> Iterator[Import]:
    begins, word_at, depth = True, -1, 0
    for token in _TOKEN.finditer(source):
        text, word, mark = token["text"], token["word"], token["mark"]
        if text is None and word is None and mark is None:
            continue  # a comment
        if word_at >= 0 and text is not None:
            line_start = source.rfind("\n", 0, word_at) + 1
            yield Import(text[1:-1], source.count("\n", 0, word_at) + 1, word_at - line_start + 1)
            word_at = -1
        elif word_at < 0 or word not in _KINDS:
            word_at = token.start() if begins and not depth and word == "import" else -1
        depth += {"{": 1, "}": -1}.get(mark or "", 0)
        begins = mark in (";", "}")
