"""What the process table says of sessions."""

from __future__ import annotations

import os

from chassis import processes


def test_the_memory_of_a_session_is_that_of_its_processes() -> None:
    assert processes.resident_bytes(os.getsid(0)) > 10_000_000


def test_a_session_that_is_gone_has_no_memory() -> None:
    assert processes.resident_bytes(2**22 + 1) == 0
