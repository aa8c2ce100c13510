"""What `make fresh` has in its Debian, what it says in the end, and what make says where that is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.documents.pages import ROOT
from tests.fresh import PACKAGES, results


def test_its_debian_has_what_the_readme_says_must_be_there() -> None:
    [said] = re.findall(r"^\$ apt-get install (.+)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)

    assert said.split() == list(PACKAGES)


def test_the_results_of_a_command_are_what_it_said_of_its_end() -> None:
    lines = [
        "1234 passed so far",
        "verified: 12 windows, 989 rows, 0 mismatches",
        "=========== what this machine lacks ===========",
        "",
        "    2 skipped: no openssl to make a certificate with",
        "apt-get install openssl",
        "=========== short test summary info ===========",
        "SKIPPED [1] tests/test_x.py:1: no openssl to make a certificate with",
        "FAILED tests/test_x.py::test_y - assert 1 == 2",
        "1 failed, 9 passed, 2 skipped in 70.01s (0:01:10)",
        "make: *** [Makefile:130: test] Error 1",
    ]

    assert results(lines) == [*lines[1:3], *lines[4:6], *lines[8:10]]


def test_what_it_lacks_itself_is_named_at_once(tmp_path: Path) -> None:
    refused = subprocess.run(
        [sys.executable, ROOT / "tests/fresh.py"], env={"PATH": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    root = "" if os.geteuid() == 0 else "root, "
    assert (refused.returncode, refused.stderr) == (1, f"missing: {root}debootstrap, unshare, git\n")


def test_all_that_is_missing_is_named_at_once_before_anything_is_written(tmp_path: Path) -> None:
    checkout, programs = tmp_path / "checkout", tmp_path / "bin"
    for folder in (checkout, programs):
        folder.mkdir()
    for file in ("Makefile", "requirements-uv.lock"):
        shutil.copy(ROOT / file, checkout)
    for program in ("make", "find"):
        (programs / program).symlink_to(str(shutil.which(program)))
    refused = subprocess.run(
        ["make", "setup"], cwd=checkout, capture_output=True, text=True, check=False, timeout=60,
        env={"PATH": str(programs), "SSL_CERT_FILE": str(tmp_path / "nothing")},
    )  # fmt: skip

    missing = re.findall(r"^missing: (.*?)(?: \(|,)", refused.stdout, re.MULTILINE)
    of_debian = ["the authorities of TLS"] if Path("/etc/debian_version").exists() else []
    assert refused.returncode == 2
    assert missing == ["git", "Python 3.11 or newer", *of_debian]
    assert sorted(file.name for file in checkout.iterdir()) == ["Makefile", "requirements-uv.lock"]
