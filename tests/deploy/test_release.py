"""What a release writes: one version everywhere, and the section of the changelog."""

from __future__ import annotations

import tomllib

import pytest
from deploy.release import main, members, released, versioned

CHANGELOG = """# Changelog

## Unreleased

### Added
- A thing.

## 0.1.0 - 2026-01-01

### Added
- The first.
"""


def test_what_was_unreleased_becomes_the_section_of_the_version() -> None:
    text, section = released(CHANGELOG, "0.2.0", "2026-02-03")

    assert section == "## 0.2.0 - 2026-02-03\n\n### Added\n- A thing.\n"
    assert text == CHANGELOG.replace("## Unreleased\n", "## Unreleased\n\n## 0.2.0 - 2026-02-03\n")


def test_a_first_release_has_no_older_section() -> None:
    text, section = released("# Changelog\n\n## Unreleased\n- A thing.\n", "0.1.0", "2026-01-01")

    assert text == "# Changelog\n\n## Unreleased\n\n" + section


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
def test_a_version_that_is_there_or_has_nothing_new_is_refused(version: str) -> None:
    changelog = CHANGELOG if version == "0.1.0" else CHANGELOG.replace("\n### Added\n- A thing.\n", "", 1)

    with pytest.raises(ValueError, match=r"CHANGELOG\.md has"):
        released(changelog, version, "2026-02-03")


def test_every_member_has_the_version_that_it_is_given() -> None:
    files = list(members())
    workspace = tomllib.loads(files[0].read_text("utf-8"))["tool"]["uv"]["workspace"]["members"]

    assert {file.parent for file in files[1:]} == {files[0].parent / member for member in workspace}
    for file in files:
        before = tomllib.loads(file.read_text("utf-8"))
        after = tomllib.loads(versioned(file.read_text("utf-8"), "9.8.7"))
        assert after["project"].pop("version") == "9.8.7"
        before["project"].pop("version")
        assert after == before


@pytest.mark.parametrize("words", [[], ["next"], ["1.2"], ["1.2.3", "1.2.4"]])
def test_without_a_version_nothing_is_written(words: list[str]) -> None:
    assert main(words) == 2
