"""A command loads what it needs, and nothing that another one does: that is what makes it start quickly."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli import reference
from cli.commands.table import COMMANDS
from cli.framework.extension import Missing, load_extension

HEAVY = ("grpc", "daggers", "pydantic", "rich.console", "yaml", "sqlglot", "daggersql", "aiokafka", "psutil")
VERBS = {
    "Acknowledge", "Add", "Check", "Confirm", "Count", "Create", "Delete", "Discard", "Explain", "Export",
    "Forget",
    "Give", "Grant",
    "Inspect", "Install", "Let", "List", "Log", "Make", "Manage", "Move", "Offer", "Print", "Register",
    "Release", "Remove", "Replay", "Restore", "Revoke", "Rewrite", "Run", "Send", "Set", "Show", "Start",
    "Stop", "Test", "Update", "Verify", "Write",
}  # fmt: skip
PROBE = """\
import json, sys
from cli.__main__ import run
code = run(sys.argv[1:])
sys.stderr.write("\\n" + json.dumps([code, sorted(sys.modules)]))
"""


@pytest.fixture
def imported(tmp_path: Path) -> Any:
    """Runs a command line in a process of its own: its exit code, and every module that it has imported."""

    def run(*words: str) -> tuple[int, list[str]]:
        done = subprocess.run(
            [sys.executable, "-c", PROBE, *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            env={"XDG_STATE_HOME": str(tmp_path)},
        )
        code, modules = json.loads(done.stderr.splitlines()[-1])
        return code, modules

    return run


@pytest.fixture
def loaded(imported: Any) -> Any:
    """The same, with what of HEAVY it has imported."""

    def run(*words: str) -> tuple[int, list[str]]:
        code, modules = imported(*words)
        return code, [each for each in HEAVY if each in modules]

    return run


def test_help_imports_the_module_of_no_command(imported: Any) -> None:
    _, modules = imported("--help")

    assert [module for module in modules if module.startswith("cli.commands.")] == ["cli.commands.table"]
    assert len([module for module in modules if module.partition(".")[0] == "cli"]) < 30


def test_help_and_version_load_neither_a_client_nor_what_draws(loaded: Any) -> None:
    assert loaded("--help") == (0, [])
    assert loaded("version") == (0, [])
    assert loaded("log", "export", "--help")[0] == 0


def test_a_list_loads_the_client_and_nothing_else(loaded: Any, gateway: str) -> None:
    assert loaded("list", "--gateway", gateway) == (0, ["grpc", "daggers"])


def test_a_dagger_file_is_read_without_the_compiler_of_its_query(
    loaded: Any, gateway: str, tmp_path: Path, dagger_file: str
) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(dagger_file)

    code, modules = loaded("validate", str(file), "--gateway", gateway)

    assert (code, [module for module in modules if module != "rich.console"]) == (
        1,
        ["grpc", "daggers", "yaml"],
    )


def test_the_first_sentence_of_a_command_stands_in_the_table_alone() -> None:
    helps = {name: " ".join(command.help.split()) for name, command in reference.commands()}
    rows = {**COMMANDS, **load_extension().commands()}

    once = {
        name: (helps[f"daggers {name}"].startswith(row.summary), helps[f"daggers {name}"].count(row.summary))
        for name, row in rows.items()
    }
    assert once == dict.fromkeys(rows, (True, 1))


def test_what_a_command_does_begins_with_a_verb() -> None:
    opening = {
        command.help.split()[0].rstrip(",") for name, command in reference.commands() if name != "daggers"
    }

    assert opening <= VERBS


def test_every_command_that_a_module_has_is_listed() -> None:
    modules = {(row.module, row.group): set[str]() for row in COMMANDS.values()}
    for name, row in COMMANDS.items():
        modules[row.module, row.group] |= set() if row.group else {name}

    unlisted = [
        (module, command.name)
        for (module, group), names in modules.items()
        if not group
        for command in __import__(module, fromlist=["app"]).app.registered_commands
        if command.name not in names
    ]
    assert unlisted == []


def test_without_the_embedded_stack_its_commands_say_what_to_install() -> None:
    assert list(Missing().commands()) == ["local", "demo"]
