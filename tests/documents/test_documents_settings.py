"""Settings: few, each set by somebody, and those that are gone are refused, not forgotten."""

from __future__ import annotations

import re
from functools import lru_cache

import pytest
from tests.documents import settings
from tests.documents.pages import ROOT, current, tracked

import cli.settings
from chassis.removed_settings import REMOVED
from kafkaclient.settings import KafkaSettings

MOST = 80
SETTERS = re.compile(r"^(deploy|devstack/src|tests|bench)/|/tests/|^conftest\.py$|^Makefile$")
# These name every setting, or every one that is gone, and set none.
NAMING = {"tests/documents/test_documents_settings.py", "tests/documents/settings.py"}
SERVICES = sorted(settings.services())
COMMAND = sorted(cli.settings.VARIABLES)
KAFKA = sorted(
    name.upper() for name in KafkaSettings.model_fields
)  # each service has its own prefix for them


@lru_cache
def setters() -> str:
    """Read all that sets something: files of the deployment, the local stack, tests and benches."""
    files = [ROOT / file for file in tracked() if SETTERS.search(file) and file not in NAMING]
    return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())


def test_there_are_few_settings() -> None:
    assert len(SERVICES) <= MOST, "another setting needs one that goes: make it a constant beside its code"


@pytest.mark.parametrize("name", [*SERVICES, *COMMAND, *KAFKA])
def test_a_setting_is_set_by_a_deployment_a_test_or_a_bench(name: str) -> None:
    prefix = "(?<=_)" if name in KAFKA else "(?<![A-Z0-9_])"
    assert re.search(rf"{prefix}{name}(?![A-Z0-9_])", setters()), (
        f"nothing sets {name}: make it a constant, or set it in a test as an operator does"
    )


def test_what_is_gone_is_no_setting_and_what_replaces_it_is_one() -> None:
    instead = {name for text in REMOVED.values() for name in re.findall(r"DAGGERS_[A-Z_]+|JAVA_HOME", text)}

    assert set(REMOVED) & settings.variables() == set()
    assert instead - settings.variables() == set()


def test_no_page_names_a_setting_that_is_gone() -> None:
    telling = {"CHANGELOG.md", "docs/upgrade.md"}
    pages = {page.name: page.text for page in current() if page.name not in telling}
    words = {name: set(re.findall(r"DAGGERS_[A-Z0-9_]+", text)) for name, text in pages.items()}

    assert {name: found & set(REMOVED) for name, found in words.items() if found & set(REMOVED)} == {}
