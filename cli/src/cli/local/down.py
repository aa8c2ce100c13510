"""Stop an embedded stack: those who act first, what they stand on last. Nothing of it is left running."""

from pathlib import Path

from cli.errors import RefusedError
from cli.local import drivers, processes, state
from cli.progress import Steps

GRACE_S = {"scheduler": 20.0, "gateway": 15.0, "influxdb": 15.0, "kafka": 30.0}
DRIVER_GRACE_S = 20.0


def down(state_dir: Path, steps: Steps) -> bool:
    """Stop what runs; False when nothing did. Raises RefusedError when something cannot be stopped."""
    stack = state.load(state_dir)
    if stack is None:
        return False
    alive = {process.name: process for process in stack.processes if process.members()}
    launched = drivers.find(state_dir)
    if not alive and not launched:
        state.save(stack.without_processes())
        return False
    for name in ("scheduler", "drivers", "gateway", "influxdb", "kafka"):
        if name == "drivers":
            _stop_drivers(state_dir, steps)
        elif name in alive:
            with steps.step(f"stopping {name}"):
                processes.stop([alive[name]], grace_s=GRACE_S[name])
    left = [p for p in alive.values() if p.members()] + [d.session for d in drivers.find(state_dir)]
    if left:
        names = ", ".join(f"{process.name} (pid {process.pid})" for process in left)
        raise RefusedError(f"still running: {names}; stop them by hand", reason="STILL_RUNNING")
    state.save(stack.without_processes())
    return True


def _stop_drivers(state_dir: Path, steps: Steps) -> None:
    launched = drivers.find(state_dir)
    if launched:
        with steps.step(f"stopping drivers: {', '.join(driver.dagger for driver in launched)}"):
            killed = drivers.stop_all(state_dir, grace_s=DRIVER_GRACE_S)
        if killed:
            steps.note(f"killed, as they did not end in {DRIVER_GRACE_S:.0f} s: {', '.join(killed)}")
