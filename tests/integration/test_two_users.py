"""Drivers of two teams as two users of this host, on a real stack of root's.

What one has the other cannot reach, and the scheduler rules both.

The stack runs from a copy of this installation that both users may read. Drivers start in minutes where the
machine is busy: the archive of Java's classes is made for the copy.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
import yaml
from tests.integration import opencopy
from tests.integration.bookings import Bookings, booking, counted, recount, spread
from tests.integration.cli import Cli, at_least
from tests.integration.faults import until

from chassis import drivers
from daggerspec import rundir
from daggerspec.rundir import DriverIdentity
from devstack import influxdb, state

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may make users and start their processes"),
]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TEAMS = ("alpha", "beta")
PATIENCE_S = 1200
REACH = """
import json, os, socket, sys
reached = []
for line in sys.stdin:
    place = json.loads(line)
    try:
        if isinstance(place, int):
            with socket.create_connection(("127.0.0.1", place), 10) as it:
                it.settimeout(10)
                it.sendall(b"GET /environment/ HTTP/1.0\\r\\n\\r\\n")
                if b"200 OK" not in it.recv(100):
                    continue
        elif os.path.isdir(place):
            os.listdir(place)
        elif place.endswith(".sock"):
            with socket.socket(socket.AF_UNIX) as it:
                os.chdir(os.path.dirname(place))
                it.connect(os.path.basename(place))
        else:
            open(place, "rb").close()
    except OSError:
        continue
    reached.append(place)
print(json.dumps(reached))
"""
"""Prints which places of its input it can read, list, or connect to; of ports, which give it a page."""


@pytest.fixture(scope="module")
def users() -> Iterator[Mapping[str, pwd.struct_passwd]]:
    """A user of this host for each team, for as long as the tests take."""
    if shutil.which("useradd", path=PATH) is None:
        pytest.skip("no useradd: users can be made as root where Debian's passwd is")
    names = {team: f"dg{uuid4().hex[:6]}-{team}" for team in TEAMS}
    try:
        for name in names.values():
            words = ("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name)
            subprocess.run(words, check=True, env={"PATH": PATH}, timeout=60)
        yield {team: pwd.getpwnam(name) for team, name in names.items()}
    finally:
        for name in names.values():
            subprocess.run(("userdel", name), check=False, env={"PATH": PATH}, timeout=60)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that every user may go into."""
    with tempfile.TemporaryDirectory(prefix="daggers-two-users-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="module")
def cli(users: Mapping[str, pwd.struct_passwd], place: Path) -> Iterator[Cli]:
    """The `daggers` command of a copy, on a stack whose drivers are those users'."""
    pythons = {opencopy.python_for(user) for user in users.values()}
    python = next(iter(pythons))
    if python is None or len(pythons) > 1:
        pytest.skip(f"no Python {sys.version_info.major}.{sys.version_info.minor} but root's on this host")
    daggers = opencopy.copy(place / "daggers", python)
    run_as = " ".join(f"{team}={user.pw_name}" for team, user in users.items())
    with pytest.MonkeyPatch.context() as environment:
        for name in ("DAGGERS_TOOLS_DIR", "JAVA_HOME", "PYTHONPATH"):
            environment.delenv(name, raising=False)
        environment.setenv("PATH", PATH)
        environment.setenv("XDG_STATE_HOME", str(place / "state-home"))
        environment.setenv("DAGGERS_SCHEDULER_RUN_AS", run_as)
        command = Cli(place / "stack", daggers)
        subprocess.run([daggers, "local", "setup"], check=True, timeout=PATIENCE_S)
        try:
            up = [daggers, "local", "up", "--detach", "--state-dir", command.state_dir]
            subprocess.run(list(map(str, up)), check=True, timeout=PATIENCE_S)
            yield command
        finally:
            subprocess.run(
                [daggers, "local", "down", "--state-dir", command.state_dir], check=True, timeout=300
            )


def test_drivers_of_two_teams_run_as_two_users_and_reach_nothing_of_each_other(
    users: Mapping[str, pwd.struct_passwd], place: Path, cli: Cli
) -> None:
    stack = state.require(cli.state_dir)
    bookings = Bookings(stack.kafka, cli)
    secrets = {team: give_database(cli, stack, place, team, user) for team, user in users.items()}
    register_sink(cli, stack, place)
    events = spread(range(600), cities=3)
    bookings.write(booking(second, city_id=city) for second, city in events)
    names = {}
    for team in TEAMS:
        sinks = [
            {"influx": {"measurement": "orders"}, "registered": "metrics"},
            {"kafka": {"topic": f"{team}-orders", "format": "json"}},
        ]
        names[team], file = bookings.dagger(place, team=team, sinks=sinks)
        cli("apply", "-f", file)

    for team in TEAMS:
        cli.until(names[team], lambda shown: bool(shown["phase"] == "RUNNING"), deadline_s=PATIENCE_S)
    running = {team: driver_of(cli, names[team]) for team in TEAMS}
    uids = {team: uids_of(driver) for team, driver in running.items()}
    rows = {team: counted(cli.rows(names[team], enough=at_least(30))) for team in TEAMS}
    logs = {team: json.dumps(cli("logs", names[team], "--lines", "50")) for team in TEAMS}

    assert uids == {team: {user.pw_uid} for team, user in users.items()}
    assert rows == dict.fromkeys(TEAMS, recount(events))
    assert [team for team in TEAMS if "batch_id=" not in logs[team]] == []
    reach_nothing_of_each_other(cli, users, names, running, secrets)
    the_scheduler_rules_both(cli, names, running)


def reach_nothing_of_each_other(
    cli: Cli,
    users: Mapping[str, pwd.struct_passwd],
    names: Mapping[str, str],
    running: Mapping[str, DriverIdentity],
    secrets: Mapping[str, Path],
) -> None:
    """Try all that a team has, as its own user and as the other's."""
    for team, other in (TEAMS, TEAMS[::-1]):
        run_dir = Path(running[team].run_dir)
        (checkpoint,) = (cli.state_dir / "checkpoints").glob(f"{names[team]}-*")
        own = [
            *(run_dir / name for name in (rundir.SPEC, rundir.LOG, rundir.IDENTITY, rundir.TEMPORARY)),
            run_dir, checkpoint, *checkpoint.iterdir(), secrets[team], secrets[team].parent,
            *(run_dir / rundir.TEMPORARY).glob(".*.sock"),
        ]  # fmt: skip
        places: list[str | int] = [*map(str, own), *ports_of(running[team])]
        files = ("influx.token", "administrator.token", "logs", "kafka")
        platform: list[str | int] = [str(cli.state_dir / name) for name in files]

        assert reached(users[other], [*places, *platform]) == [], team
        assert set(reached(users[team], places)) >= {str(path) for path in own if path.suffix != ".sock"}, (
            team
        )
        assert any(path.suffix == ".sock" for path in own)
        assert reached(users[team], platform) == []


def the_scheduler_rules_both(
    cli: Cli, names: Mapping[str, str], running: Mapping[str, DriverIdentity]
) -> None:
    """Restart the scheduler: it adopts both; then one is stopped, one killed and launched anew."""
    process = state.require(cli.state_dir).running("scheduler")
    assert process is not None
    psutil.Process(process.pid).kill()
    until(lambda: state.require(cli.state_dir).running("scheduler") is None)
    cli("local", "up", "--detach")
    shown = {team: cli.until(names[team], lambda it: bool(it["phase"] == "RUNNING")) for team in TEAMS}
    assert {team: shown[team]["generation"] for team in TEAMS} == {
        team: running[team].generation for team in TEAMS
    }
    assert {team: driver_of(cli, names[team]) for team in TEAMS} == running

    drained, killed = TEAMS
    cli("stop", names[drained])
    cli("stop", names[killed], "--now")
    for team in TEAMS:
        cli.until(names[team], lambda it: bool(it["phase"] == "STOPPED"), deadline_s=PATIENCE_S)
        assert not drivers.alive(running[team]), team
    assert cli("get", names[drained])["last_exit"]["code"] == 0


def give_database(cli: Cli, stack: state.Stack, place: Path, team: str, user: pwd.struct_passwd) -> Path:
    """Make a team with a database of its own; the file with its token, which its user alone may read."""
    folder = place / "secrets" / team
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o711)
    token = folder / "token"
    influxdb.own_database(stack, team, token)
    for path in (token, folder):
        os.chown(path, user.pw_uid, user.pw_gid)
    apply(cli, place, {"kind": "team", "name": team})
    secret = {"kind": "secret", "name": f"influx-{team}", "team": team, "place": {"file": str(token)}}
    apply(cli, place, {**secret, "addresses": [stack.influx.url]})
    return token


