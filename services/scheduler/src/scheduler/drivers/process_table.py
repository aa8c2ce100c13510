"""The drivers of this host: starts, finds, signals and kills them, and reads the files that they leave.

A launch owns the directory RUNS/DAGGER/GENERATION. Its processes are one session, led by the wrapper; the
identity that the wrapper writes there proves that they are that launch's (`chassis.drivers`). A spare has no
launch yet, and waits in RUNS/_spare/NUMBER, a directory as all others (ADR 89). An attempt of a replay has
RUNS/_replay/NUMBER (ADR 95).
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from daggers.v1 import events_pb2, rules_pb2, spec_pb2
from google.protobuf import json_format
from google.protobuf.message import DecodeError

from chassis import drivers, lastword, processes
from chassis.drivers import Identified
from chassis.files import read_plain, replace_bytes, replace_text, touch
from daggerspec import anew, rundir
from daggerspec.catalogue import UnresolvedName
from daggerspec.limits import DRIVER_OVERHEAD_MIB, MIN_HEAP_MIB
from daggerspec.rundir import DriverIdentity
from daggerspec.shadow import ShadowState
from fleet.decide.observation import Presence
from scheduler.drivers import exit_classification, retention, runas
from scheduler.drivers.runas import RunAs, User

_PLAIN = re.compile(r"[a-z][a-z0-9_-]{0,62}")


_MIB: Final = 1024 * 1024
_PATIENCE_S: Final = 20.0
"""Time that a launch which shares its process has to end by itself, before all of that is killed."""
_REMEMBERED: Final = 1_000
"""Drivers that this process remembers to have drained, before it forgets those that are gone."""
KEPT_ATTEMPTS: Final = 20
"""Directories of attempts of replays that stay, whosever they are."""


NOBODY_ELSE: Final = RunAs()
"""All drivers run as the scheduler."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt of a replay that lives."""

    dagger: str
    replay_id: str
    process: events_pb2.DriverHandle
    computes: bool = False
    """True when it has Spark."""


def _is_plain(name: str) -> bool:
    """Tell whether a name is one directory below another, and no way to somewhere else."""
    return _PLAIN.fullmatch(name) is not None


def as_handle(identity: DriverIdentity, host: str) -> events_pb2.DriverHandle:
    """Return the handle of a driver of this host, as the log has it."""
    return events_pb2.DriverHandle(
        host=host,
        boot_id=identity.boot_id,
        pid=identity.pid,
        start_ticks=identity.start_ticks,
        run_dir=identity.run_dir,
        spare=identity.spare,
        process_dir=identity.process_dir,
    )


