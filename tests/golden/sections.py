"""A file of texts, each below a line with its name."""

import re
from collections.abc import Mapping
from pathlib import Path

_MARK = "== "


def write(file: Path, sections: Mapping[str, str]) -> None:
    """Write texts that end with a line break."""
    text = "".join(f"{_MARK}{name}\n{section}" for name, section in sections.items())
    file.write_text(text, encoding="utf-8")


def read(file: Path) -> dict[str, str]:
    """Read the texts by name."""
    parts = re.split(f"^{_MARK}(.*)\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))
