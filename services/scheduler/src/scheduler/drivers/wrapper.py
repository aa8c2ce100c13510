"""Leads the session of one driver, says which one it is, and outlives it only to write down how it ended.

    python -P -m scheduler.drivers.wrapper --run-dir RUN_DIR --dagger NAME --generation N -- COMMAND…

The identity is written before anything is started, so that whatever runs can be found. Whoever adopts the
driver is not its parent and cannot wait for it, so the exit code goes to a file. SIGTERM is ignored, and
stays ignored across exec: the JVM must not end in the middle of a batch because its group was told to drain.
The Python half sets a handler of its own.

Little but the standard library: one of these runs beside every driver.
"""

from __future__ import annotations

import argparse
import os
import pwd
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from chassis import drivers, processes
from chassis.files import replace_text
from chassis.oomkills import OomKills, RecentKills
from daggerspec import rundir

# How long the rest of the session may take to end by itself: the Python half may still write exit.json.
LINGER_S = 5.0
NOT_STARTED = 127
# SIGKILL to the JVM; and to its Python half, after which the JVM exits with what that exited with.
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
_LOOK_MS = 5000


def main(argv: list[str]) -> int:
    """Write the identity, run the command, write its exit code: `-N` for signal N."""
    parser = argparse.ArgumentParser(prog="scheduler.drivers.wrapper")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--dagger", required=True)
    parser.add_argument("--generation", type=int, required=True)
    parser.add_argument("--user", default="", help="whom all of the session runs as; else who starts it")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    run_dir: Path = arguments.run_dir
    if arguments.user:
        _become(arguments.user)
    os.chdir(run_dir)
    me = drivers.led_by(os.getpid(), run_dir, dagger=arguments.dagger, generation=arguments.generation)
    try:
        drivers.write(me)
        child = os.posix_spawnp(arguments.command[0], arguments.command, os.environ)  # noqa: TID251 - handed on
    except OSError as error:
        sys.stderr.write(f"{error.filename or arguments.command[0]}: {error.strerror}\n")
        code = NOT_STARTED
    else:
        code, kills = _wait(child)
        _end_session()
        if kills and code in _KILLED:
            replace_text(Path(rundir.KILLED_FOR_MEMORY), f"{kills}\n", durable=True)
    # Where it works: the directory of a spare has moved to its launch's by now. A process of several launches
    # says how it ended, and each launch that ended by itself has said so: all others died with it.
    file = rundir.PROCESS_EXIT_CODE if Path(rundir.MEMBERS).is_dir() else rundir.EXIT_CODE
    replace_text(Path(file), f"{code}\n", durable=True)
    return 0


def _wait(child: int) -> tuple[int, int]:
    """Wait for a child; return its exit code, and how many processes the kernel killed for memory meanwhile:
    in the last seconds, where it was.
    """
    kills = RecentKills(OomKills(child).read)
    with suppress(OSError), os.fdopen(os.pidfd_open(child)) as process:  # kernels before 5.3 have none
        ended = select.poll()
        ended.register(process, select.POLLIN)
        while not ended.poll(_LOOK_MS):
            kills.look()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), kills.count()


def _become(name: str) -> None:
    """Give up all rights but a user's, for good."""
    user = pwd.getpwnam(name)
    os.initgroups(name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


def _end_session() -> None:
    """Let what the driver left behind end, then kill it."""
    me, end = os.getpid(), time.monotonic() + LINGER_S
    while others := [process for process in processes.session(os.getsid(0)) if process.pid != me]:
        if time.monotonic() >= end:
            for process in others:
                try:
                    os.kill(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        time.sleep(0.05)  # nothing tells the end of a process that is not our child


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
