"""Commands that are listed and not loaded: a command's module is loaded when it is called, and not before."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, cast

import typer

from cli.framework.group import Group


@dataclass(frozen=True)
class Listed:
    """A command, or a group of commands, before it is loaded.

    summary: the first sentence of its help.
    module:  has it among the commands of its `app`.
    group:   of a group, the name that its own `typer.Typer` has in the module.
    """

    summary: str
    module: str
    group: str = ""

    def load(self, name: str) -> Any:
        """What typer makes of it."""
        group = typer.main.get_group(getattr(import_module(self.module), self.group or "app"))
        if not self.group:
            return group.commands[name]
        group.name = name
        return group


class Loaded(Mapping[str, Any]):
    """Commands by name, loaded when they are asked for. `further` is asked for a name that `own` lacks."""

    def __init__(self, own: Mapping[str, Listed], further: Callable[[], Mapping[str, Listed]]) -> None:
        self._own, self._further = own, further
        self._load = cache(lambda name: self.listed(name).load(name))

    def listed(self, name: str) -> Listed:
        """The row of a name. Raises: KeyError."""
        return self._own[name] if name in self._own else self._further()[name]

    def __getitem__(self, name: str) -> Any:
        return self._load(name)

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._further()

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._further()

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Root(Group):
    """`daggers` itself: it lists its commands without loading them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The summaries, for --help."""
        loaded = cast(Loaded, self.commands)
        with formatter.section("Commands"):
            formatter.write_dl([(name, loaded.listed(name).summary) for name in loaded])
