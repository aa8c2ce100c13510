"""Commands whose modules are imported when they are called: a lazy group as click documents it.

https://click.palletsprojects.com/en/stable/complex/#lazily-loading-subcommands
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand

from cli.framework.group import Group


class LazyCommand(TyperCommand):
    """A command, or a group of commands, that is listed before its module is imported.

    summary: the first sentence of its help, which stands here alone: what the module says comes behind it.
    module:  has it among the commands of its `app`.
    group:   of a group, the name that its own `typer.Typer` has in the module.
    """

    def __init__(self, summary: str, module: str, group: str = "") -> None:
        super().__init__(None, short_help=summary, rich_markup_mode=None)
        self.summary, self.module, self.group = summary, module, group

    def load(self, name: str) -> Any:
        """Import its module: the command that is run."""
        group = typer.main.get_group(getattr(import_module(self.module), self.group or "app"))
        command = group if self.group else group.commands[name]
        command.name = name
        command.help = f"{self.summary} {command.help or ''}".strip()
        return command


class LazyGroup(Group):
    """Lists commands by their summaries, and imports the module of the one that is called."""

    extension: Callable[[], Mapping[str, LazyCommand]] = dict
    """Gives further commands; called to list all, and for a name that is not among the own ones."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List the names of all commands."""
        self._extend()
        return super().list_commands(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command that a command line calls, and import its module. Raises: TyperException."""
        if args[0] not in self.commands:
            self._extend()
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load(args[0]) if isinstance(command, LazyCommand) else command, rest

    def _extend(self) -> None:
        self.commands.update(self.extension())
