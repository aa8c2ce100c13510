"""Builds the command lines and environments of drivers, spares, attempts of replays, and previews."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from daggers.v1 import spec_pb2

from daggerspec import rundir
from scheduler.drivers import command
from scheduler.drivers.command import Installation

Started: TypeAlias = tuple[Sequence[str], Mapping[str, str]]
"""The words of a command line, and the environment of its process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLines:
    """Common parts of the command lines of one scheduler."""

    installation: Installation
    inherited: Mapping[str, str]
    """The environment that all begin with; secrets are found in it."""
    runs_as_another: Callable[[str], bool]
    """Tells whether drivers of a team run as another user: all others cannot connect to them."""
    scheduler: str
    """This process, as PID:START_TICKS: a spare and a preview end when it has ended."""

    def for_job(self, job: spec_pb2.JobSpec, master: str) -> Started:
        """Build those of a driver, of a spare, or of an attempt of a replay, by where it runs.

        An attempt with a `master` has Spark, one without runs in Python alone. Raises: UnresolvedName.
        """
        closed = self.runs_as_another(job.spec.team)
        if Path(job.run_dir).parent.name == rundir.REPLAYS and not master:
            words = command.replay(job, self.installation.python)
            return words, command.replay_environment(job, self.inherited)
        if Path(job.run_dir).parent.name == rundir.REPLAYS:
            words = command.computing_replay(job, master, self.installation, closed=closed)
        elif job.dagger == rundir.SPARE:
            words = command.spare(job, master, self.installation, self.scheduler)
        else:
            words = command.spark_submit(job, master, self.installation, closed=closed)
        return words, self._environment(job, master)

    def for_preview(self, own: spec_pb2.JobSpec, master: str, job: spec_pb2.JobSpec) -> Started:
        """Build those of a process that previews: `own` is its job, `job` is previewed first, and its secrets
        are there. Raises: UnresolvedName.
        """
        words = command.preview(own, master, self.installation, self.scheduler)
        return words, {**self._environment(own, master), **command.secrets(job, self.inherited)}

    def _environment(self, job: spec_pb2.JobSpec, master: str) -> Mapping[str, str]:
        return command.environment(job, master, self.installation, self.inherited)
