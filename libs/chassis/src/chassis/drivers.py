"""The drivers of this host, by the identity in each run directory RUNS/DAGGER/GENERATION (ADR 28).

This is the one place that reads and writes `daggerspec.rundir.DriverIdentity` and says whether its driver
lives: schedulers, `daggers local`, the chaos run and the benches ask here.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from chassis import processes
from chassis.files import read_plain, replace_text
from chassis.processes import Process
from daggerspec import rundir
from daggerspec.rundir import DriverIdentity

if TYPE_CHECKING:
    from daggers.v1.events_pb2 import DriverHandle  # the wrapper would load Protobuf for it

Identified: TypeAlias = "DriverIdentity | DriverHandle"
"""A driver, as its directory or as the log says which it is."""

Sessions: TypeAlias = Mapping[int, Sequence[Process]]
"""Living processes by the process id of their session's leader."""


def led_by(pid: int, run_dir: Path, *, dagger: str, generation: int) -> DriverIdentity:
    """Build the identity of a launch whose leader is a living process of this boot."""
    return DriverIdentity(
        dagger=dagger,
        generation=generation,
        run_dir=str(run_dir),
        boot_id=processes.boot_id(),
        pid=pid,
        start_ticks=processes.start_ticks(pid) or 0,
    )


def write(identity: DriverIdentity) -> None:
    """Write it into its run directory, in one step. Raises: OSError."""
    replace_text(Path(identity.run_dir) / rundir.IDENTITY, identity.as_json())


def read(run_dir: Path) -> DriverIdentity | None:
    """Read the identity that a launch's leader wrote; None before, and from an older version.

    The owner of the directory may have written anything: an identity is accepted only for processes of that
    user, and for this launch.
    """
    try:
        identity = DriverIdentity.from_json(read_plain(run_dir / rundir.IDENTITY).decode())
        whose = run_dir.stat().st_uid
    except (OSError, ValueError):
        return None
    if whose == os.geteuid():
        return identity
    if processes.owner(identity.pid) not in (None, whose):
        return None
    home = identity.process_dir
    if home and not _belongs_to(Path(home), whose):
        return None
    own = replace(identity, run_dir=str(run_dir), dagger=run_dir.parent.name)
    return own if own.dagger == rundir.REPLAYS else replace(own, generation=int(run_dir.name))


def _belongs_to(folder: Path, user: int) -> bool:
    try:
        return folder.stat().st_uid == user
    except OSError:
        return False


def living(runs: Path) -> list[DriverIdentity]:
    """List the launches below `runs` that have a living process."""
    written = [driver for run_dir in _run_dirs(runs) if (driver := read(run_dir)) is not None]
    sessions = _sessions()
    return [identity for identity in written if members(identity, sessions) and not is_over(identity)]


def members(driver: Identified, sessions: Sessions | None = None) -> list[Process]:
    """List the living processes of a driver; empty when its session id was reused by another.

    `sessions`: the process table, if the caller has read it.
    """
    if driver.boot_id != processes.boot_id():
        return []
    leader = processes.find(driver.pid)
    if leader is not None and leader.start_ticks != driver.start_ticks:
        return []  # the pid was given to another process, which can only be when the session had ended
    alive = processes.session(driver.pid) if sessions is None else list(sessions.get(driver.pid, ()))
    if leader is None and not any(_works_in(process, str(home_of(driver))) for process in alive):
        return []  # that a later process with this pid has led, and left behind
    return alive


def home_of(driver: Identified) -> Path:
    """Return the directory that the process of a driver works in."""
    return Path(driver.process_dir or driver.run_dir)


def link_of(run_dir: Path, home: Path) -> Path:
    """Return the place of the link by which a launch joins the process that works in `home`."""
    return home / rundir.MEMBERS / f"{run_dir.parent.name}.{run_dir.name}"


def is_over(driver: Identified) -> bool:
    """Tell whether a launch has ended, or never began, though its process may live on with others."""
    run_dir = Path(driver.run_dir)
    if driver.process_dir:
        has_joined = link_of(run_dir, home_of(driver)).is_symlink()
        return not has_joined or (run_dir / rundir.EXIT_CODE).exists()
    return (run_dir / rundir.MEMBERS).is_dir() and (run_dir / rundir.EXIT_CODE).exists()


