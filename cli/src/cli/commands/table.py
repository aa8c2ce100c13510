"""The commands as a table: what `daggers --help` lists, and which module has each.

A module is loaded when its command is called, so no command pays for what another one needs.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cli.framework.lazy_commands import Listed

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
        "host": Listed(
            "The hosts of drivers: which there are, what runs there, and that one is gone.",
            "cli.commands.hosts",
            "hosts",
        ),
        "log": Listed(
            "The log as a file: export, verify, restore with every record at its sequence.",
            "cli.commands.log",
            "log",
        ),
    }
)
