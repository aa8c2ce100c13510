"""Every command that writes a file writes it to standard output, too: a container has no place for one."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from conftest import DAGGERS

from cli import reference
from eventlog.export import ExportWriter, Head

COMMANDS = Path(reference.__file__).parent / "commands"
WRITE = {"write_text", "write_bytes", "touch", "replace_text", "replace_bytes", "copy", "copyfile", "mkdir"}
WORDS = {"init": ["orders", "--file"], "log export": ["--topic", "orders"]}
"""How each is called; its file comes behind that."""


def writing() -> Iterator[tuple[str, Any]]:
    """Each command that has a parameter which names a file to be written, and what is declared of that."""
    for name, command in reference.commands():
        for parameter in command.params:
            declared = parameter.type_descriptor.parameter_info
            if getattr(declared, "writable", False):
                yield name.removeprefix("daggers "), declared


def writes(module: Path) -> bool:
    """Whether it calls what makes or changes a file."""
    calls = [node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Call)]
    names = [getattr(call.func, "attr", getattr(call.func, "id", "")) for call in calls]
    modes = [word.value for call in calls for word in call.args if isinstance(word, ast.Constant)]
    return bool(WRITE & set(names)) or (
        "open" in names and bool({"w", "wb", "a", "x"} & set(map(str, modes)))
    )


def called(name: str, shell: Any, kafka: str, folder: Path) -> list[str]:
    """How a command is called, but for its file."""
    if name != "log clean":
        at = ["--kafka", kafka] if name.startswith("log") else ["--gateway", shell.address]
        return [str(DAGGERS), *name.split(), *at, *WORDS[name]]
    log = folder / "control.jsonl"
    writer = ExportWriter(Head("daggers.control", 0))
    log.write_text(writer.begin() + writer.end())
    return [str(DAGGERS), *name.split(), str(log)]


def test_a_module_of_commands_that_writes_says_so_of_a_parameter() -> None:
    saying = {"init": ["init"], "log": ["log clean", "log export"]}
    modules = sorted(module.stem for module in COMMANDS.glob("*.py") if writes(module))

    names = [name for module in modules for name in saying[module]]
    assert names == sorted(name for name, _ in writing())


@pytest.mark.parametrize("name", sorted({name for name, _ in writing()}))
def test_what_is_written_to_a_file_is_written_to_standard_output_by_a_dash(
    name: str, shell: Any, kafka: str, tmp_path: Path
) -> None:
    shell.fill()
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce("orders", b"1")
    producer.flush(30)
    command = called(name, shell, kafka, tmp_path)
    file = tmp_path / "written"
    subprocess.run([*command, file], check=True, capture_output=True, timeout=60)
    done = subprocess.run([*command, "-"], check=True, capture_output=True, timeout=60, cwd="/proc")

    assert done.stdout == file.read_bytes() != b""


@pytest.mark.parametrize("name", sorted({name for name, _ in writing()}))
def test_a_place_that_cannot_be_written_is_told_with_the_way_out(
    name: str, shell: Any, kafka: str, tmp_path: Path
) -> None:
    shell.fill()
    command = [*called(name, shell, kafka, tmp_path), "/proc/written"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot be written: " in done.stderr
    assert "-` " in done.stderr
    assert "standard output" in done.stderr


def test_the_help_of_such_a_parameter_names_the_dash() -> None:
    declared = [declared for _, declared in writing()]

    assert all(each.allow_dash and "`-`: standard output" in each.help for each in declared)
