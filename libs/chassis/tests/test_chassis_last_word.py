"""Last words of processes: the steps that they were in are known after kill -9, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from chassis.lastword import FILE, LastWord, StepRecorder, create, read

_DIES = """
import os, sys, threading, time
from pathlib import Path
from chassis.lastword import StepRecorder

steps = StepRecorder(Path(sys.argv[1]))
with steps.step("ended", 1, "batch"):
    pass

def work(dagger):
    with steps.step(dagger, 7, "batch"):
        both.wait(30)
        time.sleep(60)

both = threading.Barrier(3)
for dagger in ("one", "other"):
    threading.Thread(target=work, args=(dagger,), daemon=True).start()
both.wait(30)
if os.fork() == 0:
    with steps.step("forked", 8, "read"):
        print("there", flush=True)
        time.sleep(60)
time.sleep(60)
"""


def test_a_killed_process_leaves_the_steps_of_its_threads_and_of_its_forks(tmp_path: Path) -> None:
    create(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", _DIES, str(tmp_path)],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "there\n"
        os.killpg(process.pid, signal.SIGKILL)

    expected = (LastWord("forked", 8, "read"), LastWord("one", 7, "batch"), LastWord("other", 7, "batch"))
    assert read(tmp_path) == expected
    steps = StepRecorder(tmp_path)
    with steps.step("next", 9, "batch"):
        assert {*read(tmp_path)} == {LastWord("next", 9, "batch"), *expected}


def test_a_step_that_fails_stays_until_its_launch_begins_another(tmp_path: Path) -> None:
    # who works with the process that has died sees an error, and may end in order
    create(tmp_path)
    steps = StepRecorder(tmp_path)
    for number in range(300):  # more launches than slots
        with pytest.raises(ConnectionError), steps.step("failing", number, "compute"):
            raise ConnectionError
    failed = read(tmp_path)
    with steps.step("failing", 299, "write"):
        again = [word.step for word in read(tmp_path) if word.generation == 299]

    assert failed[-1] == LastWord("failing", 299, "compute")
    assert again == ["write"]
    assert 299 not in {word.generation for word in read(tmp_path)}


@pytest.mark.parametrize("error", [KeyError, GeneratorExit])
def test_a_step_that_ends_by_a_harmless_error_is_over(tmp_path: Path, error: type[BaseException]) -> None:
    create(tmp_path)
    with pytest.raises(error), StepRecorder(tmp_path).step("d", 1, "commit", harmless=(KeyError,)):
        raise error

    assert read(tmp_path) == ()


def test_no_step_is_lost_among_more_threads_than_slots(tmp_path: Path) -> None:
    create(tmp_path)
    steps = StepRecorder(tmp_path)
    count = 200
    begun, leave = threading.Barrier(count + 1), threading.Event()

    def work(number: int) -> None:
        with steps.step(f"dagger-{number}", number, "batch"):
            begun.wait(60)
            leave.wait(60)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    begun.wait(60)
    words = read(tmp_path)
    leave.set()
    for thread in threads:
        thread.join(60)

    assert len(words) == 128
    assert all(word.dagger == f"dagger-{word.generation}" for word in words)
    assert read(tmp_path) == ()


@pytest.mark.parametrize("content", [b"", b"\xff" * 128, b"\x05\x00" + bytes(126), b"short", b"\x05" * 4096])
def test_what_is_no_word_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)

    assert read(tmp_path) == ()


@pytest.mark.parametrize("content", [None, b"short"])
def test_a_process_without_a_file_works_and_leaves_no_word(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / FILE).write_bytes(content)
    with StepRecorder(tmp_path).step("dagger", 1, "batch"):
        assert read(tmp_path) == ()


def test_a_step_of_a_long_name_is_cut(tmp_path: Path) -> None:
    create(tmp_path)
    with StepRecorder(tmp_path).step("d" * 63, 1, "write " + "s" * 200):
        (word,) = read(tmp_path)

    assert (word.dagger, word.step[:10]) == ("d" * 63, "write ssss")
