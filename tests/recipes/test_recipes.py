"""Whoever follows a recipe of CONTRIBUTING.md touches the files that it names, no other, and is done."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest
from tests.documents.pages import ROOT, Page, slug, tracked
from tests.recipes import dummies
from tests.recipes.tree import copied

CONTRIBUTING = Page(ROOT / "CONTRIBUTING.md")


def declaring(line: str, folder: str) -> str:
    """The file of a folder that has a line."""
    [found] = [
        name
        for name in sorted(tracked())
        if name.startswith(folder) and (ROOT / name).is_file() and line in (ROOT / name).read_text("utf-8")
    ]
    return found


def rpc() -> Mapping[str, dummies.Change]:
    return dummies.rpc(
        declaring("\nservice QuarantineService {", "proto/daggers/v1/"),
        declaring("\nclass QuarantineService(", "services/api-gateway/src/"),
    )


FOLLOWED: dict[str, Callable[[], Mapping[str, dummies.Change]]] = {
    "A field of a spec": lambda: dummies.FIELD,
    "A fact": lambda: dummies.FACT,
    "An RPC": rpc,
    "A host operation": lambda: dummies.OPERATION,
    "A sink": lambda: dummies.SINK,
    "A receiver": lambda: dummies.RECEIVER,
    "A SQL function": lambda: dummies.FUNCTION,
    "A degradation reason": lambda: dummies.REASON,
    "A setting": lambda: dummies.SETTING,
    "A command": lambda: dummies.COMMAND,
}
# What only some of a check's tests say of the dummy; the rest is the same without it.
ONLY = {
    "A field of a spec": "dummy or commented or test_client_daggerfile",
    "A sink": "dummy or up_to_date",
    "A receiver": "dummy or up_to_date",
    "An RPC": "dummies or cell or row or example or commented or references",
    "A host operation": "dummies or commented",
    "A SQL function": "reference_is_up_to_date or documented or on_the_page or has_a_file",
    "A setting": "references",
    "A command": "example or references",
}


@dataclass(frozen=True)
class Recipe:
    """What CONTRIBUTING.md says of one addition."""

    files: tuple[str, ...]
    """Paths, NAME for any name."""
    run: tuple[str, ...]
    right: tuple[str, ...]
    """Arguments of pytest."""


def recipe(title: str) -> Recipe:
    text = CONTRIBUTING.section(slug(title))
    spans = [" ".join(word.split()) for word in re.findall(r"`([^`]+)`", text)]
    files = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    run = [span for span in spans if re.match(r"(make|python) ", span) and span != "make venv"]
    right = [span.split()[1:] for span in spans if span.startswith("pytest ")]
    return Recipe(tuple(files), tuple(run), tuple(word for words in right for word in words))


@pytest.mark.parametrize("title", FOLLOWED)
def test_a_recipe_that_is_followed_with_a_dummy_is_complete(title: str, tmp_path: Path) -> None:
    told, changes = recipe(title), FOLLOWED[title]()
    patterns = [file.replace("NAME", "*") for file in told.files]
    tree = copied(tmp_path)

    for path, change in changes.items():
        tree.write(path, change(tree.read(path) if (tmp_path / path).exists() else ""))
    tree.compile()
    for command in told.run:
        tree.run(command.split())
    chosen = ["-k", ONLY[title]] if title in ONLY else []
    passed = tree.run(["pytest", *(cell.replace("NAME", "dummy") for cell in told.right), *chosen])

    assert " passed" in passed
    assert [path for path in changes if not any(fnmatch(path, pattern) for pattern in patterns)] == []
    assert [pattern for pattern in patterns if not any(fnmatch(path, pattern) for path in changes)] == []


def test_every_recipe_with_files_is_followed() -> None:
    text = CONTRIBUTING.section("recipes")

    assert {title for title in re.findall(r"^### (.+)$", text, re.MULTILINE) if recipe(title).files} == set(
        FOLLOWED
    )
