"""The launch protocol: intend, read it back, and only then start a driver. Safe at every crash point.

(1) Fold to the end. (2) Append LaunchIntended; its sequence is the generation. (3) Read it back: it was
applied, and nobody else leads now. (4) Have the launch join the process of others, or give it to the spare,
or start a driver. (5) Append Launched.

Where the intent names another host, (4) and (5) are its agent's, which folds to the end before it starts a
driver: `submit` (ADR 215).

A crash after (2) leaves an intent that nobody answered. Whoever leads next never submits it: a paused
scheduler might be about to. It adopts the driver of that generation if one lives, or intends anew, which
fences the old intent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from google.protobuf.message import Message

from daggerspec import executors
from daggerspec.catalogue import UnresolvedName
from eventlog.fold import Step
from eventlog.follower import Follower
from fleet import ApplyResult, Dagger, Fleet
from fleet.decide.placement import AGENT_TOO_OLD, HOST_LACKS
from fleet.decide.shadowing import is_wanted
from fleet.fold.phases import DELETED
from fleet.fold.resolve import job
from scheduler.drivers import retention
from scheduler.drivers.command import Command
from scheduler.drivers.newer_fields import unknown_field
from scheduler.drivers.process_table import Drivers
from scheduler.drivers.secret_places import SecretRule
from scheduler.drivers.spares import Spares
from scheduler.leader.inventory import Inventory
from scheduler.leader.sharing import Sharing
from scheduler.threads import to_its_end

# Appends a fact about a dagger and reads it back: what became of it. Raises: LeadershipLost.
Write: TypeAlias = Callable[[Dagger, Message], Awaitable[Step[ApplyResult]]]


class Launcher:
    """Launches daggers on this host."""

    def __init__(
        self,
        follower: Follower[ApplyResult],
        fleet: Fleet,
        drivers: Drivers,
        spares: Spares,
        *,
        command: Command,
        platform: spec_pb2.KafkaAddress,
        checkpoints: str,
        shared: bool,
        driver_memory_mib: int,
        batches: spec_pb2.BatchRule,
        secrets: SecretRule,
        egress: spec_pb2.Egress,
        inventory: Inventory,
        sharing: Sharing,
    ) -> None:
        """`checkpoints` is their root, `shared` whether all hosts have the same; `driver_memory_mib` is the
        heap of a driver whose dagger does not say; `batches` and `egress` are for all.
        """
        self._follower = follower
        self._fleet = fleet
        self._drivers, self._spares = drivers, spares
        self._command = command
        self._platform = platform
        self._checkpoints, self._shared = checkpoints, shared
        self._driver_memory_mib = driver_memory_mib
        self._batches, self._egress = batches, egress
        self._secrets, self._inventory, self._sharing = secrets, inventory, sharing
        self._tried: dict[str, int] = {}
        """Newest launch or shadow of each dagger that this process has begun, whatever came of it."""

    async def launch(
        self, name: str, write: Write, still_leading: Callable[[], None], host: str = ""
    ) -> None:
        """Launch the newest version of a dagger on a host; empty: on this one. Nothing, where the dagger
        turns out to have changed since: another one may need another host.

        `still_leading` raises LeadershipLost if another leads.
        """
        here, dagger = self._drivers.host, await self._confirm(name)
        if dagger is None:
            return
        try:
            self._prepare(dagger, dagger.generation)  # so that a spec that cannot run makes no launch
        except UnresolvedName as error:
            gave_up = events_pb2.LaunchFailed if dagger.unanswered else events_pb2.Failed
            await write(dagger, gave_up(error=_user_error(error)))
            return
        self._secrets.tell(self._fleet, dagger)
        intent = events_pb2.LaunchIntended(version=dagger.version, host=host or here)
        intended = self._read_back(name, await write(dagger, intent), still_leading)
        if intended is None:
            return
        if intended.desired != gateway_pb2.DESIRED_RUNNING:
            return  # asked to stop in between: the intent is answered as abandoned, see decide.reconcile
        if intended.host != here:
            return  # its agent does the rest
        await self._answer(intended, write)

    async def confirm_agent(self, since: int) -> bool:
        """Fold to the end of the log, and tell whether the agent of this host is still the one that was
        registered at the sequence `since`: a process that was paused may have been replaced.

        Raises: LogUnavailable.
        """
        await self._follower.catch_up()
        standing = self._fleet.standing(self._drivers.host)
        return standing.epoch == since and not standing.is_gone

    def is_untried(self, dagger: Dagger, *, since: int) -> bool:
        """Tell whether the newest launch of a dagger, or its shadow, is this host's agent's to begin: it was
        intended by a leader elsewhere after the sequence `since`, and this process has not tried it.
        """
        shadow, generation, epoch = dagger.shadow, dagger.generation, dagger.epoch
        if shadow is not None and shadow.driver is None:
            generation, epoch = shadow.generation, shadow.epoch
        elif not dagger.unanswered:
            return False
        claim = self._fleet.claims.get(epoch)
        return (
            dagger.host == self._drivers.host
            and generation > since
            and self._tried.get(dagger.name, 0) < generation
            and claim is not None
            and claim.host != self._drivers.host
        )

    async def submit(self, name: str, write: Write, *, since: int) -> None:
        """Launch here what a leader elsewhere intended, unless something newer has come meanwhile.

        since: epoch of the agent that this process is.
        """
        intended = self._fleet.daggers[name]
        if not await self.confirm_agent(since):
            return
        newest = self._fleet.daggers[name]
        if not newest.unanswered or newest.generation != intended.generation:
            return
        if newest.desired != gateway_pb2.DESIRED_RUNNING:
            return
        self._secrets.tell(self._fleet, newest)
        await self._answer(newest, write, is_elsewhere=True)

    async def submit_shadow(self, name: str, write: Write, *, since: int) -> None:
        """Launch a shadow here that a leader elsewhere intended, as `submit` launches a driver."""
        intended = self._fleet.daggers[name].shadow
        if not await self.confirm_agent(since):
            return
        newest = self._fleet.daggers[name]
        shadow = newest.shadow
        if shadow is None or shadow.driver is not None or intended is None:
            return
        if shadow.generation == intended.generation and is_wanted(newest, shadow):
            await self._answer_shadow(newest, shadow.generation, write, is_elsewhere=True)

    async def _answer(self, intended: Dagger, write: Write, *, is_elsewhere: bool = False) -> None:
        """Begin a launch that stands in the log, and say what came of it. `is_elsewhere`: its leader is."""
        self._tried[intended.name] = intended.generation
        begun = await self._begin(intended, intended.generation, is_elsewhere=is_elsewhere)
        if isinstance(begun, events_pb2.DaggerError):
            await write(intended, events_pb2.LaunchFailed(error=begun))
        else:
            await write(intended, events_pb2.Launched(driver=begun))

    async def launch_shadow(self, name: str, write: Write, still_leading: Callable[[], None]) -> None:
        """Launch the newest version of a dagger beside its driver; as `launch`. What cannot be launched so is
        no error of the dagger: the edit is made otherwise, and says what is wrong with it.
        """
        dagger = await self._confirm(name)
        if dagger is None:
            return
        step = await write(dagger, events_pb2.ShadowIntended(version=dagger.version))
        still_leading()
        intended = self._fleet.daggers[name]
        shadow = intended.shadow
        if not step.applied.changed or shadow is None or shadow.generation != step.record.sequence:
            return
        if self._fleet.host_of(intended) == self._drivers.host:  # else its agent does the rest
            await self._answer_shadow(intended, shadow.generation, write)

    async def _confirm(self, name: str) -> Dagger | None:
        """Read to the end of the log; return the dagger, or None where that has changed it."""
        placed = self._fleet.daggers[name]
        await self._follower.catch_up()
        dagger = self._fleet.daggers[name]
        return dagger if dagger is placed else None

    async def _answer_shadow(
        self, intended: Dagger, generation: int, write: Write, *, is_elsewhere: bool = False
    ) -> None:
        """Begin a shadow that stands in the log, and say what came of it."""
        self._tried[intended.name] = generation
        begun = await self._begin(intended, generation, beside=intended.generation, is_elsewhere=is_elsewhere)
        if isinstance(begun, events_pb2.DaggerError):
            await write(intended, events_pb2.ShadowEnded(error=begun))
        else:
            await write(intended, events_pb2.ShadowLaunched(driver=begun))

    async def _begin(
        self, intended: Dagger, generation: int, *, beside: int = 0, is_elsewhere: bool = False
    ) -> events_pb2.DriverHandle | events_pb2.DaggerError:
        """Start what was intended, have it join a process, or give it to the spare; or why that cannot be.

        `beside`: the driver that it is a shadow of. `is_elsewhere`: a leader elsewhere intended it.
        """
        try:
            prepared, command, environment = self._prepare(intended, generation)
            if is_elsewhere and (newer := unknown_field(prepared)):
                return _too_old(self._drivers.host, newer)
            if is_elsewhere and (missing := await self._inventory.find_missing(intended.spec)):
                return _lacks(self._drivers.host, missing)
            if beside:
                self._secrets.tell(self._fleet, intended)
                prepared.shadow.beside = beside
            elif (joined := await self._sharing.join(intended, prepared)) is not None:
                return joined
            spare = await self._spares.take(prepared, self._cluster(intended).spark_master)
            if spare is not None:
                return spare
            return await to_its_end(partial(self._drivers.start, prepared, command, environment))
        except UnresolvedName as error:
            return _user_error(error)
        except OSError as error:
            return _os_error(error)

    def _read_back(
        self, name: str, step: Step[ApplyResult], still_leading: Callable[[], None]
    ) -> Dagger | None:
        """Return the dagger whose launch was intended; None when that was refused. Raises: LeadershipLost."""
        still_leading()
        intended = self._fleet.daggers[name]
        accepted = step.applied.changed and intended.generation == step.record.sequence
        return intended if accepted else None

    def job(self, dagger: Dagger, generation: int, run_dir: Path) -> spec_pb2.JobSpec:
        """Build the job of a process that works for a dagger, in a directory. Raises: UnresolvedName."""
        self._secrets.check(self._fleet, dagger)
        return job(
            self._fleet,
            dagger,
            generation,
            platform=self._platform,
            checkpoint_root=retention.checkpoint_root(self._checkpoints, dagger),
            run_dir=str(run_dir),
            egress=self._egress,
        )

    def _prepare(
        self, dagger: Dagger, generation: int
    ) -> tuple[spec_pb2.JobSpec, Sequence[str], Mapping[str, str]]:
        prepared = self.job(dagger, generation, self._drivers.run_dir(dagger.name, generation))
        # Where it runs is decided: with its heap filled in, a driver would judge that anew, and refuse.
        prepared.spec.ClearField("isolation")
        prepared.spec.driver_memory_mib = prepared.spec.driver_memory_mib or self._driver_memory_mib
        executors.fill(prepared.spec, self._cluster(dagger))
        prepared.batches.CopyFrom(self._batches)
        living = (other for other in self._fleet.daggers.values() if other.phase != DELETED)
        prepared.checkpoints.root = self._checkpoints
        prepared.checkpoints.used = any(map(self._has_checkpoint, living))
        prepared.checkpoints.has_own = self._has_checkpoint(dagger)
        prepared.from_start, prepared.created = dagger.from_start, dagger.create_sequence
        command, environment = self._command(prepared, self._cluster(dagger).spark_master)
        return prepared, command, environment

    def _has_checkpoint(self, dagger: Dagger) -> bool:
        """Tell whether a dagger has a checkpoint in the root, by the log: a driver that was RUNNING has."""
        return bool(dagger.ran_on) and (self._shared or dagger.ran_on == self._drivers.host)

    def _cluster(self, dagger: Dagger) -> spec_pb2.Cluster:
        cluster = self._fleet.clusters.get(dagger.spec.cluster)
        if cluster is None:
            raise UnresolvedName("UNKNOWN_CLUSTER", f"cluster {dagger.spec.cluster} is not registered")
        return cluster.value


def _too_old(host: str, field: str) -> events_pb2.DaggerError:
    return events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_EXTERNAL,
        reason=AGENT_TOO_OLD,
        detail=f"the scheduler of host {host} is older than its {field}: upgrade it",
        retryable=True,
    )


def _lacks(host: str, missing: Sequence[str]) -> events_pb2.DaggerError:
    return events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_EXTERNAL,
        reason=HOST_LACKS,
        detail=f"host {host} has no {', '.join(missing)}",
        retryable=True,
    )


def _user_error(error: UnresolvedName) -> events_pb2.DaggerError:
    return events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_USER, reason=error.reason, detail=error.detail
    )


def _os_error(error: OSError) -> events_pb2.DaggerError:
    file = f" ({error.filename})" if error.filename else ""
    return events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_INTERNAL,
        reason="LAUNCH_FAILED",
        detail=f"its driver could not be started: {error.strerror}{file}",
        retryable=True,
    )
