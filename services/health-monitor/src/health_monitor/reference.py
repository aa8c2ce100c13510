"""The reference of receivers, docs/receivers.md, from what the kinds say; `make receivers-doc` writes it."""

from __future__ import annotations

import sys

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from chassis.settings import variable
from health_monitor import receivers
from health_monitor.settings import MonitorSettings

_HEAD = """# Receivers

Made by `make receivers-doc` from `services/health-monitor/src/health_monitor/receivers/`.

Every receiver that is configured is told of everything. A secret is better given by a file.
"""


def text() -> str:
    """The whole reference, as Markdown."""
    return "\n".join([_HEAD, *(_section(name) for name in receivers.names())])


def _section(name: str) -> str:
    settings = receivers.kind(name).Settings
    rows = [_row(name, field, info) for field, info in settings.model_fields.items()]
    return "\n".join([f"## {name}", receivers.about(name), "", "| variable | is |", "|---|---|", *rows, ""])


def _row(name: str, field: str, info: FieldInfo) -> str:
    shown = f"`{variable(MonitorSettings, f'{name}_{field}')}`"
    if info.is_required():
        file = f", or `{shown.strip('`')}_FILE`" if info.annotation is SecretStr else ""
        return f"| {shown}{file} | {info.description} For example `{(info.examples or ['?'])[0]}` |"
    default = info.default.get_secret_value() if isinstance(info.default, SecretStr) else info.default
    return f"| {shown} (`{default}`) | {info.description} |"


if __name__ == "__main__":
    sys.stdout.write(text())
