"""Collects the heartbeats that drivers of this host leave in their run directories, for the host's own beat.

While a scheduler collects, it renews a file beside them; a driver that does not find it renewed sends its
heartbeats itself. So a scheduler that ends, or one of a version that does not collect, silences nobody.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from daggers.v1 import telemetry_pb2
from google.protobuf.message import DecodeError

from chassis.files import read_plain, touch
from daggerspec import rundir
from fleet import Fleet

MOST_BYTES: Final = 512 * 1024
"""Bytes of heartbeats in one record, as far as there is more than one: half of what a broker takes."""


class DriverLaunch(NamedTuple):
    """A launch whose driver runs on this host."""

    dagger: str
    generation: int
    run_dir: str


def list_launches(fleet: Fleet, host: str) -> list[DriverLaunch]:
    """List the newest launches of daggers that have a driver on a host."""
    return [
        DriverLaunch(dagger.name, dagger.generation, dagger.driver.run_dir)
        for dagger in fleet.drivers.on(host).daggers.values()
        if dagger.driver is not None and dagger.driver.host == host and dagger.driver.run_dir
    ]


class HeartbeatFiles:
    """The heartbeats that drivers have left, each once."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}
        """When the file of a run directory was written as it was seen last, in ns; 0: it was not there."""

    def collect(self, launches: Iterable[DriverLaunch]) -> list[telemetry_pb2.Heartbeat]:
        """Return what was left since the last call, and have it left from now on.

        A file that is there already when a launch is looked at first may be of a driver that hangs: it
        counts once it is written again.
        """
        before, self._versions = self._versions, {}
        heartbeats: list[telemetry_pb2.Heartbeat] = []
        for launch in launches:
            folder = Path(launch.run_dir)
            with suppress(OSError):  # the directory is gone, or its disk is full: the driver sends itself
                version = self._version(folder / rundir.HEARTBEAT)
                self._renew(folder / rundir.COLLECTED)
                self._versions[launch.run_dir] = version
                if version != before.get(launch.run_dir, version):
                    heartbeats += _read(launch, folder / rundir.HEARTBEAT)
        return heartbeats

    def _renew(self, file: Path) -> None:
        touch(file)
        os.utime(file, follow_symlinks=False)

    def _version(self, file: Path) -> int:
        try:
            return file.stat(follow_symlinks=False).st_mtime_ns
        except FileNotFoundError:
            return 0


def _read(launch: DriverLaunch, file: Path) -> Iterator[telemetry_pb2.Heartbeat]:
    """Yield the heartbeat in a file; nothing where it is none. Raises: OSError.

    Whose it is, the log says: a team's own user may write there.
    """
    with suppress(DecodeError):
        heartbeat = telemetry_pb2.Heartbeat.FromString(read_plain(file))
        heartbeat.dagger, heartbeat.generation = launch.dagger, launch.generation
        yield heartbeat


def pack(
    beat: telemetry_pb2.HostBeat, heartbeats: Iterable[telemetry_pb2.Heartbeat]
) -> Iterator[telemetry_pb2.HostBeat]:
    """Yield the beat of a host with the heartbeats of its drivers, and as often as a record has no room for
    more.
    """
    packed, size = telemetry_pb2.HostBeat(), 0
    packed.CopyFrom(beat)
    for heartbeat in heartbeats:
        length = heartbeat.ByteSize()
        if packed.heartbeats and size + length > MOST_BYTES:
            yield packed
            packed, size = telemetry_pb2.HostBeat(), 0
            packed.CopyFrom(beat)
        packed.heartbeats.append(heartbeat)
        size += length
    yield packed
