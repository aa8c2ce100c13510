"""Settings of a scheduler, from its environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from daggers.v1 import spec_pb2
from pydantic import Field, FilePath, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from chassis.binding import host_and_port, is_wildcard
from chassis.settings import (
    EgressSettings,
    FolderSettings,
    HostTokenSettings,
    LeaderSettings,
    MetricsSettings,
    SecretPlacesSettings,
    go_together,
    only_loopback_is_open,
)
from daggerspec import checkpointroot, folders
from kafkaclient.settings import KafkaSettings
from scheduler.drivers import runas
from scheduler.drivers.command import ARCHIVE
from scheduler.drivers.secret_places import SecretRule


class SchedulerSettings(
    EgressSettings,
    FolderSettings,
    SecretPlacesSettings,
    HostTokenSettings,
    LeaderSettings,
    KafkaSettings,
    MetricsSettings,
):
    """Launches, adopts, relaunches and stops the drivers that the control topic asks for."""

    model_config = SettingsConfigDict(env_prefix="DAGGERS_SCHEDULER_")

    state_dir: Path
    """Directory for `runs/DAGGER/GENERATION/` and `checkpoints/`. Keep it: checkpoints are progress."""
    checkpoint_root: str = ""
    """Root of checkpoints: a directory from / on, or a Hadoop URI such as hdfs://namenode:8020/daggers. Every
    host of drivers and executors must see it. Unset: `checkpoints/` of the state directory, for daggers whose
    executors run on this host; a second host is refused then, unless both are started with
    --local-checkpoints.
    """
    spark_properties_file: Path | None = None
    """Spark properties for every driver, as spark-submit's --properties-file reads them: what a cluster asks
    for (queue, image, executors). What Daggers sets itself cannot be changed there."""
    spark_home: Path | None = None
    """Spark home that `python -m runtime.appcds_home PLACE` has prepared, from which drivers start in half
    the time. Unset: the installed PySpark's."""
    max_drivers: int | None = Field(default=None, ge=1)
    """Drivers that may run at once. Unset: as many as have memory."""
    memory_mib: int | None = Field(default=None, ge=1)
    """MiB that drivers may need together: the heap of each (768 MiB unless its dagger says another), and 1536
    MiB. Unset: what is free at the start, less 2 GiB, and no less than max_drivers of the usual size need.
    """
    spare: bool = True
    """Keep a warm driver while this scheduler leads and a cluster has a local Spark master. It takes the next
    launch there that has the default memory and no secret of the environment: that starts in a fifth of the
    time. It needs as much memory as any driver of the usual size, and gives way to drivers, replays and
    previews that run.
    """
    cutover: bool = False
    """Begin the new driver of an edit that recomputes beside the one that runs; it takes its place when it
    has read as far: so no rows lack meanwhile. Of queries of one stream with TUMBLE or HOP windows, where
    there is room for both drivers; other edits stop, then start.
    """
    previews: bool = True
    """Preview daggers on this host: in a process for each cluster, which is started on demand, needs as much
    memory as any driver of the usual size, and gives way to drivers and replays that run.
    """
    secrets: Literal["observe", "enforce"] = "observe"
    """Handling of launches whose dagger finds a secret by {file} or {env} in none of the secret places:
    observe says so in the log, enforce refuses them. Registered secrets are launched with either way.
    """
    run_as: str = ""
    """Users of this host that drivers run as: TEAM=USER each, separated by spaces, `*=USER` for all other
    teams. What a driver has on this host (its directory, its checkpoints) is that user's alone then. Needs
    root; Python, Java and the files that drivers read (secrets, certificates, reference tables) must be
    readable to these users. Empty: drivers run as the scheduler does."""
    egress: Literal["observe", "enforce"] = "observe"
    """Handling of connections of sinks to addresses that no administrator registered, and that are not public
    and not allowed (docs/decisions/0064): observe makes them and says so in the log of the driver, enforce
    refuses them. Takes effect with the next launch of a dagger.
    """
    attempts: int = Field(default=10, ge=0)
    """Relaunches without five minutes of progress before a dagger is FAILED."""
    java_home: Path | None = Field(default=None, validation_alias="JAVA_HOME")
    """Java 17 or newer. Unset: the `java` on the PATH."""
    host_bind: str = "127.0.0.1:0"
    """Address to serve the logs and rows of this host's drivers on, for gateways: host:port; port 0 takes a
    free one. Anything but loopback needs a token file."""
    host_address: str = ""
    """Address at which gateways reach it, host:port. Unset: the address it is bound to, or this host's name
    when that is all of them.
    """
    host_tls_cert_file: FilePath | None = None
    """PEM file of the certificate chain that gateways are shown. Unset: they are served without TLS.
    Read again when it changes, for new connections."""
    host_tls_key_file: FilePath | None = None
    """PEM file of the certificate's private key. Read again with the certificate."""

    @field_validator("checkpoint_root")
    @classmethod
    def _absolute(cls, value: str) -> str:
        """Refuse what is neither a directory from / on nor a URI."""
        if value and not checkpointroot.is_root(value):
            raise ValueError("must be a directory from / on, or a URI such as hdfs://namenode:8020/daggers")
        return value

    @field_validator("spark_home")
    @classmethod
    def _home(cls, value: Path | None) -> Path | None:
        """Refuse a directory that was not prepared: nothing could be launched."""
        missing = [name for name in ("bin/spark-submit", ARCHIVE) if value and not (value / name).is_file()]
        if missing:
            raise ValueError(f"has no {missing[0]}: prepare it by `python -m runtime.appcds_home PLACE`")
        return value

    @field_validator("spark_properties_file")
    @classmethod
    def _readable(cls, value: Path | None) -> Path | None:
        """Refuse a file that is not there: spark-submit would say so at every launch instead."""
        if value is not None and not value.is_file():
            raise ValueError("is not a file")
        return value

    @field_validator("host_bind", "host_address")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        """Refuse what names no host or no port."""
        if value:
            host_and_port(value)
        return value

    @field_validator("run_as")
    @classmethod
    def _are_users(cls, text: str) -> str:
        """Refuse teams and users that there are not, and users where only root could become another."""
        if runas.parse(text) and os.geteuid() != 0:
            raise ValueError("needs a scheduler that runs as root")
        return text

    @model_validator(mode="after")
    def _only_loopback_is_open(self) -> SchedulerSettings:
        """Refuse to show logs and rows to whoever reaches this host."""
        go_together(self, "host_tls_cert_file", "host_tls_key_file")
        only_loopback_is_open(self, "host_bind", "host_token_file")
        return self

    def secret_rule(self) -> SecretRule:
        """Return the rule about secrets that specifications find by themselves."""
        return SecretRule(self.allowed_secrets, enforced=self.secrets == "enforce")

    def rules(self) -> spec_pb2.Egress:
        """Return the limits on addresses and folders of sinks, for drivers."""
        enforce = self.egress == "enforce"
        return spec_pb2.Egress(
            enforce=enforce,
            hosts=self.allowed_hosts,
            networks=self.allowed_networks,
            folders=folders.parse(self.allowed_folders),
        )

    def reached_at(self, port: int, host_name: str) -> str:
        """Return the address at which gateways reach what is bound to `port` of a host."""
        if self.host_address:
            return self.host_address
        bound, _ = host_and_port(self.host_bind)
        return f"{host_name if is_wildcard(self.host_bind) else bound}:{port}"
