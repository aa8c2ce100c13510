"""Files that another process, or another thread, reads at any time."""

from __future__ import annotations

import threading
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Make `text` the content of a file in one step: who reads sees the old text or the new one, whole.

    Of two threads that write at once, one's text stays.
    """
    fresh = path.with_name(f".{path.name}.{threading.get_ident()}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
