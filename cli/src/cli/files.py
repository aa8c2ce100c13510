"""Files that others may read while they are written."""

import os
import tempfile
from pathlib import Path


def write(file: Path, text: str, *, mode: int = 0o600) -> None:
    """Replace a file's text in one step; readers see the old text or the new one, whole."""
    handle, fresh = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(text)
    Path(fresh).chmod(mode)
    Path(fresh).replace(file)
