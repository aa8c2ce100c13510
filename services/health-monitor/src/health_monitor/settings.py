"""What can be set, and nothing else: read once, in `__main__`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from chassis.settings import Settings
from fleet.health import Limits
from health_monitor.addresses import Allowed
from health_monitor.alert import Policy
from health_monitor.receivers import pagerduty, slack
from health_monitor.webhook import Channel


class MonitorSettings(Settings):
    """Watches the daggers and tells on-call. A secret is given by its variable or, better, by a file."""

    # The prefix is DAGGERS_, not DAGGERS_MONITOR_: DAGGERS_ALLOWED_HOSTS is every service's.
    model_config = SettingsConfigDict(env_prefix="DAGGERS_")

    monitor_kafka_bootstrap_servers: str = Field(min_length=1)
    """host:port, comma-separated, of the platform's Kafka."""
    monitor_slack_url: SecretStr | None = None
    """Slack incoming webhook. Neither this nor the next: Slack is not told."""
    monitor_slack_url_file: Path | None = None
    """File that holds the Slack incoming webhook."""
    monitor_pagerduty_routing_key: SecretStr | None = None
    """PagerDuty Events v2 routing key, 32 characters. Neither this nor the next: PagerDuty is not told."""
    monitor_pagerduty_routing_key_file: Path | None = None
    """File that holds the PagerDuty routing key."""
    monitor_pagerduty_url: str = pagerduty.URL
    """PagerDuty Events v2 endpoint."""
    allowed_hosts: str = ""
    """host[:port], comma-separated, as in URLs: where notifications may go although the host is private or
    loopback, or the URL is plain http."""
    monitor_hold_s: float = Field(default=10, ge=0)
    """Seconds a condition must hold before its alert fires."""
    monitor_resolve_hold_s: float = Field(default=30, ge=0)
    """Seconds it must be gone before the alert resolves."""
    monitor_silence_s: float = Field(default=30, gt=0)
    """Seconds without a heartbeat after which a driver that does not answer either is unreachable."""
    monitor_progress_s: float = Field(default=120, gt=0)
    """Seconds without progress that are too long; never less than three triggers of the dagger."""
    monitor_quarantine_percent: float = Field(default=1, ge=0, le=100)
    """Percentage of a dagger's records that may be set aside over five minutes."""
    monitor_quarantine_records: int = Field(default=10, ge=1)
    """Fewer set-aside records than this in five minutes are never too many."""
    monitor_leader_timeout_s: float = Field(default=15, gt=0)
    """Seconds a leader's missing beat is borne before another monitor takes over."""

    @field_validator("allowed_hosts")
    @classmethod
    def _are_hosts(cls, value: str) -> str:
        Allowed.parse(value)
        return value

    @model_validator(mode="after")
    def _secrets_are_given_once(self) -> Self:
        for name in ("monitor_slack_url", "monitor_pagerduty_routing_key"):
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                variable = f"DAGGERS_{name.upper()}"
                raise ValueError(f"set {variable} or {variable}_FILE, not both")
        return self

    def channels(self) -> list[Channel]:
        """The receivers that are configured. Raises: ValueError naming what cannot be read or is no URL."""
        found = []
        url = _secret("MONITOR_SLACK_URL", self.monitor_slack_url, self.monitor_slack_url_file)
        if url is not None:
            _check_url("MONITOR_SLACK_URL", url.get_secret_value())
            found.append(Channel("slack", slack, url))
        key = _secret(
            "MONITOR_PAGERDUTY_ROUTING_KEY",
            self.monitor_pagerduty_routing_key,
            self.monitor_pagerduty_routing_key_file,
        )
        if key is not None:
            _check_url("MONITOR_PAGERDUTY_URL", self.monitor_pagerduty_url)
            if len(key.get_secret_value()) != pagerduty.KEY_LENGTH:
                raise ValueError(
                    "DAGGERS_MONITOR_PAGERDUTY_ROUTING_KEY: it has"
                    f" {len(key.get_secret_value())} characters, not {pagerduty.KEY_LENGTH}"
                )
            found.append(Channel("pagerduty", pagerduty, SecretStr(self.monitor_pagerduty_url), key))
        return found

    def limits(self) -> Limits:
        """What is still healthy."""
        return Limits(
            silence=timedelta(seconds=self.monitor_silence_s),
            progress=timedelta(seconds=self.monitor_progress_s),
            quarantine_share=self.monitor_quarantine_percent / 100,
            quarantine_records=self.monitor_quarantine_records,
        )

    def policy(self) -> Policy:
        """How patient the monitor is."""
        return Policy(
            hold=timedelta(seconds=self.monitor_hold_s),
            resolve_hold=timedelta(seconds=self.monitor_resolve_hold_s),
        )


def _secret(name: str, value: SecretStr | None, file: Path | None) -> SecretStr | None:
    """A secret, trailing white space dropped; None when it is not set."""
    if file is not None:
        try:
            value = SecretStr(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ValueError(f"DAGGERS_{name}_FILE: {file} cannot be read: {why}") from None
    if value is None:
        return None
    text = value.get_secret_value().strip()
    if not text:
        raise ValueError(f"DAGGERS_{name}: there is nothing in it")
    return SecretStr(text)


def _check_url(name: str, url: str) -> None:
    if (
        not url.startswith(("https://", "http://"))
        or not url.isascii()
        or not url.isprintable()
        or " " in url
    ):
        raise ValueError(f"DAGGERS_{name}: it is not an http or https URL")
