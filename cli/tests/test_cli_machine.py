"""Files that this machine does not let be used: one sentence, and no mistake of ours."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from cli.framework.machine import refusal


def test_a_file_that_cannot_be_opened_is_named_and_is_no_mistake_of_daggers(
    shell: Any, tmp_path: Path
) -> None:
    (tmp_path / "state" / ".lock").mkdir(parents=True)  # it is locked by a file of this name
    code, _, said = shell("local", "down", "--state-dir", tmp_path / "state")

    assert (code, said) == (1, f"error: {tmp_path}/state/.lock: Is a directory\n")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM])
def test_a_file_of_somebody_else_is_said_to_be_so(tmp_path: Path, code: int) -> None:
    folder = Path("/etc")  # root's
    if os.geteuid() == 0:
        folder = tmp_path / "theirs"
        folder.mkdir()
        os.chown(folder, 12345, -1)
    owner = "12345" if os.geteuid() == 0 else "root"
    error = refusal(OSError(code, os.strerror(code), str(folder / "none" / "file")))

    assert error.message.startswith(
        f"{folder}/none/file: {os.strerror(code)} ({folder} is {owner}'s; you are "
    )
    assert error.reason == "FILE_UNUSABLE"


def test_a_file_of_ones_own_and_a_full_disk_are_nobody_elses(tmp_path: Path) -> None:
    own = refusal(OSError(errno.EACCES, "Permission denied"), tmp_path / "mine")
    full = refusal(OSError(errno.ENOSPC, "No space left on device", "/etc/x"))

    assert own.message == f"{tmp_path}/mine: Permission denied"
    assert full.message == "/etc/x: No space left on device"
