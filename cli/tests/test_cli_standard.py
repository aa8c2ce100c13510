"""Answers that cannot be written: every command ends with the code that its shell expects, by no trace.

reader that has enough   0, and nothing on stderr
full disk, closed        4, and one sentence
a terminal that is gone  4, and one sentence
ASCII alone              0, and every character is there in some way
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.errors import UnwrittenError
from cli.reference import commands

EACH_HELP = """\
import json, os, sys
from cli.__main__ import main
from cli.reference import commands
list(commands())
codes = {}
for words in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        sys.argv[1:] = [*words, "--help"]
        try:
            main()
        except SystemExit as end:
            os._exit(end.code)
    codes[" ".join(words)] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
os.write(int(sys.argv[2]), json.dumps(codes).encode())
"""
"""Every command says what it is for, each in a process that has loaded the rest already, and ends at once."""

EACH = [name.split()[1:] for name, _ in commands()]


@contextmanager
def full() -> Iterator[int]:
    """A file on a disk without room."""
    number = os.open("/dev/full", os.O_WRONLY)
    yield number
    os.close(number)


@contextmanager
def enough() -> Iterator[int]:
    """A pipe whose reader went away."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@contextmanager
def gone() -> Iterator[int]:
    """A terminal that was closed."""
    terminal, number = pty.openpty()
    os.close(terminal)
    yield number
    os.close(number)


@contextmanager
def unopened() -> Iterator[int]:
    """A file that can only be read: what a closed standard output becomes."""
    number = os.open(os.devnull, os.O_RDONLY)
    yield number
    os.close(number)


UNWRITABLE: dict[str, tuple[Callable[[], Any], int]] = {
    "full": (full, UnwrittenError.exit_code),
    "enough": (enough, 0),
    "gone": (gone, UnwrittenError.exit_code),
    "unopened": (unopened, UnwrittenError.exit_code),
}
every_trouble = pytest.mark.parametrize("trouble", UNWRITABLE)


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(folder), "PATH": os.defpath, "HOME": str(folder), **more}


@every_trouble
def test_the_help_of_each_command_ends_as_its_shell_expects(trouble: str, tmp_path: Path) -> None:
    into, code = UNWRITABLE[trouble]
    reader, writer = os.pipe()
    with into() as number:
        done = subprocess.run(
            [sys.executable, "-c", EACH_HELP, json.dumps(EACH), str(writer)],
            stdout=number, stderr=subprocess.PIPE, pass_fds=[writer], text=True, check=False,
            timeout=300, env=environment(tmp_path),
        )  # fmt: skip
    os.close(writer)
    with os.fdopen(reader) as told:
        codes = json.load(told)

    assert len(codes) > 60
    assert {words: got for words, got in codes.items() if got != code} == {}
    sentences = set(done.stderr.splitlines())
    assert len(sentences) == (1 if code else 0), sentences
    assert all(
        line.startswith("error: the answer cannot be written to standard output (") for line in sentences
    )


@pytest.mark.parametrize("words", [["events"], ["cluster", "list"], ["list", "-o", "json"]], ids=" ".join)
@every_trouble
def test_an_answer_of_a_gateway_that_cannot_be_written_is_no_mistake_of_ours(
    shell: Any, words: list[str], trouble: str, tmp_path: Path
) -> None:
    shell.fill()
    into, code = UNWRITABLE[trouble]
    with into() as number:
        done = subprocess.run(
            [sys.executable, "-m", "cli", *words, "--gateway", shell.address],
            stdout=number, stderr=subprocess.PIPE, text=True, check=False, timeout=60,
            env=environment(tmp_path),
        )  # fmt: skip

    assert done.returncode == code
    assert "mistake" not in done.stderr
    assert ("cannot be written" in done.stderr) == (code != 0)


@pytest.mark.parametrize("line", [
    "{daggers} sql functions | head -1; echo ${{PIPESTATUS[0]}}",
    "{daggers} --help | head -c 1; echo; echo ${{PIPESTATUS[0]}}",
    "{daggers} sql functions -o json | head -1; echo ${{PIPESTATUS[0]}}",
    "{daggers} sql functions | true; echo ${{PIPESTATUS[0]}}",
])  # fmt: skip
def test_a_shell_that_reads_the_first_line_is_told_that_all_is_well(line: str, tmp_path: Path) -> None:
    shown = subprocess.run(
        ["bash", "-c", line.format(daggers=f"'{sys.executable}' -m cli")],
        capture_output=True, text=True, check=True, timeout=60, env=environment(tmp_path),
    )  # fmt: skip

    assert (shown.stdout.splitlines()[-1], shown.stderr) == ("0", "")


@pytest.mark.parametrize(
    ("closed", "words", "code"),
    [
        (">&-", ["sql", "functions"], 4),
        (">&-", ["nonsense"], 2),
        (">&-", ["nonsense", "-o", "json"], 4),
        ("2>&-", ["sql", "functions"], 0),
        ("2>&-", ["nonsense"], 2),
        ("2>/dev/full", ["nonsense"], 2),
        ("2>/dev/full", ["get", "nothing", "--gateway", "127.0.0.1:1"], 3),
        ("<&- >&- 2>&-", ["nonsense"], 2),
        ("<&- >&- 2>&-", ["sql", "functions"], 4),
        ("<&-", ["sql", "functions"], 0),
    ],
)
def test_streams_that_are_closed_or_full_change_no_other_code(
    closed: str, words: list[str], code: int, tmp_path: Path
) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"$@" {closed}', "-", sys.executable, "-m", "cli", *words],
        capture_output=True, text=True, check=False, timeout=60, env=environment(tmp_path),
    )  # fmt: skip

    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "mistake" not in done.stderr


def test_an_answer_that_is_lost_says_its_error_all_the_same(tmp_path: Path) -> None:
    with full() as number:
        done = subprocess.run(
            [sys.executable, "-m", "cli", "nonsense", "-o", "json"],
            stdout=number, stderr=subprocess.PIPE, text=True, check=False, env=environment(tmp_path),
        )  # fmt: skip

    first, second = done.stderr.splitlines()
    assert first.startswith("error: No such command 'nonsense'")
    assert second.startswith(
        "error: the answer cannot be written to standard output (No space left on device)"
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "cp1252"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_every_character_is_shown_in_some_way(encoding: str, form: str, tmp_path: Path) -> None:
    name = "Mü→😀"
    words = [sys.executable, "-m", "cli", "get", name, "--state-dir", str(tmp_path / name), "-o", form]
    done = subprocess.run(
        words, capture_output=True, check=False, timeout=60,
        env=environment(tmp_path, PYTHONIOENCODING=encoding, PYTHONUTF8="1", LC_ALL="C.UTF-8"),
    )  # fmt: skip
    out, err = done.stdout.decode(encoding), done.stderr.decode(encoding)

    assert done.returncode == 3
    if form == "json":
        assert name in json.loads(out)["error"]["message"]
    assert "→" in err or "\\u2192" in err
    assert "😀" in err or "\\U0001f600" in err


def test_the_locale_c_shows_every_character(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli", "sql", "functions"],
        capture_output=True, check=True, timeout=60,
        env=environment(tmp_path, LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0"),
    )  # fmt: skip

    assert b"\\u2192" in done.stdout
    assert done.stdout.isascii()