def list_company(driver: Identified) -> list[Path]:
    """List the run directories of the other launches of a driver's process that have not ended by
    themselves, whether the process lives or not.
    """
    home, own = home_of(driver), Path(os.path.realpath(driver.run_dir))
    links = []
    with suppress(OSError):  # nobody has joined
        links = sorted((home / rundir.MEMBERS).iterdir())
    launches = [Path(os.path.realpath(path)) for path in (home, *links)]
    others = (run_dir for run_dir in launches if run_dir != own)
    # the directory of one that ended long ago is removed while the process goes on
    return [run_dir for run_dir in others if run_dir.is_dir() and not (run_dir / rundir.EXIT_CODE).exists()]


def alive(driver: Identified) -> bool:
    """Tell whether a launch lives: it has not ended, and a process of its driver lives."""
    return not is_over(driver) and is_process_alive(driver)


def is_process_alive(driver: Identified) -> bool:
    """Tell whether a process of a driver lives."""
    leader = processes.find(driver.pid) if driver.boot_id == processes.boot_id() else None
    if leader is not None:  # the common case, without reading the process table
        return leader.start_ticks == driver.start_ticks
    return bool(members(driver))


def of_earlier_host(driver: Identified, *, boot_id: str, began: int) -> bool:
    """Tell whether a driver's machine or container was restarted after its start, which ended it.

    `boot_id` and `began`: of the host now. False without proof: for a driver whose boot is unknown, or that
    ended before its start could be read.
    """
    if not driver.boot_id:
        return False
    return driver.boot_id != boot_id or 0 < driver.start_ticks < began


def unwritten(runs: Path) -> list[DriverIdentity]:
    """List living drivers without an identity file: of an older version, or with a deleted directory.

    The leader, or another process if the leader is gone, has a characteristic command line:
    `… RUNS/DAGGER/GENERATION… --generation GENERATION`.
    """
    identities: dict[tuple[str, int], DriverIdentity] = {}
    for process in processes.everybody():
        launch = _launch(process.pid, runs)
        if launch is None or launch in identities:
            continue
        leader = processes.find(process.session)
        if leader is not None and _launch(leader.pid, runs) != launch:
            continue  # somebody runs a driver by hand, in the session of their shell
        dagger, generation = launch
        run_dir = runs / dagger / str(generation)
        if read(run_dir) is None and _may_lead(process.pid, run_dir):
            start_ticks = (leader or process).start_ticks
            identities[launch] = DriverIdentity(
                dagger=dagger,
                generation=generation,
                run_dir=str(run_dir),
                boot_id=processes.boot_id(),
                pid=process.session,
                start_ticks=start_ticks,
            )
    return list(identities.values())


def _may_lead(pid: int, run_dir: Path) -> bool:
    """Tell whether a process belongs to us or to the directory's owner: others may have any command line."""
    try:
        whose = run_dir.stat().st_uid
    except OSError:
        return True  # deleted: the command line only identifies the process's own session
    return processes.owner(pid) in (os.geteuid(), whose)


def _run_dirs(runs: Path) -> list[Path]:
    """Links are where a spare was before it got its launch: that directory is there, too."""
    return sorted(path for path in runs.glob("*/*") if path.name.isdigit() and not path.is_symlink())


def _sessions() -> Sessions:
    sessions = defaultdict(list)
    for process in processes.everybody():
        sessions[process.session].append(process)
    return sessions


def _works_in(process: Process, run_dir: str) -> bool:
    """Tell whether a process works in a driver's directory, deleted or not, as all its processes do."""
    where = processes.working_directory(process.pid).removesuffix(" (deleted)")
    return where == os.path.realpath(run_dir)


def _launch(pid: int, runs: Path) -> tuple[str, int] | None:
    """Find the launch that a command line names; None without one."""
    arguments = processes.arguments(pid)
    if "--generation" not in arguments[:-1]:
        return None
    generation = arguments[arguments.index("--generation") + 1]
    for argument in arguments:
        with suppress(ValueError):
            name, number, *_ = Path(argument).relative_to(runs).parts
            if number == generation:
                return name, int(generation)
    return None
