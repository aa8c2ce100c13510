"""Stop an embedded stack: those who act first, what they stand on last. Nothing of it is left running.

What runs is what the state directory remembers and what is marked as its own in the process table: the
directory may have been deleted meanwhile.
"""

import shutil
from contextlib import suppress
from pathlib import Path

from cli.errors import RefusedError
from cli.output.progress import Steps
from devstack import drivers, processes, state

DRIVER_GRACE_S = 20.0
# In the order of stopping: seconds until what has not ended is killed.
GRACE_S = {
    "portal": 10.0,
    "health-monitor": 20.0,
    "alert-receiver": 10.0,
    "scheduler": 20.0,
    "drivers": DRIVER_GRACE_S,
    "gateway": 15.0,
    "influxdb": 15.0,
    "kafka": 30.0,
}


# What appears again in a directory that was deleted under a running stack: drivers' leases, what the
# scheduler knows of the control topic, and our own lock.
RENEWED = {"checkpoints", "control.json", state.LOCK}


def down(state_dir: Path, steps: Steps) -> bool:
    """Stop what runs; False when nothing did. Raises RefusedError when something cannot be stopped."""
    stack = state.load(state_dir)
    alive = _running(state_dir, stack)
    ran = bool(alive or drivers.find(state_dir))
    for name, grace_s in GRACE_S.items():
        parts = [process for process in alive if process.name == name]
        if name == "drivers":
            _stop_drivers(state_dir, steps)
        elif parts:
            with steps.step(f"stopping {name}"):
                processes.stop(parts, grace_s=grace_s)
    left = _running(state_dir, stack) + [drivers.session(driver) for driver in drivers.find(state_dir)]
    if left:
        names = ", ".join(f"{process.name} (pid {process.pid})" for process in left)
        raise RefusedError(f"still running: {names}; stop them by hand", reason="STILL_RUNNING")
    if stack is not None:
        state.save(stack.without_processes())
    elif ran:
        _sweep(state_dir)
    return ran


def runs(state_dir: Path) -> bool:
    """Tell whether anything of a stack runs. Raises: RefusedError when its file is damaged."""
    return bool(_running(state_dir, state.load(state_dir)) or drivers.find(state_dir))


def _sweep(state_dir: Path) -> None:
    """Remove a directory that is there only because the stack went on writing in it."""
    with suppress(FileNotFoundError):
        if {entry.name for entry in state_dir.iterdir()} <= RENEWED:
            shutil.rmtree(state_dir)


def _running(state_dir: Path, stack: state.Stack | None) -> list[processes.StackProcess]:
    recorded = [process for process in stack.processes if process.members()] if stack else []
    recorded_pids = {process.pid for process in recorded}
    return recorded + [
        process for process in processes.find_marked(state_dir) if process.pid not in recorded_pids
    ]


def _stop_drivers(state_dir: Path, steps: Steps) -> None:
    launched = drivers.find(state_dir)
    if launched:
        with steps.step(f"stopping drivers: {', '.join(map(drivers.describe, launched))}"):
            killed = drivers.stop_all(state_dir, grace_s=DRIVER_GRACE_S)
        if killed:
            steps.note(f"killed, as they did not end in {DRIVER_GRACE_S:.0f} s: {', '.join(killed)}")
