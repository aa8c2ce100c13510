from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chassis.oomkills import KillCount
from daggerspec.exits import NO_EXECUTORS
from runtime.errors import UNEXPECTED
from runtime.spark.jvm import JvmWatch

# A process that starts the one below; the one below kills it and explains a failure it has no words for.
STARTS = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
EXPLAINS = """
import os, pathlib, runtime.spark.jvm, signal, sys, threading, time
from runtime.spark.jvm import JvmWatch
runtime.spark.jvm._DYING_S = 30
watch, pid = JvmWatch(), os.getppid()
threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
while sys.argv[1] == "afterwards" and os.getppid() == pid:
    time.sleep(0.05)
pathlib.Path(sys.argv[2]).write_text(watch.explain(TypeError("'JavaPackage' object is not callable")).reason)
"""


def explained(said: Path, when: str) -> str:
    # the output is a pipe that both hold open, so this waits for both
    words = [sys.executable, "-c", STARTS, EXPLAINS, when, str(said)]
    subprocess.run(words, check=False, stdout=subprocess.PIPE, timeout=60)
    return said.read_text()


def test_what_fails_after_the_parent_died_failed_of_that(tmp_path: Path) -> None:
    assert explained(tmp_path / "said", "afterwards") == "JVM_GONE"


def test_a_parent_that_dies_a_moment_after_the_failure_is_waited_for(tmp_path: Path) -> None:
    assert explained(tmp_path / "said", "before") == "JVM_GONE"


def test_a_parent_that_died_while_the_kernel_killed_for_memory_died_of_that() -> None:
    group = Path("memory.events")
    counts = iter([KillCount(group, 7), KillCount(group, 8)])

    assert JvmWatch(lambda: next(counts)).death().reason == "OUT_OF_MEMORY"
    assert JvmWatch(lambda: KillCount(group, 7)).death().reason == "JVM_GONE"


def test_with_a_living_parent_the_failure_is_its_own_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.spark.jvm._DYING_S", 0.2)

    assert JvmWatch().explain(TypeError("'JavaPackage' object is not callable")).reason == UNEXPECTED
    assert JvmWatch().explain(RuntimeError("a stopped SparkContext")).reason == NO_EXECUTORS


def test_a_failure_that_was_explained_is_not_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, failure, naps = JvmWatch(), TypeError("'JavaPackage' object is not callable"), []
    monkeypatch.setattr("runtime.spark.jvm._DYING_S", 0.2)
    watch.explain(failure)
    monkeypatch.setattr("runtime.spark.jvm.time.sleep", naps.append)

    assert (watch.explain(failure).reason, naps) == (UNEXPECTED, [])
