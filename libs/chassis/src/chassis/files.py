"""Files that another process, or another thread, reads at any time."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def make_private(folder: Path) -> Path:
    """Make a folder that nobody else may look into, or make it so where it is there. Raises: OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def replace_text(path: Path, text: str, *, durable: bool = False, private: bool = False) -> None:
    """Make `text` the content of a file, as `replace_bytes` does."""
    replace_bytes(path, text.encode(), durable=durable, private=private)


def replace_bytes(path: Path, content: bytes, *, durable: bool = False, private: bool = False) -> None:
    """Make `content` all of a file in one step: who reads sees the old content or the new one, whole.

    `durable`: also after a power cut. `private`: no other user can read it, at any moment. Of several
    writers at once, one's content stays. Raises: OSError.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.new")
    with open(
        fresh, "wb", opener=lambda name, flags: os.open(name, flags, 0o600 if private else 0o666)
    ) as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    fresh.replace(path)