def register_sink(cli: Cli, stack: state.Stack, place: Path) -> None:
    """Register the sink by which each team writes to its own database."""
    address = {"url": stack.influx.url, "org": stack.influx.org, "bucket": stack.influx.bucket}
    by_team = {team: {"bucket": team, "token": f"influx-{team}"} for team in TEAMS}
    apply(cli, place, {"kind": "sink", "name": "metrics", "influx": address, "by_team": by_team})


def apply(cli: Cli, place: Path, entry: Mapping[str, object]) -> None:
    file = place / f"{entry['kind']}.yaml"
    file.write_text(yaml.safe_dump(dict(entry)))
    cli(str(entry["kind"]), "apply", file)


def driver_of(cli: Cli, name: str) -> DriverIdentity:
    """The living driver of a dagger, as its directory says."""
    (driver,) = (one for one in drivers.living(cli.state_dir / "runs") if one.dagger == name)
    return driver


def uids_of(driver: DriverIdentity) -> set[int]:
    """Whom the processes of a driver run as."""
    return {uid for member in drivers.members(driver) for uid in psutil.Process(member.pid).uids()}


def ports_of(driver: DriverIdentity) -> list[int]:
    """The ports that a driver listens on; all of them are on loopback."""
    listening = [
        connection.laddr
        for member in drivers.members(driver)
        for connection in psutil.Process(member.pid).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert {address.ip.removeprefix("::ffff:") for address in listening} <= {"127.0.0.1"}
    return [address.port for address in listening]


def reached(user: pwd.struct_passwd, places: list[str | int]) -> list[str | int]:
    """What a user can read, list, or connect to."""
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", REACH], input="\n".join(map(json.dumps, places)), cwd="/",
        user=user.pw_uid, group=user.pw_gid, extra_groups=(), env={"LC_ALL": "C.UTF-8"},
        check=True, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    answer: list[str | int] = json.loads(done.stdout)
    return answer
