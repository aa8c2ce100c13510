"""`make release VERSION=X.Y.Z`: its version in every member, its section in the changelog. No commit."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_UNRELEASED: Final = "## Unreleased\n"
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(rc\d+)?")


def main(words: list[str]) -> int:
    """Write the files; answers the exit code."""
    if len(words) != 1 or not _VERSION.fullmatch(words[0]):
        sys.stderr.write("which version? make release VERSION=1.2.3\n")
        return 2
    (version,) = words
    changelog = ROOT / "CHANGELOG.md"
    try:
        text, notes = released(changelog.read_text("utf-8"), version, f"{datetime.now(UTC):%Y-%m-%d}")
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for file in members():
        file.write_text(versioned(file.read_text("utf-8"), version), "utf-8")
    changelog.write_text(text, "utf-8")
    (ROOT / "dist").mkdir(exist_ok=True)
    (ROOT / "dist" / f"release-{version}.md").write_text(notes, "utf-8")
    return 0


def members() -> Iterator[Path]:
    """The pyproject.toml of the workspace, and of each member."""
    yield ROOT / "pyproject.toml"
    for pattern in ("proto", "libs/*", "services/*", "cli", "devstack"):
        yield from sorted(ROOT.glob(f"{pattern}/pyproject.toml"))


def versioned(pyproject: str, version: str) -> str:
    """A pyproject.toml with another version."""
    return re.sub(r'^version = "[^"]+"$', f'version = "{version}"', pyproject, count=1, flags=re.MULTILINE)


def released(changelog: str, version: str, day: str) -> tuple[str, str]:
    """The changelog with the section of a version, of what was unreleased; and that. Raises: ValueError."""
    if f"\n## {version} " in changelog:
        raise ValueError(f"CHANGELOG.md has a section of {version} already")
    head, found, rest = changelog.partition(_UNRELEASED)
    new, further, older = rest.partition("\n## ")
    if not found or not new.strip():
        raise ValueError("CHANGELOG.md has nothing under Unreleased: there is nothing to release")
    section = f"## {version} - {day}\n{new.rstrip()}\n"
    return f"{head}{_UNRELEASED}\n{section}{further}{older}", section


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
