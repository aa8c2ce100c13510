"""The commands as a table: a command's module is loaded when it is called, and not before.

So no command pays for what another one needs. `daggers --help` shows the summaries that stand here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

import typer

from cli.group import Group

if TYPE_CHECKING:
    from cli.extension import Extension


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


COMMANDS: Final[Mapping[str, Listed]] = MappingProxyType(
    {
        "apply": Listed(
            "Create the daggers of a file, or bring them to what it says.", "cli.commands.applying"
        ),
        "plan": Listed(
            "What `daggers apply` would do, and what that does to windows and rows; writes nothing.",
            "cli.commands.applying",
        ),
        "preview": Listed(
            "The rows of a query on real data, with the engine that daggers have; writes nothing.",
            "cli.commands.preview",
        ),
        "get": Listed(
            "One dagger: what was asked, what is observed, and which alerts are open.", "cli.commands.daggers"
        ),
        "list": Listed("All daggers, by name.", "cli.commands.daggers"),
        "start": Listed("Run a dagger that is stopped or failed.", "cli.commands.daggers"),
        "stop": Listed("Stop a dagger after the batch it is in; it keeps its place.", "cli.commands.daggers"),
        "restart": Listed("Stop the driver and launch a new one.", "cli.commands.daggers"),
        "delete": Listed("Stop a dagger and free its name.", "cli.commands.daggers"),
        "validate": Listed(
            "Everything that is wrong with a dagger file, with its place, and the output columns; writes"
            " nothing.",
            "cli.commands.checking",
        ),
        "history": Listed(
            "The revisions of a dagger, newest first: who asked, when, what changed, why.",
            "cli.commands.revisions",
        ),
        "diff": Listed(
            "What is another in one version of a dagger than in another, field by field; the query by lines.",
            "cli.commands.revisions",
        ),
        "rollback": Listed(
            "Give a dagger the specification of an earlier version, as a new revision.",
            "cli.commands.revisions",
        ),
        "rows": Listed(
            "The newest output rows, newest first, read from where the dagger writes them.",
            "cli.commands.rows",
        ),
        "watch": Listed("Live rows, with a sparkline for each series.", "cli.commands.rows"),
        "logs": Listed("What the dagger's newest driver printed.", "cli.commands.logs"),
        "events": Listed(
            "The control topic: everything that was asked, and everything that happened, in order.",
            "cli.commands.events",
        ),
        "init": Listed(
            "Write a dagger file that counts the records of a stream per minute, or forwards each.",
            "cli.commands.init",
        ),
        "login": Listed(
            "Log in at the provider that the gateway trusts; later calls of that gateway are yours.",
            "cli.commands.login",
        ),
        "logout": Listed(
            "Forget the login of a gateway, and tell the provider that it is over.", "cli.commands.login"
        ),
        "whoami": Listed("Who you are to the gateway, and which roles that gives.", "cli.commands.whoami"),
        "version": Listed(
            "The versions of the command, and of what the embedded stack runs.", "cli.commands.version"
        ),
        "cluster": Listed("Places where daggers run and streams live.", "cli.commands.catalogue", "clusters"),
        "schema": Listed("The Protobuf messages that streams carry.", "cli.commands.catalogue", "schemas"),
        "stream": Listed("Topics that carry one message.", "cli.commands.streams", "streams"),
        "alerts": Listed("What is wrong with daggers, and who was told.", "cli.commands.alerts", "alerts"),
        "audit": Listed(
            "Who was refused, who read rows, logs and records, and who failed to log in, newest first.",
            "cli.commands.audit",
        ),
        "quarantine": Listed("Records that were set aside.", "cli.commands.quarantine", "quarantine"),
        "sql": Listed("Queries and functions, without a gateway.", "cli.commands.checking", "sql"),
        "reference": Listed(
            "Tables that queries look things up in.", "cli.commands.references", "references"
        ),
        "secret": Listed(
            "Secrets by name: where they are, and where they may be sent.", "cli.commands.sinks", "secrets"
        ),
        "sink": Listed(
            "Sinks by name: addresses that daggers of some teams may write to.", "cli.commands.sinks", "sinks"
        ),
        "archive": Listed(
            "Tables in cold storage: which daggers write them, and what they have.",
            "cli.commands.archive",
            "app",
        ),
        "team": Listed(
            "Who owns daggers together, who is in it, and what it owns.", "cli.commands.teams", "teams"
        ),
        "account": Listed(
            "What programs call the gateway as, each with a token of its own.",
            "cli.commands.accounts",
            "accounts",
        ),
        "grant": Listed(
            "Who has which role, and which teams may read a stream.", "cli.commands.grants", "grants"
        ),
        "log": Listed(
            "The log as a file: export, verify, restore with every record at its sequence.",
            "cli.commands.log",
            "log",
        ),
    }
)


class Loaded(Mapping[str, Any]):
    """Commands by name, loaded when they are asked for. The extension is asked for a name that we lack."""

    def __init__(self, extension: "Callable[[], Extension]") -> None:
        self._extension = extension
        self._load = cache(lambda name: self.listed(name).load(name))

    def listed(self, name: str) -> Listed:
        """The row of a name. Raises: KeyError."""
        return COMMANDS[name] if name in COMMANDS else self._extension().commands()[name]

    def __getitem__(self, name: str) -> Any:
        return self._load(name)

    def __contains__(self, name: object) -> bool:
        return name in COMMANDS or name in self._extension().commands()

    def __iter__(self) -> Iterator[str]:
        yield from COMMANDS
        yield from self._extension().commands()

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
