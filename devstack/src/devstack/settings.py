"""Read the settings of the embedded stack and the demo from the environment, when a command begins."""

import sys
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class StackSettings(BaseSettings):
    """Environment of `daggers local` and `daggers demo`; every field has a default that works."""

    model_config = SettingsConfigDict(
        env_prefix="DAGGERS_", frozen=True, env_ignore_empty=True, use_attribute_docstrings=True
    )

    tools_dir: Path = Path(sys.prefix) / "share" / "daggers"
    """Folder of the embedded stack's tools (Kafka, InfluxDB, Java)."""

    java_home: Path | None = Field(default=None, validation_alias="JAVA_HOME")
    """A Java installation to prefer over the one on PATH."""

    demo_seconds: int = Field(default=60, ge=1, validation_alias="DEMO_SECONDS")
    """Time for which the demo feeds events, in seconds."""

    demo_keep: bool = Field(default=False, validation_alias="DEMO_KEEP")
    """Leave the demo's stack up at its end."""
