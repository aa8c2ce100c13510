"""The list of what a machine lacks, at the end of a run."""

from __future__ import annotations

import re

import pytest
from tests.documents.pages import ROOT, tracked
from tests.skips import KNOWN, lacking, summary

pytest_plugins = ["pytester"]
_REASON = re.compile(r"""(?:pytest\.skip\(\s*|skipif\([^"]*?reason=)f?"([^"]+)\"""")


def test_every_reason_for_which_a_test_is_skipped_is_listed() -> None:
    files = [file for file in tracked() if file.endswith(".py") and file != "tests/test_skips.py"]
    reasons = {reason for file in files for reason in _REASON.findall((ROOT / file).read_text("utf-8"))}

    assert len(reasons) > 10
    assert [reason for reason in sorted(reasons) if lacking(reason) is None] == []


def test_contributing_names_every_package_that_tests_have_a_use_for() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    [packages] = re.findall(r"^\$ apt-get install (.+)$", page, re.MULTILINE)

    assert packages.split() == sorted({package for known in KNOWN for package in known.packages})


def test_what_was_skipped_is_one_list_with_the_line_that_installs_it() -> None:
    reasons = ["no openssl to make a certificate with", "no Redis on this machine: …"] * 2

    assert summary([*reasons, "there is no pgbouncer", "for fun"]) == [
        "    1 skipped: for fun",
        "    2 skipped: no Redis on this machine: … -> make redis",
        "    2 skipped: no openssl to make a certificate with",
        "    1 skipped: there is no pgbouncer",
        "apt-get install openssl pgbouncer",
    ]


@pytest.mark.parametrize(
    ("strict", "reason", "ends"),
    [("1", "for fun", 1), ("0", "for fun", 0), ("1", "no Redis on this machine", 0)],
    ids=["strict", "not strict", "strict, and listed"],
)
def test_a_strict_run_fails_for_a_reason_that_nobody_listed(
    strict: str, reason: str, ends: int, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRICT", strict)
    pytester.makepyfile(
        f"import pytest\ndef test_it():\n    pytest.skip({reason!r})\ndef test_other():\n    pass\n"
    )

    ran = pytester.runpytest_inprocess("-p", "tests.skips", "-p", "no:cacheprovider", "-p", "no:asyncio")

    assert ran.ret == ends
    ran.stdout.fnmatch_lines(["*what this machine lacks*", f"*1 skipped: {reason}*"])
