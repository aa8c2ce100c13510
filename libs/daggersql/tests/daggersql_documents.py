"""Find the examples in the pages for analysts: blocks of ```sql."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("dialect.md", "coming-from-flink.md")
_BLOCK = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _read_examples() -> list[tuple[str, str]]:
    """Read page and line of each block, and its text."""
    blocks = []
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        blocks += [
            (f"{page}:{text.count(chr(10), 0, block.start()) + 1}", block[1])
            for block in _BLOCK.finditer(text)
        ]
    return blocks


EXAMPLES = dict(_read_examples())
