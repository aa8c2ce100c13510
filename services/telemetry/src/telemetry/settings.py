"""All settings of the service: read once, in `__main__`."""

from __future__ import annotations

from pydantic import Field, FilePath
from pydantic_settings import SettingsConfigDict

from kafkaclient.settings import KafkaSettings


class TelemetrySettings(KafkaSettings):
    """Writes what the platform says about itself to InfluxDB, for dashboards."""

    model_config = SettingsConfigDict(env_prefix="DAGGERS_TELEMETRY_")

    influx_url: str = Field(pattern="^https?://")
    """Base URL of the InfluxDB that dashboards read, for example http://influxdb:8086."""
    influx_org: str = "-"
    """Organisation; "-" for InfluxDB 1.8."""
    influx_bucket: str = Field(min_length=1)
    """Bucket; database or database/retention_policy for InfluxDB 1.8."""
    influx_token_file: FilePath | None = None
    """File that holds the API token; user:password for InfluxDB 1.8. Unset: no authentication."""
