"""What a scheduler is told by its environment."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from chassis.settings import Settings


class SchedulerSettings(Settings):
    """Launches, adopts, relaunches and stops the drivers that the control topic asks for."""

    model_config = SettingsConfigDict(env_prefix="DAGGERS_SCHEDULER_")

    kafka_bootstrap_servers: str
    """Kafka of the platform: control topic, heartbeats, quarantine. Comma-separated host:port list."""
    state_dir: Path
    """Directory for `runs/DAGGER/GENERATION/` and `checkpoints/`. Keep it: checkpoints are progress."""
    max_drivers: int | None = Field(default=None, ge=1)
    """Drivers that may run at once. Unset: as many as fit into the memory free at the start, less 2 GiB."""
    driver_memory_mib: int = Field(default=768, ge=450)
    """Heap of a driver whose dagger does not say, in MiB; 256 MiB more are counted for each."""
    leader_timeout_s: float = Field(default=10, ge=0.5)
    """Seconds without a beat of the leader after which a standby takes over."""
    start_timeout_s: float = Field(default=120, gt=0)
    """Seconds within which a launched driver must give its first heartbeat, or be killed and relaunched."""
    drain_timeout_s: float = Field(default=60, gt=0)
    """Seconds a driver may take to finish its batch when it is asked to stop, before it is killed."""
    attempts: int = Field(default=10, ge=0)
    """Relaunches without five minutes of progress before a dagger is FAILED."""
    java_home: Path | None = None
    """Java 17 or newer. Unset: JAVA_HOME, or the `java` on the PATH."""
    log_level: str = Field(default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")
    """DEBUG, INFO, WARNING or ERROR."""
