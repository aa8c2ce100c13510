"""A secret is read from a file of its own alone, whoever named the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chassis.secretfile import UnreadableError, content
from daggerspec.secrets import MAX_BYTES

REGULAR = "it is not a regular file"


def why(path: str) -> str:
    """Why nothing is read from there."""
    with pytest.raises(UnreadableError) as refused:
        content(path)
    return str(refused.value)


@pytest.mark.parametrize("path", ["/proc/self/environ", "/dev/zero", "/dev/stdin", "/sys/kernel/notes"])
def test_what_processes_devices_and_the_kernel_say_is_no_secret(path: str, tmp_path: Path) -> None:
    link = tmp_path / "token"
    link.symlink_to(path)

    # A mounted folder may lie there under another name: what was opened is asked, too.
    assert {why(path), why(str(link))} <= {REGULAR, "No such file or directory", "No such device or address"}


def test_a_pipe_that_nobody_writes_to_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token")

    assert why(str(tmp_path / "token")) == REGULAR


def test_a_secret_is_text_of_64_kib_at_most(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"x" * MAX_BYTES)
    whole = content(str(file))
    file.write_bytes(b"x" * (MAX_BYTES + 1))
    large = why(str(file))
    file.write_bytes(b"a secret \xff")

    assert (len(whole), large) == (MAX_BYTES, "it has more than 64 KiB")
    assert why(str(file)) == "it is not UTF-8 text"


def test_what_is_not_there_and_what_cannot_be_is_said(tmp_path: Path) -> None:
    assert why(str(tmp_path / "none")) == "No such file or directory"
    assert why("/run/to\0ken") == "no file has such a name"
