"""What the command reads from its environment, once, in `cli.__main__`."""

import sys
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Environment of the `daggers` command; every field has a default that works."""

    model_config = SettingsConfigDict(env_prefix="DAGGERS_", frozen=True, env_ignore_empty=True)

    tools_dir: Path = Path(sys.prefix) / "share" / "daggers"
    """Where the embedded stack's tools (Kafka, InfluxDB, Java) are installed."""

    gateway: str | None = None
    """Address of the gateway when neither --gateway nor --state-dir is given: host:port or https://host:port."""

    ca_file: Path | None = None
    """PEM file of the authority that signed the gateway's certificate; the usual ones when unset."""

    token_file: Path | None = None
    """File that holds the token the gateway asks for."""

    state_home: Path = Field(
        default_factory=lambda: Path.home() / ".local" / "state", validation_alias="XDG_STATE_HOME"
    )
    """The user's folder for state: which local stack was started last, and the default one itself."""

    java_home: Path | None = Field(default=None, validation_alias="JAVA_HOME")
    """A Java installation to prefer over the one on PATH."""

    demo_seconds: int = Field(default=60, ge=1, validation_alias="DEMO_SECONDS")
    """How long the demo feeds events, in seconds."""

    demo_keep: bool = Field(default=False, validation_alias="DEMO_KEEP")
    """Leave the demo's stack up at its end."""
