"""The log of a dagger's driver, found on this machine."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from daggers.v1 import gateway_pb2

from cli.errors import RefusedError


def find(dagger: gateway_pb2.Dagger, state_dir: Path | None) -> Path:
    """The log of the newest launch: of the driver that runs, else of the last one below `state_dir`.

    Raises RefusedError when there is none on this machine.
    """
    if dagger.HasField("driver"):
        log = Path(dagger.driver.run_dir) / "driver.log"
        if log.is_file():
            return log
    runs = state_dir / "runs" / dagger.name if state_dir else None
    launches = (
        [folder for folder in runs.iterdir() if folder.name.isdigit()] if runs and runs.is_dir() else []
    )
    for folder in sorted(launches, key=lambda launch: int(launch.name), reverse=True):
        if (folder / "driver.log").is_file():
            return folder / "driver.log"
    host = f": its driver runs on {dagger.driver.host}, look there" if dagger.driver.host else ""
    raise RefusedError(f"there is no log of {dagger.name} on this machine{host}", reason="NO_LOG")


def lines(log: Path) -> Iterator[str]:
    """The lines of a log, without their ends: first of its older part, if it was long enough to have one."""
    for part in (_older(log), log):
        with suppress(FileNotFoundError), part.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                yield line.rstrip("\n")


def _older(log: Path) -> Path:
    """Where the driver moves what is in its log when that is long."""
    return log.with_name(f"{log.name}.1")
