"""A host's agent collects what its drivers have left, and sends it with its own beat."""

from __future__ import annotations

import os
from pathlib import Path

from daggers.v1 import telemetry_pb2

from daggerspec import rundir
from scheduler.drivers import heartbeat_files
from scheduler.drivers.heartbeat_files import DriverLaunch, HeartbeatFiles, pack

Heartbeat = telemetry_pb2.Heartbeat


def leave(launch: DriverLaunch, at_ns: int, **fields: int) -> None:
    """Write a heartbeat as a driver leaves it, at this instant of the file's clock."""
    file = Path(launch.run_dir) / rundir.HEARTBEAT
    file.write_bytes(
        Heartbeat(dagger=launch.dagger, generation=launch.generation, **fields).SerializeToString()
    )
    os.utime(file, ns=(at_ns, at_ns))


def launch(folder: Path, name: str) -> DriverLaunch:
    (folder / name).mkdir()
    return DriverLaunch(name, 7, str(folder / name))


def test_each_heartbeat_is_collected_once_and_one_that_stood_there_before_is_not(tmp_path: Path) -> None:
    one, two, files = launch(tmp_path, "one"), launch(tmp_path, "two"), HeartbeatFiles()
    leave(one, 1, batch_id=1)
    looks = [files.collect([one, two])]
    leave(one, 2, batch_id=2)
    leave(two, 2, batch_id=5)
    looks += [files.collect([one, two]), files.collect([one, two])]
    leave(one, 3, batch_id=3)
    looks.append(files.collect([one]))

    assert [[(beat.dagger, beat.batch_id) for beat in look] for look in looks] == [
        [],
        [("one", 2), ("two", 5)],
        [],
        [("one", 3)],
    ]


def test_drivers_are_shown_that_they_are_collected(tmp_path: Path) -> None:
    one, files = launch(tmp_path, "one"), HeartbeatFiles()
    collected = Path(one.run_dir) / rundir.COLLECTED
    files.collect([one])
    os.utime(collected, (0, 0))
    files.collect([one])

    assert collected.stat().st_mtime > 0


def test_whose_a_heartbeat_is_the_log_says_and_what_is_none_is_left_out(tmp_path: Path) -> None:
    one, two, files = launch(tmp_path, "one"), launch(tmp_path, "two"), HeartbeatFiles()
    gone = DriverLaunch("gone", 3, str(tmp_path / "gone"))
    files.collect([one, two, gone])
    leave(DriverLaunch("victim", 99, one.run_dir), 2, batch_id=4)
    (Path(two.run_dir) / rundir.HEARTBEAT).write_bytes(b"\xff no heartbeat")
    (beat,) = files.collect([one, two, gone])

    assert (beat.dagger, beat.generation, beat.batch_id) == ("one", 7, 4)


def test_a_link_in_place_of_a_file_is_neither_read_nor_renewed(tmp_path: Path) -> None:
    one, files, secret = launch(tmp_path, "one"), HeartbeatFiles(), tmp_path / "secret"
    secret.write_bytes(Heartbeat(dagger="x", batch_id=9).SerializeToString())
    os.utime(secret, (1, 1))
    files.collect([one])
    for name in (rundir.HEARTBEAT, rundir.COLLECTED):
        (Path(one.run_dir) / name).unlink(missing_ok=True)
        (Path(one.run_dir) / name).symlink_to(secret)
    found = files.collect([one])

    assert (found, secret.stat().st_mtime) == ([], 1)


def test_no_record_is_larger_than_a_broker_takes() -> None:
    beat = telemetry_pb2.HostBeat(host="h", epoch=3)
    large = [Heartbeat(dagger=f"d{number}", ui_url="x" * 1000) for number in range(1_200)]
    packed = list(pack(beat, large))

    assert [each.host for each in packed] == ["h", "h", "h"]
    assert max(each.ByteSize() for each in packed) < 1.1 * heartbeat_files.MOST_BYTES
    assert [one.dagger for each in packed for one in each.heartbeats] == [one.dagger for one in large]
    assert list(pack(beat, [])) == [beat]
