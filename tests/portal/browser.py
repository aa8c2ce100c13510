"""A real Chromium: from npm, by its lock, unless this machine has one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from tests import npm

_HERE = Path(__file__).parent
_UNPACK = "import c from '@sparticuz/chromium'; console.log(await c.executablePath());"
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


def installed() -> Path:
    """The folder with Chromium and axe, which is filled once."""
    return npm.installed(_HERE, "browser", _unpack)


def _unpack(home: Path) -> None:
    subprocess.run(
        [npm.NODE, "--input-type=module", "--eval", _UNPACK],
        cwd=home, env={"PATH": os.defpath, "TMPDIR": str(home)}, check=True, capture_output=True,
    )  # fmt: skip


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that is started. Raises where there is none."""
    executable = shutil.which("chromium") or str(installed() / "chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=_FLAGS)
        yield browser
        browser.close()
