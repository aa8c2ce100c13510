"""Builds docs/receivers.md from the settings and docstrings of the kinds; `make receivers-doc` writes it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from chassis.settings import variable
from health_monitor import examples, receivers
from health_monitor.settings import MonitorSettings

_HEAD = """# Receivers

Made by `make receivers-doc` from `services/health-monitor/src/health_monitor/receivers/`.

A team names its receivers [in its file](access.md#set-it-up): `KIND: {KEY: VALUE, …}`. A key that is a
secret has the name of a [registered secret](access.md#secrets-and-sinks) of the team, or `{file: PATH}` of
the health monitors' hosts. The platform has the receivers of the team `platform`, and those that variables of
the monitor configure: both are told of the platform, and of teams that have no receivers. A secret is better
given by a file.

A notification is sent when the receiver says so by its own protocol, as it stands below. Any other answer
that is not a refusal of the receiver's own is tried again, until the notification is given up: a page of HTML
with whatever status, an empty or cut off 200, a redirect that does not say that it lasts. So do login pages
of networks, and proxies that block, answer. Redirects are never followed.

## The messages
Each says what is wrong and how gravely, since when, what was measured beside its limit, whose it is, what to
do, the last change of the dagger, where to read on, three further alerts of its group and how many more.
[Pictures of them](messages/README.md) have the list that each is held to, and what was mended.

Mail has a small chart beside the text: what heartbeats said of the dagger in the half hour before, with the
limit; of rules on rows and of what is no dagger, when the alert was open in the last week. Other receivers
take no picture but by an address that anybody on the internet may fetch
([decision 318](decisions/0318-mail-has-the-chart-that-heartbeats-give.md)).
"""


def text() -> str:
    """Build the whole reference, as Markdown."""
    return "\n".join([_HEAD, *(_section(name) for name in receivers.names())])


def _section(name: str) -> str:
    kind = receivers.kind(name)
    fields = kind.Settings.model_fields.items()
    keys = ["| key of a team's file | is |", "|---|---|", *(_key_row(field, info) for field, info in fields)]
    variables = ["| variable | is |", "|---|---|", *(_row(name, field, info) for field, info in fields)]
    tables = [*keys, "", *variables, ""] if kind.IN_SETTINGS else [*keys, ""]
    return "\n".join([f"## {name}", receivers.about(name), "", *tables, *_messages(name)])


def _messages(name: str) -> Iterator[str]:
    """Yield what it is sent when a rule of a dagger fires, and when that is over."""
    for turn, message in examples.write_messages(receivers.kind(name)):
        yield f"When a rule {turn}:"
        yield from ("```", message.replace("\r\n", "\n"), "```", "")


def _key_row(field: str, info: FieldInfo) -> str:
    secret = ", a secret" if info.annotation is SecretStr else ""
    return f"| `{field}`{'' if info.is_required() else ', optional'}{secret} | {info.description} |"


def _row(name: str, field: str, info: FieldInfo) -> str:
    variable_name = f"`{variable(MonitorSettings, f'{name}_{field}')}`"
    if info.is_required():
        file = f", or `{variable_name.strip('`')}_FILE`" if info.annotation is SecretStr else ""
        return f"| {variable_name}{file} | {info.description} For example `{(info.examples or ['?'])[0]}` |"
    default = info.default.get_secret_value() if isinstance(info.default, SecretStr) else info.default
    return f"| {variable_name} (`{default}`) | {info.description} |"


if __name__ == "__main__":
    sys.stdout.write(text())
