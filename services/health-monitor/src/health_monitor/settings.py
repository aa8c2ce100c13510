"""Settings of the monitor, read once, in `__main__`. Kinds of receivers add their own."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from pydantic import (
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import SettingsConfigDict

from chassis.settings import Bind, EgressSettings, LeaderSettings, MetricsSettings
from fleet.health.degradation import Limits
from health_monitor import receivers
from health_monitor.alerts.alert import Policy
from health_monitor.deliver.webhook import Channel
from kafkaclient.settings import KafkaSettings


class MonitorSettings(EgressSettings, LeaderSettings, KafkaSettings, MetricsSettings):
    """Watches the daggers and tells on-call. A secret is given by its variable or, better, by a file."""

    model_config = SettingsConfigDict(env_prefix="DAGGERS_MONITOR_", populate_by_name=True)

    hold_s: float = Field(default=10, ge=0)
    """Seconds a condition must hold before its alert fires."""
    resolve_hold_s: float = Field(default=30, ge=0)
    """Seconds it must be gone before the alert resolves."""
    progress_s: float = Field(default=120, gt=0)
    """Seconds without progress that are too long; never less than three triggers of the dagger."""
    kafka_away_s: float = Field(default=30, gt=0)
    """Seconds in which the platform's Kafka may take no record of the leading monitor."""
    watchdog_url_file: Path | None = None
    """File that holds a URL, which is called by POST every minute while a monitor leads, judges and is caught
    up: who is not called any more has to raise the alarm. Without it nobody notices that the monitors are
    gone."""
    portal_url: str = ""
    """Base URL of the portal, for links in notifications. Without it they have none."""
    runbook_url: str = ""
    """URL where docs/operations.md is served, for links in notifications. Without it they name the file."""
    state_dir: Path | None = None
    """Directory where the alert that Kafka is away is kept until the log has it. Without it a monitor that is
    restarted before forgets it, and nobody is notified that it is over."""

    callbacks_bind: Bind = ""
    """Address to take acknowledgements from Slack and PagerDuty on, host:port, without TLS: a proxy that they
    reach by https stands before it. Each request is signed, or refused. Unset: nowhere."""

    @field_validator("portal_url", "runbook_url")
    @classmethod
    def _is_web(cls, value: str) -> str:
        web = value.startswith(("https://", "http://")) and value.isprintable()
        if value and (not web or set(value) & set("<>| ")):
            raise ValueError("it is not an http or https URL")
        return value

    @model_validator(mode="after")
    def _secrets_are_given_once(self) -> Self:
        given = {name for name in type(self).model_fields if getattr(self, name) is not None}
        for name in sorted(given):
            if f"{name}_file" in given:
                variable = f"DAGGERS_MONITOR_{name.upper()}"
                raise ValueError(f"set {variable} or {variable}_FILE, not both")
        return self

    def channels(self) -> list[Channel]:
        """Build the configured receivers. Raises: ValueError that names the invalid variable."""
        channels = []
        for name in _kinds():
            kind, fields = receivers.kind(name), receivers.list_variables(name)
            given = {field: value for field in fields if (value := self._read_field(name, field)) is not None}
            if any(info.is_required() for field, info in fields.items() if field in given):
                channels.append(Channel(name, kind, _validate(name, kind.Settings, given)))
        return channels

    def watchdog(self) -> SecretStr | None:
        """Read the watchdog's URL from its file; None without one. Raises: ValueError."""
        if self.watchdog_url_file is None:
            return None
        name = "DAGGERS_MONITOR_WATCHDOG_URL_FILE"
        url = _strip(name, _read(name, self.watchdog_url_file))
        try:
            return TypeAdapter(receivers.SecretUrl).validate_python(url)
        except ValidationError:
            raise ValueError(f"{name}: what is in it is not an http or https URL") from None

    def _read_field(self, kind: str, field: str) -> Any:
        """Read a field of a kind from its variable or file, without white space around a secret; None: unset.

        Raises: ValueError.
        """
        name = f"{kind}_{field}"
        value = getattr(self, name)
        file = getattr(self, f"{name}_file", None)
        if file is not None:
            value = _read(f"DAGGERS_MONITOR_{name.upper()}_FILE", file)
        if not isinstance(value, SecretStr):
            return value
        return _strip(f"DAGGERS_MONITOR_{name.upper()}", value)

    def limits(self) -> Limits:
        """Build the limits of healthy daggers."""
        return Limits(
            progress=timedelta(seconds=self.progress_s),
            kafka=timedelta(seconds=self.kafka_away_s),
        )

    def policy(self) -> Policy:
        """Build the times that findings must hold."""
        return Policy(
            hold=timedelta(seconds=self.hold_s),
            resolve_hold=timedelta(seconds=self.resolve_hold_s),
        )


def monitor_settings() -> type[MonitorSettings]:
    """Create the class of the settings, with those of the kinds of receivers that variables configure."""
    fields: dict[str, Any] = {}
    for name in _kinds():
        for field, info in receivers.list_variables(name).items():
            fields |= _variables(name, field, info)
    return create_model(
        "MonitorSettings", __base__=MonitorSettings, __doc__=MonitorSettings.__doc__, **fields
    )


def _kinds() -> list[str]:
    """List the kinds that variables configure."""
    return [name for name in receivers.names() if receivers.kind(name).IN_SETTINGS]


def _variables(kind: str, field: str, info: FieldInfo) -> dict[str, tuple[Any, Any]]:
    """Build the settings of a field of a kind: a secret without a default has a second one, for a file."""
    name, description = f"{kind}_{field}", info.description or ""
    if not info.is_required():
        default = info.default.get_secret_value() if isinstance(info.default, SecretStr) else info.default
        return {name: (type(default), Field(default=default, description=description))}
    without = f"Without it {kind} is not notified."
    if info.annotation is not SecretStr:
        return {name: (info.annotation, Field(default=None, description=f"{description} {without}"))}
    in_file = f"File that holds it instead: {description}"
    return {
        name: (SecretStr | None, Field(default=None, description=f"{description} {without}")),
        f"{name}_file": (Path | None, Field(default=None, description=in_file)),
    }


def _validate(
    name: str, kind: type[receivers.ReceiverSettings], given: dict[str, Any]
) -> receivers.ReceiverSettings:
    try:
        return kind(**given)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        variable = f"DAGGERS_MONITOR_{name}_{problem['loc'][0]}".upper()
        raise ValueError(f"{variable}: {problem['msg'].removeprefix('Value error, ')}") from None


def _strip(variable: str, secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value().strip()
    if not text:
        raise ValueError(f"{variable}: there is nothing in it")
    return SecretStr(text)


def _read(variable: str, file: Path) -> SecretStr:
    try:
        return SecretStr(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ValueError(f"{variable}: {file} cannot be read: {why}") from None
