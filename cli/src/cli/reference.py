"""The reference of commands, docs/commands.md, from what the command says; `make commands-doc` writes it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from textwrap import fill
from typing import Any

from cli.__main__ import EPILOG, assemble
from cli.framework.extension import load_extension

_HEAD = """# Commands

Made by `make commands-doc` from `cli/` and `devstack/`. `--state-dir`, `--gateway` and `-o` may stand before
the command or behind it.
"""
_COMMON = ("--state-dir", "--gateway", "--output", "--help")
_ROOT = "daggers"


def text() -> str:
    """Build the whole reference as Markdown."""
    sections = [_section(name, command) for name, command in commands()]
    ends = [f"{fill(part, width=110)}\n" for part in EPILOG.split("\n\n")]
    return "\n".join([_HEAD, *ends, *sections])


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command by its full name, `daggers` first; a group comes before its commands."""
    root = assemble(load_extension)
    yield _ROOT, root
    for name in root.list_commands(None):
        _, command, _ = root.resolve_command(None, [name])
        yield from _below(f"{_ROOT} {name}", command)


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for inner, below in getattr(command, "commands", {}).items():
        yield from _below(f"{name} {inner}", below)


def flags(command: Any) -> set[str]:
    """Return the command's own flags, long and short."""
    return {
        flag
        for parameter in command.params
        for flag in (*parameter.opts, *parameter.secondary_opts)
        if flag[0] == "-"
    }


def _section(name: str, command: Any) -> str:
    own = [parameter for parameter in command.params if name == _ROOT or parameter.opts[0] not in _COMMON]
    arguments = [_argument(parameter) for parameter in own if not parameter.opts[0].startswith("-")]
    rows = [_row(parameter) for parameter in own]
    usage = " ".join([name, *arguments, *(["COMMAND"] if hasattr(command, "commands") else [])])
    lines = [f"## {name}", f"`{usage}`", "", " ".join((command.help or "").split()), ""]
    return "\n".join(lines + (["| argument or flag | is |", "|---|---|", *rows, ""] if rows else []))


def _argument(parameter: Any) -> str:
    label = (parameter.metavar or parameter.name.upper()).strip("[]")
    return label if parameter.required else f"[{label}]"


def _row(parameter: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]
    if not names[0].startswith("-"):
        label = f"`{_argument(parameter)}`"
    else:
        value = f" {parameter.metavar}" if parameter.metavar else ""
        label = ", ".join(f"`{name}{value}`" for name in names)
    needed = " Needed." if parameter.required and names[0].startswith("-") else ""
    about = " ".join((parameter.help or "").split())
    cells = [cell.replace("|", "\\|") for cell in (label, f"{about}{needed}")]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write(text())
