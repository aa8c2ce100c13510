"""Rows and logs through a gateway that shares neither a user nor a disk with the scheduler."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import grpc
import psutil
import pytest
from conftest import DAGGERS, Stack
from tests.integration.bookings import Bookings, booking, counted, recount, spread
from tests.integration.cli import Cli, Outcome, at_least

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may start a process of another user"),
]
DEADLINE_S = 60
LATER = "2026-01-01T12:03:00Z"


@pytest.fixture
def elsewhere(stack: Stack) -> Iterator[str]:
    """Address of a gateway of the user nobody, who has the hosts' token and cannot look into the stack."""
    nobody = pwd.getpwnam("nobody")
    home = Path(tempfile.mkdtemp(prefix="gateway-of-nobody-", dir="/tmp"))
    shutil.copy(stack.state_dir / "host.token", home / "host.token")
    for place in (home, home / "host.token"):
        os.chown(place, nobody.pw_uid, nobody.pw_gid)
    before = stack.state_dir.stat().st_mode
    stack.state_dir.chmod(0o700)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    told = {
        "DAGGERS_GATEWAY_KAFKA_BOOTSTRAP_SERVERS": stack.kafka,
        "DAGGERS_GATEWAY_BIND": address,
        "DAGGERS_GATEWAY_DATABASE_URL": f"sqlite:///{home}/gateway.sqlite",
        "DAGGERS_HOST_TOKEN_FILE": str(home / "host.token"),
        "PATH": os.environ["PATH"],  # noqa: TID251 - a test
    }
    command = [sys.executable, "-m", "tests.integration.unprivileged"]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, env=told, stdout=log, stderr=log)
    try:
        with grpc.insecure_channel(address) as channel:
            try:
                grpc.channel_ready_future(channel).result(DEADLINE_S)
            except grpc.FutureTimeoutError:
                pytest.fail((home / "log").read_text())
        assert psutil.Process(process.pid).uids().effective == nobody.pw_uid
        yield address
    finally:
        process.terminate()
        process.wait(DEADLINE_S)
        stack.state_dir.chmod(before & 0o777)
        shutil.rmtree(home)


def asked(address: str, *words: str) -> Outcome:
    """One command for a gateway, from a home that knows no stack."""
    done = subprocess.run(
        [DAGGERS, *words, "--gateway", address, "-o", "json"],
        capture_output=True, text=True, check=False, timeout=DEADLINE_S * 3,
    )  # fmt: skip
    return Outcome(done.returncode, done.stdout, done.stderr)


def test_rows_of_every_sink_and_the_log_come_from_their_host(
    stack: Stack, elsewhere: str, tmp_path: Path
) -> None:
    cli = Cli(stack.state_dir)
    bookings = Bookings(stack.kafka, cli)
    topic = f"rows-{uuid4().hex[:8]}"
    sinks = [{"influx": {}}, {"kafka": {"topic": topic}}, {"log": {}}]
    name, file = bookings.dagger(tmp_path, sinks=sinks)
    events = spread([second / 2 for second in range(2 * 200)], cities=2)
    bookings.write(booking(second, city_id=city) for second, city in events)
    secret = (stack.state_dir / "influx.token").read_text().strip()

    cli("apply", "-f", file, "--wait")
    whole = cli.rows(name, enough=at_least(8))
    by_sink = {kind: asked(elsewhere, "rows", name, "--sink", kind) for kind in ("influx", "kafka", "log")}
    first = ("--where", "tag_city_id=1", "--sort", "window_timestamp", "--limit", "2")
    of_city = {kind: asked(elsewhere, "rows", name, "--sink", kind, *first) for kind in by_sink}
    late = {kind: asked(elsewhere, "rows", name, "--sink", kind, "--since", LATER) for kind in by_sink}
    log = asked(elsewhere, "logs", name, "--lines", "5")
    watched = asked(elsewhere, "watch", name, "--for", "0")
    missing = asked(elsewhere, "rows", f"{name}x")
    cli("delete", name, "--wait")

    assert counted(whole) == recount(events)
    for kind, found in by_sink.items():
        assert counted(found.json) == recount(events), (kind, found)
    ones = sorted(item for item in recount(events).items() if item[0][1] == "1")
    for kind, found in of_city.items():
        assert sorted(counted(found.json).items()) == ones[:2], (kind, found)
    for kind, found in late.items():  # a topic knows only when they were written, which was just now
        since = "" if kind == "kafka" else LATER
        expected = {key: count for key, count in recount(events).items() if key[0] >= since}
        assert counted(found.json) == expected, (kind, found)
    assert len(log.json["lines"]) == 5
    assert counted(watched.json) == recount(events)
    assert (missing.code, missing.json["error"]["reason"]) == (1, "NOT_FOUND")
    assert secret not in "".join([each.out + each.err for each in (*by_sink.values(), log, watched)])
    for file in (stack.state_dir / "logs").iterdir():
        assert secret not in file.read_text(errors="replace"), file


@pytest.mark.long
def test_no_reader_stays_and_none_has_a_secret_in_its_arguments(
    stack: Stack, elsewhere: str, tmp_path: Path
) -> None:
    cli = Cli(stack.state_dir)
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path)
    bookings.write([booking(10), booking(100)])
    secret = (stack.state_dir / "influx.token").read_text().strip()
    cli("apply", "-f", file, "--wait")

    watching = subprocess.Popen(
        [DAGGERS, "watch", name, "--gateway", elsewhere], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    seen = until(True)
    watching.kill()
    watching.wait()
    gone = until(False)
    cli("delete", name, "--wait")

    assert seen
    assert not any(secret in word for line in seen for word in line)
    assert gone == []


@pytest.mark.long
def test_a_host_whose_scheduler_is_dead_is_unreachable_until_it_is_back(
    stack: Stack, elsewhere: str, tmp_path: Path
) -> None:
    cli = Cli(stack.state_dir)
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path)
    cli("apply", "-f", file)
    cli.until(name, lambda dagger: dagger["generation"] > 0)

    [scheduler] = [each for each in stack.status()["processes"] if each["name"] == "scheduler"]
    os.kill(scheduler["pid"], signal.SIGKILL)
    dead = [asked(elsewhere, *words) for words in (("logs", name), ("rows", name))]
    up = [DAGGERS, "local", "up", "--detach", "--state-dir", stack.state_dir]
    subprocess.run(up, check=True, capture_output=True, timeout=DEADLINE_S * 5)
    back = asked(elsewhere, "rows", name)
    cli("delete", name, "--wait")

    assert [(each.code, each.json["error"]["reason"]) for each in dead] == [(3, "HOST_UNREACHABLE")] * 2
    assert (back.code, back.json) == (0, [])


def readers() -> list[list[str]]:
    """The command lines of the readers of rows on this machine."""
    found = []
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
        except psutil.Error:
            continue
        if "runtime.readrows" in line:
            found.append(line)
    return found


def until(wanted: bool) -> list[list[str]]:
    """The readers once there are some, or none; as they are at the deadline."""
    end = time.monotonic() + DEADLINE_S
    while bool(found := readers()) != wanted and time.monotonic() < end:
        time.sleep(0.1)
    return found
