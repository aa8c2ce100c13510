"""What a service of somebody else has: an empty environment, and the wheels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.documents.pages import ROOT

UV: Final = (Path(sys.executable).with_name("uv"), "--no-config")


def wheels(folder: Path) -> list[Path]:
    """Build them as a user does."""
    subprocess.run(
        ["make", "wheels", f"DIST={folder}"], cwd=ROOT, check=True, capture_output=True, timeout=200
    )
    return sorted(folder.glob("*.whl"))


def installed(folder: Path, files: list[Path]) -> Path:
    """The Python of a new environment with the wheels, and what they ask for in the versions of the lock."""
    python = folder / "bin" / "python"
    subprocess.run([*UV, "venv", "--quiet", "--python", sys.executable, folder], check=True, timeout=60)
    subprocess.run(
        [
            *UV,
            "pip",
            "install",
            "--quiet",
            "--python",
            python,
            "--constraint",
            ROOT / "requirements.lock",
            *files,
        ],
        check=True,
        timeout=300,
    )
    return python
