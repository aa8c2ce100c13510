"""Build C files of this package as shared libraries where a compiler is; Python does the work without one.

A library has a hash of its source in its name, so one of another version is never loaded.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

_COMPILERS: Final = ("cc", "gcc", "clang")
_FLAGS: Final = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
_TIMEOUT_S: Final = 120


def place(source: Path, folder: Path | None = None) -> Path:
    """Return the path of this version's library of a C file; `folder` is its source's own unless given."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    return (folder or source.parent) / f"{source.stem}-{digest}.so"


def build(source: Path, load: Callable[[Path], object], folder: Path | None = None) -> str:
    """Build a C file into a folder, unless it is there, and try to `load` it.

    Returns the reason where it fails, in a sentence; "" when it is there.
    """
    built = place(source, folder)
    if built.is_file():
        return ""
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        return "there is no C compiler (Debian: gcc and libc6-dev)"
    try:
        with tempfile.TemporaryDirectory(dir=built.parent, prefix=f".{source.stem}-") as beside:
            part = Path(beside) / built.name
            words = [compiler, *_FLAGS, "-o", str(part), str(source)]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
            if done.returncode:
                return f"{compiler} fails: {' '.join(done.stderr.split())[:300]}"
            load(part)
            part.replace(built)
        for other in built.parent.glob(f"{source.stem}-*.so"):
            if other != built:
                other.unlink()  # of another version; who has loaded it keeps it
    except (OSError, AttributeError, subprocess.TimeoutExpired) as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""
