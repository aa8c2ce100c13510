"""What the process table says of sessions."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from chassis import processes

# Burns processor time in a child that has ended, says how much, and goes on living.
BURNS = """
import resource, subprocess, sys
burn = "import time\\nwhile time.process_time() < 0.5: pass"
subprocess.run([sys.executable, "-c", burn], check=True)
print(sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]), flush=True)
sys.stdin.read()
"""


def test_the_memory_of_a_session_is_that_of_its_processes() -> None:
    assert processes.measure_session(os.getsid(0)).resident_bytes > 10_000_000


def test_a_session_that_is_gone_takes_nothing() -> None:
    assert processes.measure_session(2**22 + 1) == processes.SessionUsage(0, 0.0)
    assert processes.age_ms(2**22 + 1) == 0


def test_processor_time_of_a_session_has_that_of_processes_that_ended_in_it() -> None:
    began = time.monotonic()
    command = [sys.executable, "-c", BURNS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as burning:
        assert burning.stdout is not None
        burned = float(burning.stdout.readline())
        used, age_ms = processes.measure_session(burning.pid), processes.age_ms(burning.pid)
        lived_s = time.monotonic() - began
        burning.communicate()

    assert 0.4 < burned - 0.1 <= used.cpu_seconds <= (lived_s + 1) * (os.cpu_count() or 1)
    assert 0 < age_ms <= (lived_s + 1) * 1_000
