"""The reference of settings, docs/settings.md, from what the settings say; `make settings-doc` writes it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

import cli.checked_settings
import cli.settings
import devstack.settings
from api_gateway.settings import GatewaySettings
from chassis.settings import variable
from health_monitor.settings import monitor_settings
from kafkaclient.settings import KafkaLogin, KafkaSettings
from portal.settings import PortalSettings
from scheduler.settings import SchedulerSettings
from telemetry.settings import TelemetrySettings

HEAD: Final = """# Settings

Made by `make settings-doc` from the settings of each service. `--help` of a service says the same. Each is an
environment variable, read once at the start.

Every service takes the platform's Kafka under its own prefix: `DAGGERS_GATEWAY_`, `DAGGERS_SCHEDULER_`,
`DAGGERS_MONITOR_`, `DAGGERS_TELEMETRY_`. `daggers log` takes the same under `DAGGERS_`, beside `--kafka`.
"""
READERS: Final[dict[str, type[BaseSettings]]] = {
    "python -m api_gateway": GatewaySettings,
    "python -m scheduler": SchedulerSettings,
    "python -m health_monitor": monitor_settings(),
    "python -m telemetry": TelemetrySettings,
    "python -m portal": PortalSettings,
    "daggers log": cli.checked_settings.KafkaLogin,
    "daggers local": devstack.settings.StackSettings,
}
"""Who is started how, and what it reads."""


def text() -> str:
    """The whole reference, as Markdown."""
    shared = [_row(f"…{name.upper()}", field) for name, field in KafkaSettings.model_fields.items()]
    sections = [_section("The platform's Kafka", shared)]
    sections.append(_section("`daggers`", [_row(*each) for each in _of_the_command()]))
    for command, kind in READERS.items():
        rows = [_row(name, field) for name, field in own(kind)]
        if rows:
            sections.append(_section(f"`{command}`", rows))
    return "\n".join([HEAD, *sections])


def own(kind: type[BaseSettings]) -> Iterator[tuple[str, FieldInfo]]:
    """The variables that are not the shared ones of the platform's Kafka."""
    for name, field in kind.model_fields.items():
        if not (issubclass(kind, KafkaLogin) and name in KafkaSettings.model_fields):
            yield variable(kind, name), field  # type: ignore[arg-type]


def _of_the_command() -> Iterator[tuple[str, FieldInfo]]:
    for name, about in cli.settings.VARIABLES.items():
        yield name, FieldInfo(default=None, description=about)


def services() -> set[str]:
    """Return the settings of services, beside those of the platform's Kafka."""
    kinds = [kind for command, kind in READERS.items() if command.startswith("python ")]
    return {name for kind in kinds for name, _ in own(kind)}


def variables() -> set[str]:
    """Every environment variable that somebody reads."""
    services = {variable(kind, name) for kind in READERS.values() for name in kind.model_fields}  # type: ignore[arg-type]
    return services | set(cli.settings.VARIABLES)


def _section(title: str, rows: list[str]) -> str:
    return "\n".join([f"## {title}", "| variable | default | is |", "|---|---|---|", *rows, ""])


def _row(name: str, field: FieldInfo) -> str:
    about = " ".join((field.description or "").split())
    cells = [f"`{name}`", _default(field), about]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    if field.default_factory is not None or field.default in (None, ""):
        return "not set"
    if isinstance(field.default, Path):
        return f"`{field.default}`".replace(sys.prefix, ".venv")
    secret = SecretStr in (field.annotation, *get_args(field.annotation))
    return "set" if secret else f"`{field.default}`"


if __name__ == "__main__":
    sys.stdout.write(text())
