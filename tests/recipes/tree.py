"""A copy of the tree, in which a recipe is followed: files are changed, verbs run, and tests pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.documents.pages import ROOT, tracked

STAMP: Final = ".venv/.stamps/venv"


@dataclass(frozen=True)
class Tree:
    """A copy in `folder`; what runs in it imports the copy's members before the installed ones."""

    folder: Path

    def read(self, path: str) -> str:
        """A file of the copy."""
        return (self.folder / path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        """A file of the copy, made or replaced."""
        (self.folder / path).write_text(text, encoding="utf-8")

    def run(self, words: Sequence[str]) -> str:
        """Run `make VERB`, `python FILE` or `pytest …`; its output. Raises AssertionError when it fails."""
        programs = {
            "make": ["make", "--silent", "-o", STAMP],
            "python": [sys.executable],
            "pytest": [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "-m",
                "not integration",
            ],
        }
        command = [*programs[words[0]], *words[1:]]
        done = subprocess.run(
            command, cwd=self.folder, env=self._environment(), capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def compile(self) -> None:
        """Build the copy's protocol, as `make venv` does."""
        script = "from pathlib import Path; import hatch_build; hatch_build.build(Path(), Path('gen'))"
        subprocess.run([sys.executable, "-c", script], cwd=self.folder / "proto", check=True, timeout=300)

    def _environment(self) -> dict[str, str]:
        members = [*self.folder.glob("libs/*/src"), *self.folder.glob("services/*/src")]
        first = [self.folder / "proto/gen", *members, self.folder / "cli/src", self.folder / "devstack/src"]
        path = os.pathsep.join(map(str, [*first, self.folder]))
        return {**os.environ, "PYTHONPATH": path}  # noqa: TID251 - a child's own


def copied(folder: Path) -> Tree:
    """A copy of the tree, with the environment of this one."""
    for name in tracked():
        source, target = ROOT / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)  # documents ask git which files there are
    return Tree(folder)
