"""Command lines are completed in a shell, by the script that `daggers completion` prints."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli import reference

COMMAND = Path(sys.executable).with_name("daggers")
DRIVER = """\
source <("$1" completion bash) && shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_daggers_completion "$1" && printf '%s\\n' "${COMPREPLY[@]}"
"""


def run(words: list[str], folder: Path, **variables: str) -> list[str]:
    """Run a command line in an empty home; return the lines that it prints."""
    environment = {"PATH": os.defpath, "HOME": str(folder), "XDG_STATE_HOME": str(folder), **variables}
    done = subprocess.run(
        words, check=True, capture_output=True, text=True, timeout=60, env=environment, cwd=folder
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def complete(folder: Path, *words: str) -> list[str]:
    """Return what bash offers for the last word of a command line."""
    bash = shutil.which("bash")
    assert bash is not None
    return run([bash, "-c", DRIVER, "bash", str(COMMAND), str(COMMAND), *words], folder)


def test_bash_completes_commands_flags_and_values(tmp_path: Path) -> None:
    top = [name.removeprefix("daggers ") for name, _ in reference.commands()]

    assert {*complete(tmp_path, "")} == {name for name in top if name != "daggers" and " " not in name}
    assert complete(tmp_path, "host", "dr") == ["drain"]
    assert "--dry-run" in complete(tmp_path, "host", "drain", "machine-2", "--")
    assert complete(tmp_path, "list", "--output", "") == ["text", "json", "wide"]
    assert complete(tmp_path, "completion", "z") == ["zsh"]


@pytest.mark.parametrize(
    ("shell", "variables", "expected"),
    [
        ("zsh", {}, """_arguments '*: :(("drain":"""),
        ("fish", {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "drain\t"),
    ],
)
def test_other_shells_are_answered_in_their_words(
    shell: str, variables: dict[str, str], expected: str, tmp_path: Path
) -> None:
    script = run([str(COMMAND), "completion", shell], tmp_path)
    request = {"_DAGGERS_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "daggers host dr"}

    (answer,) = run([str(COMMAND)], tmp_path, **request, **variables)

    assert answer.startswith(expected)
    assert f"_DAGGERS_COMPLETE=complete_{shell}" in "\n".join(script)
