"""The commands as a table: what `daggers --help` lists, and which module has each.

A module is loaded when its command is called, so no command pays for what another one needs.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cli.framework.lazy_commands import LazyCommand

COMMANDS: Final[Mapping[str, LazyCommand]] = MappingProxyType(
    {
        "apply": LazyCommand(
            "Create the daggers of a file, or update them to match it.", "cli.commands.applying"
        ),
        "plan": LazyCommand(
            "Show what `daggers apply` would do, with its effect on windows and rows; write nothing.",
            "cli.commands.applying",
        ),
        "preview": LazyCommand(
            "Run a query on real data with the engine of daggers, and show its rows; write nothing.",
            "cli.commands.preview",
        ),
        "test": LazyCommand(
            "Run the tests of a dagger file: given records, and the rows that they must give.",
            "cli.commands.querytests",
        ),
        "get": LazyCommand(
            "Show a dagger: its specification, observed state and open alerts.", "cli.commands.daggers"
        ),
        "list": LazyCommand("List daggers by name.", "cli.commands.daggers"),
        "start": LazyCommand("Start a dagger that is stopped or failed.", "cli.commands.daggers"),
        "stop": LazyCommand(
            "Stop a dagger after its current batch; its checkpoint stays.", "cli.commands.daggers"
        ),
        "restart": LazyCommand("Stop the driver of a dagger and launch a new one.", "cli.commands.daggers"),
        "delete": LazyCommand("Stop a dagger and free its name.", "cli.commands.daggers"),
        "validate": LazyCommand(
            "Check a dagger file: list every problem with its place, and the output columns; write nothing.",
            "cli.commands.checking",
        ),
        "history": LazyCommand(
            "List the revisions of a dagger, newest first.",
            "cli.commands.revisions",
        ),
        "diff": LazyCommand(
            "Show the differences between two versions of a dagger.",
            "cli.commands.revisions",
        ),
        "rollback": LazyCommand(
            "Give a dagger the specification of an earlier version, as a new revision.",
            "cli.commands.revisions",
        ),
        "rows": LazyCommand(
            "Show the newest output rows of a dagger, newest first, read from its sink.",
            "cli.commands.rows",
        ),
        "watch": LazyCommand(
            "Show new rows of a dagger as they come, with a sparkline for each series.", "cli.commands.rows"
        ),
        "metrics": LazyCommand(
            "Show what a dagger did in each minute of the last day, and its cost.", "cli.commands.metrics"
        ),
        "logs": LazyCommand("Show the log of a dagger's newest driver.", "cli.commands.logs"),
        "events": LazyCommand(
            "Show the events of the control topic in order.",
            "cli.commands.events",
        ),
        "init": LazyCommand(
            "Write a dagger file for a stream.",
            "cli.commands.init",
        ),
        "login": LazyCommand(
            "Log in at the identity provider of a gateway.",
            "cli.commands.login",
        ),
        "logout": LazyCommand("Forget the login of a gateway.", "cli.commands.login"),
        "whoami": LazyCommand("Show who you are to the gateway, and your roles.", "cli.commands.whoami"),
        "version": LazyCommand("Show the version of the command.", "cli.commands.version"),
        "completion": LazyCommand(
            "Print the script by which a shell completes command lines of `daggers`.",
            "cli.commands.completion",
        ),
        "cluster": LazyCommand(
            "Manage clusters: where daggers run and streams live.", "cli.commands.catalogue", "clusters"
        ),
        "schema": LazyCommand(
            "Manage the Protobuf messages that streams carry.", "cli.commands.catalogue", "schemas"
        ),
        "stream": LazyCommand(
            "Manage streams: topics that carry one message.", "cli.commands.streams", "streams"
        ),
        "alerts": LazyCommand(
            "Show alerts of daggers and who was notified, silence and acknowledge them.",
            "cli.commands.alerts",
            "alerts",
        ),
        "routes": LazyCommand(
            "Manage the routes of teams: who is notified of alerts, in which groups, and when.",
            "cli.commands.routes",
            "routes",
        ),
        "audit": LazyCommand(
            "List refused calls, reads of data and failed logins, newest first.",
            "cli.commands.audit",
        ),
        "quarantine": LazyCommand(
            "Inspect, replay and discard quarantined records.", "cli.commands.quarantine", "quarantine"
        ),
        "sql": LazyCommand(
            "Check queries and list functions, without a gateway.", "cli.commands.checking", "sql"
        ),
        "reference": LazyCommand(
            "Manage reference tables: data files that queries look values up in.",
            "cli.commands.references",
            "references",
        ),
        "secret": LazyCommand(
            "Manage secrets by name: where they are stored, and where they may be sent.",
            "cli.commands.sinks",
            "secrets",
        ),
        "sink": LazyCommand(
            "Manage sinks by name, with the teams that may write to them, and test sinks.",
            "cli.commands.sinks",
            "sinks",
        ),
        "archive": LazyCommand(
            "List and describe the tables of daggers in cold storage.",
            "cli.commands.archive",
            "app",
        ),
        "team": LazyCommand(
            "Manage teams: members, quotas and what they own.", "cli.commands.teams", "teams"
        ),
        "account": LazyCommand(
            "Manage service accounts, each with tokens of its own.",
            "cli.commands.accounts",
            "accounts",
        ),
        "grant": LazyCommand(
            "Grant roles, and access to streams and sensitive fields.", "cli.commands.grants", "grants"
        ),
        "host": LazyCommand(
            "List the hosts of drivers, show what runs there, say that one is gone.",
            "cli.commands.hosts",
            "hosts",
        ),
        "log": LazyCommand(
            "Export, verify and restore the control topic, every record at its sequence.",
            "cli.commands.log",
            "log",
        ),
    }
)