class Drivers:
    """The drivers below one directory `runs` of one host.

    `python` runs the wrapper, `run_as` has the users of teams. Not for several threads.
    """

    def __init__(self, runs: Path, *, host: str, python: str, run_as: RunAs = NOBODY_ELSE) -> None:
        self.runs = runs
        self.host = host
        self._python = python
        self._run_as = run_as
        self._children: set[int] = set()
        self._drained: set[tuple[int, int]] = set()
        self._ended: dict[str, float] = {}
        """Until when a launch that shares its process may end by itself, by run directory."""
        self._written: dict[str, dict[str, Hashable]] = {}
        """Versions of the files that were written for launches, by run directory and file."""
        self.write_missing()

    def run_dir(self, name: str, generation: int) -> Path:
        """Return the directory of a launch. Raises: UnresolvedName for a name that is none of a directory.

        The gateway judges names; but what stands in the log is not believed where it becomes a path.
        """
        if not _is_plain(name):
            raise UnresolvedName("INVALID_NAME", f"{name!r} cannot be the name of a dagger")
        return self.runs / name / str(generation)

    def start(
        self, job: spec_pb2.JobSpec, command: Sequence[str], environment: Mapping[str, str]
    ) -> events_pb2.DriverHandle:
        """Start a driver in a session of its own. Raises: OSError, UnresolvedName."""
        run_dir = self.run_dir(job.dagger, job.generation)
        # A directory that exists is another launch's.
        (run_dir / rundir.TEMPORARY).mkdir(parents=True, mode=0o700)
        _write_job(run_dir, job)
        user = self._run_as.user(job.spec.team)
        return as_handle(self._spawn(run_dir, job, command, environment, user), self.host)

    def start_spare(
        self, job: spec_pb2.JobSpec, command: Sequence[str], environment: Mapping[str, str]
    ) -> DriverIdentity:
        """Start a driver that waits for a launch, in the directory that its job names. Raises: OSError."""
        run_dir = Path(job.run_dir)
        (run_dir / rundir.TEMPORARY).mkdir(parents=True, mode=0o700)
        return self._spawn(run_dir, job, command, environment)

    def runs_as_another(self, team: str) -> bool:
        """Tell whether a team's drivers run as a user of their own, which no spare does."""
        return self._run_as.user(team) is not None

    def lives(self, spare: DriverIdentity) -> bool:
        """Tell whether a process of a spare lives."""
        self.reap()
        return drivers.alive(spare)

    def ready(self, spare: DriverIdentity) -> bool:
        """Tell whether a spare lives, has warmed up, and has no launch yet: then a link stands in its
        place.
        """
        home = Path(spare.run_dir)
        return not home.is_symlink() and (home / rundir.DRIVER).exists() and self.lives(spare)

    def assign(self, spare: DriverIdentity, job: spec_pb2.JobSpec) -> events_pb2.DriverHandle | None:
        """Make a spare the driver of a launch; None when it cannot take it. Raises: OSError, UnresolvedName.

        The launch begins with the new name of its directory, in which everything is by then. The signal only
        has the spare see it at once.
        """
        home, run_dir = Path(spare.run_dir), self.run_dir(job.dagger, job.generation)
        if not self.ready(spare):
            return None
        driver = replace(
            spare, dagger=job.dagger, generation=job.generation, run_dir=str(run_dir), spare=True
        )
        _write_job(home, job)
        replace_text(home / rundir.IDENTITY, driver.as_json())
        run_dir.parent.mkdir(exist_ok=True)
        home.rename(run_dir)  # refused where that directory exists: it is another launch's
        _wake(run_dir)
        return as_handle(driver, self.host)

    def join(self, process: events_pb2.DriverHandle, job: spec_pb2.JobSpec) -> events_pb2.DriverHandle | None:
        """Have the process of another launch run this one, too; None when it does not live. Raises: OSError,
        UnresolvedName.

        process: handle of any launch of it. The launch begins with a link, when all it needs is there. The
        signal only has the process see it at once. A process without another launch that runs is ending.
        """
        if not self.takes_launches(process):
            return None
        home, run_dir = drivers.home_of(process), self.run_dir(job.dagger, job.generation)
        member = DriverIdentity(
            dagger=job.dagger,
            generation=job.generation,
            run_dir=str(run_dir),
            boot_id=process.boot_id,
            pid=process.pid,
            start_ticks=process.start_ticks,
            spare=process.spare,
            process_dir=str(home),
        )
        # A directory that exists is another launch's.
        (run_dir / rundir.TEMPORARY).mkdir(parents=True, mode=0o700)
        _write_job(run_dir, job)
        drivers.write(member)
        user = self._run_as.user(job.spec.team)
        if user is not None:
            self._hand_over(run_dir, job, user)
        link = drivers.link_of(run_dir, home)
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(run_dir)
        _wake(home)
        return as_handle(member, self.host)

    def takes_launches(self, process: events_pb2.DriverHandle) -> bool:
        """Tell whether a process lives, and some launch of it runs: without one it ends."""
        self.reap()
        has_launch = not drivers.is_over(process) or bool(drivers.list_company(process))
        return has_launch and drivers.is_process_alive(process)

    def user_of(self, team: str) -> str:
        """Return the name of the user that a team's drivers run as; empty: the scheduler's own."""
        user = self._run_as.user(team)
        return "" if user is None else user.name

    def clear_spares(self, own: DriverIdentity | None) -> None:
        """Kill the spares of schedulers that have ended, and remove what spares leave: all but this one's.

        The log of the newest stays, alive or not: it may say why that one failed.
        """
        places = _entries(self.runs / rundir.SPARE)
        for place in places:
            identity = drivers.read(place)  # by way of a link, that of the launch that a spare became
            if own is not None and str(place) == own.run_dir:
                continue
            if identity is not None and drivers.alive(identity):
                if not place.is_symlink():
                    self.kill(identity)
            elif place.is_symlink():
                place.unlink(missing_ok=True)
            elif place != places[-1]:
                shutil.rmtree(place, ignore_errors=True)

    def attempt_dir(self, number: int) -> Path:
        """Return the directory of an attempt of a replay."""
        return self.runs / rundir.REPLAYS / str(number)

    def start_attempt(
        self,
        job: spec_pb2.JobSpec,
        request: events_pb2.QuarantineReplayRequested,
        command: Sequence[str],
        environment: Mapping[str, str],
    ) -> events_pb2.DriverHandle:
        """Start an attempt of a replay, in the directory that its job names. Raises: OSError."""
        run_dir = Path(job.run_dir)
        # A directory that exists is another attempt's.
        (run_dir / rundir.TEMPORARY).mkdir(parents=True, mode=0o700)
        _write_spec(run_dir, job)
        replace_bytes(run_dir / rundir.REPLAY, request.SerializeToString(deterministic=True))
        # Nobody who looks for drivers of the dagger means this one.
        named = spec_pb2.JobSpec(
            dagger=rundir.REPLAYS, generation=job.generation, checkpoint_root=job.checkpoint_root
        )
        user = self._run_as.user(job.spec.team)
        return as_handle(self._spawn(run_dir, named, command, environment, user), self.host)

    def attempts(self) -> list[Attempt]:
        """Return the attempts of replays that live, the oldest first."""
        self.reap()
        alive = []
        for place in sorted(_entries(self.runs / rundir.REPLAYS), key=_number):
            identity = drivers.read(place)
            if identity is None or not drivers.alive(identity):
                continue
            try:
                request = events_pb2.QuarantineReplayRequested.FromString(read_plain(place / rundir.REPLAY))
            except (OSError, DecodeError):
                continue
            alive.append(
                Attempt(request.name, request.replay_id, as_handle(identity, self.host), request.computes)
            )
        return alive

    def outcomes(self, handle: events_pb2.DriverHandle) -> dict[str, int]:
        """Return how many records have each outcome, as an attempt that has finished counted them."""
        try:
            counted = json.loads(read_plain(Path(handle.run_dir) / rundir.OUTCOMES))
            return {str(name): int(number) for name, number in counted.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}

    def clear_attempts(self) -> None:
        """Remove the directories of attempts that have ended, but for the newest."""
        places = sorted(_entries(self.runs / rundir.REPLAYS), key=_number)
        for place in places[:-KEPT_ATTEMPTS]:
            identity = drivers.read(place)
            if identity is None or not drivers.alive(identity):
                shutil.rmtree(place, ignore_errors=True)

    def _spawn(
        self,
        run_dir: Path,
        job: spec_pb2.JobSpec,
        command: Sequence[str],
        environment: Mapping[str, str],
        user: User | None = None,
    ) -> DriverIdentity:
        """Start the leader of a session, which starts the rest, as the scheduler or as `user`.

        Raises: OSError.
        """
        # -s: it begins as root, and whose home this is may have packages there.
        wrapper = [self._python, "-P", "-s", "-m", "scheduler.drivers.wrapper", "--run-dir", str(run_dir)]
        wrapper += ["--dagger", job.dagger, "--generation", str(job.generation)]
        if user is not None:
            self._hand_over(run_dir, job, user)
            wrapper += ["--user", user.name]
            environment = {**environment, **user.environment()}
        wrapper += ["--", *command]
        log = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        pid = os.posix_spawn(
            wrapper[0],
            wrapper,
            dict(environment),
            setsid=True,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(run_dir / rundir.LOG), log, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
        )
        self._children.add(pid)
        return drivers.led_by(pid, run_dir, dagger=job.dagger, generation=job.generation)

    def _hand_over(self, run_dir: Path, job: spec_pb2.JobSpec, user: User) -> None:
        """Make a driver's directory and its checkpoints its user's alone. Raises: OSError."""
        runas.open_way(run_dir.parent)
        (run_dir / rundir.LOG).touch(0o600)
        runas.hand_over(run_dir, user)
        checkpoints = retention.directory(job.checkpoint_root) if job.checkpoint_root else None
        if checkpoints is not None:
            runas.open_way(checkpoints.parent)
            _mark(job.checkpoints)
            runas.hand_over(checkpoints, user)

    def write_missing(self) -> None:
        """Write the identities that no wrapper wrote: those of drivers that an older version has launched.

        Called when such a version may have acted: when a scheduler starts, and when it begins to lead. No
        older version has spares, and the place of one may be a link to its launch's by the time of writing.
        """
        launches = (driver for driver in drivers.unwritten(self.runs) if driver.dagger != rundir.SPARE)
        for identity in launches:
            with suppress(FileNotFoundError):  # its directory was deleted
                drivers.write(identity)

    def presence(self, handle: events_pb2.DriverHandle) -> Presence:
        """Tell whether a process of this driver lives, as far as this host can know."""
        if handle.host != self.host:
            return Presence.REMOTE
        self.reap()
        return Presence.ALIVE if drivers.alive(handle) else Presence.GONE

    def find(self, name: str, generation: int) -> events_pb2.DriverHandle | None:
        """Return the living driver of a launch, or None."""
        self.reap()
        if not _is_plain(name):
            return None
        identity = drivers.read(self.run_dir(name, generation))
        if identity is None or not drivers.alive(identity):
            return None
        return as_handle(identity, self.host)

    def build_lost_handle(self, name: str, generation: int) -> events_pb2.DriverHandle:
        """Return a handle of a launch on this host of which no process lives: only the directory is known."""
        run_dir = str(self.run_dir(name, generation)) if _is_plain(name) else ""
        return events_pb2.DriverHandle(host=self.host, run_dir=run_dir)

    def living(self) -> list[DriverIdentity]:
        """Return every launch below `runs` that has a living process, and every spare."""
        self.reap()
        launches = drivers.living(self.runs)
        places = {launch.run_dir for launch in launches}
        self._written = {place: files for place, files in self._written.items() if place in places}
        self._ended = {place: until for place, until in self._ended.items() if place in places}
        return launches

    def resident_mib(self, driver_memory_mib: int, others: Iterable[int] = ()) -> int:
        """Return the MiB that the drivers, spares and replays of this host take of what is counted for them,
        and other sessions, led by `others`, of what is counted for a driver of `driver_memory_mib`.
        """
        resident = processes.resident_bytes()
        counted = {
            driver.pid: _heap_mib(Path(driver.run_dir)) or driver_memory_mib for driver in self.living()
        }
        counted |= dict.fromkeys(others, driver_memory_mib)
        return sum(
            min(resident.get(leader, 0) // _MIB, heap_mib + DRIVER_OVERHEAD_MIB)
            for leader, heap_mib in counted.items()
        )

    def drain(self, handle: events_pb2.DriverHandle) -> bool:
        """Ask a driver to finish its batch and exit: the file `stop`, and, where no other launch has its
        process, one SIGTERM to its group.

        Returns whether this was the first time.
        """
        stop = Path(handle.run_dir) / rundir.STOP
        with suppress(FileNotFoundError):
            touch(stop)
        if not drivers.alive(handle):
            return False
        if drivers.list_company(handle):  # a signal would drain all of them
            is_first = handle.run_dir not in self._ended
            self._ended.setdefault(handle.run_dir, math.inf)
            return is_first
        driver = handle.pid, handle.start_ticks
        if driver in self._drained or not self._members(handle):
            return False
        if len(self._drained) >= _REMEMBERED:
            self._drained = {gone for gone in self._drained if Path(f"/proc/{gone[0]}").exists()}
        self._drained.add(driver)
        with suppress(ProcessLookupError):
            os.killpg(handle.pid, signal.SIGTERM)
        return True

    def allow_refusals(self, run_dir: str, until: datetime) -> None:
        """Write for the driver of a launch until when its sinks may refuse any rows; once for each instant.

        Raises: OSError.
        """
        self._write_news(run_dir, rundir.ALLOWED, until, lambda: f"{until.timestamp()}\n")

    def pause_sinks(self, run_dir: str, sinks: tuple[str, ...]) -> None:
        """Tell the driver of a launch which sinks are paused; once for each change. Raises: OSError."""
        self._write_news(
            run_dir,
            rundir.PAUSED,
            sinks,
            lambda: "".join(f"{sink}\n" for sink in sinks),
            is_needed=bool(sinks),
        )

    def give_rules(
        self,
        run_dir: str,
        revision: int,
        rules: Sequence[rules_pb2.AlertRule],
        tables: Iterable[spec_pb2.ReferenceTable] = (),
    ) -> None:
        """Give the driver of a launch the alert rules to judge, and the tables that they read; once for each
        revision. Raises: OSError.
        """
        self._write_news(
            run_dir,
            rundir.RULES,
            revision,
            lambda: json_format.MessageToJson(
                rules_pb2.AlertRules(
                    revision=revision,
                    rules=rules,
                    references=[table.SerializeToString(deterministic=True) for table in tables],
                )
            ),
            is_needed=bool(rules),
        )

    def _write_news(
        self,
        run_dir: str,
        file: str,
        version: Hashable,
        text: Callable[[], str],
        *,
        is_needed: bool = True,
    ) -> None:
        """Write a file for a launch, once for each version of what it says. is_needed: False where it says
        nothing, so that only an older one is replaced. Raises: OSError.
        """
        written = self._written.setdefault(run_dir, {})
        if file in written and written[file] == version:
            return
        place = Path(run_dir) / file
        if is_needed or place.exists():
            with suppress(FileNotFoundError):  # its directory was deleted
                replace_text(place, text())
                runas.hand_over_file(place)
        written[file] = version

    def tell(self, run_dir: str, file: str, text: str) -> None:
        """Write a file for a launch that is decided once. Raises: OSError."""
        place = Path(run_dir) / file
        if not place.exists():
            with suppress(FileNotFoundError):  # its directory was deleted
                replace_text(place, text)
                runas.hand_over_file(place)

    def shadow_state(self, handle: events_pb2.DriverHandle) -> ShadowState | None:
        """Return the state that a shadow last wrote; None where nothing can be read."""
        try:
            return ShadowState.from_json(read_plain(Path(handle.run_dir) / rundir.SHADOW).decode())
        except (OSError, ValueError):
            return None

    def kill(self, driver: Identified) -> None:
        """Send SIGKILL to every process of a driver; to be called again until it is gone.

        The leader comes last: while it lives, what was just being forked is known as the driver's. A launch
        that shares its process is asked to end first, and ends all of it only when it does not.
        """
        if drivers.list_company(driver) and self._may_still_end(driver):
            return
        members = self._members(driver)
        for process in [member for member in members if member.pid != driver.pid] or members:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self.reap()

    def _may_still_end(self, driver: Identified) -> bool:
        """Ask a launch to end, and tell whether it has time left for that."""
        if drivers.is_over(driver):
            return True
        with suppress(FileNotFoundError):
            touch(Path(driver.run_dir) / rundir.KILL)
            touch(Path(driver.run_dir) / rundir.STOP)
        now = time.monotonic()
        until = min(self._ended.get(driver.run_dir, math.inf), now + _PATIENCE_S)
        self._ended[driver.run_dir] = until
        return now < until

    def exit(self, handle: events_pb2.DriverHandle) -> events_pb2.Exited:
        """Return the exit of a driver that is gone."""
        run_dir, home = Path(handle.run_dir), drivers.home_of(handle)
        own = _read_code(run_dir / rundir.EXIT_CODE)
        of_process = _read_code(home / rundir.PROCESS_EXIT_CODE) if own is None else None
        fact = exit_classification.classify_exit(
            # a process that ends by itself has the code of another launch, which does not speak for this one
            own if own is not None else of_process or None,
            _read(run_dir / rundir.EXIT),
            heap_mib=_heap_mib(home),
            killed_for_memory=(home / rundir.KILLED_FOR_MEMORY).exists(),
        )
        if own is not None:
            return fact
        company = len(drivers.list_company(handle))
        if company or (handle.process_dir and of_process is not None and of_process >= 0):
            steps = {(word.dagger, word.generation): word.step for word in lastword.read(home)}
            step = steps.get((run_dir.parent.name, _number(run_dir)))
            return exit_classification.classify_loss(fact, company, step)
        return fact

    def deployment(self, handle: events_pb2.DriverHandle) -> str:
        """Return how the deployment ended a driver that is gone, in one clause; empty where nothing proves
        that.

        Not for a driver that the log asked to stop: that one has the file, too.
        """
        run_dir = Path(handle.run_dir)
        if (run_dir / rundir.STOP).exists() and not (run_dir / rundir.KILL).exists():
            return "its deployment was taken down, and told it to stop"
        if drivers.of_earlier_host(handle, boot_id=processes.boot_id(), began=processes.began()):
            return "its machine or its container was started anew"
        return ""

    def reap(self) -> None:
        """Take leave of our own children that have ended; others belong to pid 1."""
        for pid in list(self._children):
            try:
                done, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                done = pid
            if done:
                self._children.discard(pid)

    def _members(self, driver: Identified) -> list[processes.Process]:
        self.reap()
        return drivers.members(driver)


def _mark(root: spec_pb2.CheckpointRoot) -> None:
    """Mark a root of checkpoints that is new, for a driver that may not write there. Raises: OSError."""
    place = retention.directory(root.root) if root.root else None
    if place is not None and not root.used and not (place / anew.MARKER).exists():
        replace_text(place / anew.MARKER, anew.MARKED)


def _write_job(run_dir: Path, job: spec_pb2.JobSpec) -> None:
    """Write the job of a launch. The directory of a shadow has a mark for those who look for the newest
    driver.
    """
    if job.HasField("shadow"):
        replace_text(run_dir / rundir.SHADOW, ShadowState().as_json())
    _write_spec(run_dir, job)


def _write_spec(run_dir: Path, job: spec_pb2.JobSpec) -> None:
    replace_bytes(run_dir / rundir.SPEC, job.SerializeToString(deterministic=True))


def _wake(run_dir: Path) -> None:
    """Signal the Python half that `driver.json` names. What is lost costs it a moment: it looks by itself."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        half = json.loads(read_plain(run_dir / rundir.DRIVER))
        if processes.start_ticks(half["pid"]) == half["start_ticks"]:
            os.kill(half["pid"], signal.SIGUSR1)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def _number(place: Path) -> int:
    return int(place.name) if place.name.isdigit() else 0


def _heap_mib(run_dir: Path) -> int:
    """Return the heap of a launch in MiB; 0 when its job cannot be read."""
    try:
        job = spec_pb2.JobSpec.FromString(read_plain(run_dir / rundir.SPEC))
    except (OSError, DecodeError):
        return 0
    return max(job.spec.driver_memory_mib, MIN_HEAP_MIB)


def _read_code(path: Path) -> int | None:
    """Read an exit code; None where there is none."""
    text = _read(path) or ""
    return int(text) if re.fullmatch(r"-?\d{1,3}", text) else None


def _read(path: Path) -> str | None:
    try:
        return read_plain(path).decode(errors="replace").strip()
    except FileNotFoundError:
        return None
