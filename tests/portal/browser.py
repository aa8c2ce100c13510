"""A real Chromium: from npm, by its lock, unless this machine has one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes.util import find_library
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from tests import npm

_HERE = Path(__file__).parent
_UNPACK = """
import chromium, { inflate } from "@sparticuz/chromium";
await Promise.all([
    chromium.executablePath(),
    inflate("node_modules/@sparticuz/chromium/bin/al2023.tar.br"),
]);
"""
_FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}</dir><cachedir>{folder}/cache</cachedir></fontconfig>
"""
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


def installed() -> Path:
    """Return the folder with Chromium and axe, which is filled once."""
    return npm.installed(_HERE, "chromium", _unpack)


def _unpack(home: Path) -> None:
    subprocess.run(
        [npm.NODE, "--input-type=module", "--eval", _UNPACK],
        cwd=home, env={"PATH": os.defpath, "TMPDIR": str(home)}, check=True, capture_output=True,
    )  # fmt: skip
    (home / "fonts.conf").write_text(_FONTS.format(folder=home / "fonts"))


def _environment() -> dict[str, str]:
    """Return the libraries and fonts of its package, for a machine that has none."""
    given = {}
    if find_library("nss3") is None:
        given["LD_LIBRARY_PATH"] = str(installed() / "al2023" / "lib")
    if not Path("/etc/fonts/fonts.conf").is_file():
        given["FONTCONFIG_FILE"] = str(installed() / "fonts.conf")
    return given


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser. Raises where there is none."""
    executable = shutil.which("chromium") or str(installed() / "chromium")
    # Playwright's own Node needs libraries that a machine may not have; ours needs none.
    os.environ["PLAYWRIGHT_NODEJS_PATH"] = str(npm.NODE)  # noqa: TID251 - Playwright has no other way
    environment: dict[str, str | float | bool] = {**os.environ, **_environment()}  # noqa: TID251 - what a browser inherits
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=_FLAGS, env=environment)
        yield browser
        browser.close()
