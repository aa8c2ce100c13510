"""Import statements of a Protobuf source, found without a compiler: it may refuse the source. Pure."""

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
    """Import statement of a source."""

    name: str
    """Path between the quotes, unchanged."""
    line: int
    """Line of the word `import`, from 1."""
    column: int
    """Column of that word, from 1, in code points."""


def scan_imports(source: str) -> list[Import]:
    """Find the import statements of a source, in order; of a broken source those that are whole."""
    return list(_iterate_imports(source))


def _iterate_imports(source: str) -> Iterator[Import]:
    # Where a statement may begin; offset of an open `import`, -1 without one; depth in braces.
    begins, import_offset, depth = True, -1, 0
    for token in _TOKEN.finditer(source):
        text, word, mark = token["text"], token["word"], token["mark"]
        if text is None and word is None and mark is None:
            continue  # a comment
        if import_offset >= 0 and text is not None:
            line_start = source.rfind("\n", 0, import_offset) + 1
            yield Import(text[1:-1], source.count("\n", 0, import_offset) + 1, import_offset - line_start + 1)
            import_offset = -1
        elif import_offset < 0 or word not in _KINDS:
            import_offset = token.start() if begins and not depth and word == "import" else -1
        depth += {"{": 1, "}": -1}.get(mark or "", 0)
        begins = mark in (";", "}")
