"""The embedded stack as a user starts and stops it: real processes, none left behind."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from daggers.v1 import gateway_pb2, gateway_pb2_grpc
from tests.integration.faults import belonging, until

pytestmark = pytest.mark.integration
DAGGERS = Path(sys.executable).with_name("daggers")
NAMES = ["kafka", "influxdb", "gateway", "alert-receiver", "scheduler", "health-monitor", "portal"]


class Local:
    """`daggers local` against one state directory."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir

    def __call__(self, *words: str) -> Any:
        done = subprocess.run(
            [DAGGERS, "local", *words, "--state-dir", self.state_dir, "-o", "json"],
            capture_output=True, text=True, check=False, timeout=900,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def pid(self, name: str) -> int:
        [process] = [each for each in self("status")["processes"] if each["name"] == name]
        pid: int = process["pid"]
        return pid

    def leftovers(self) -> list[psutil.Process]:
        """What still has the state directory in its words or its environment."""
        return list(belonging(self.state_dir))


def delete(folder: Path) -> None:
    """Remove a folder in which processes still write."""

    def gone() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    until(gone)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    stack = Local(tmp_path_factory.mktemp("local"))
    stack("up", "--detach")
    yield stack
    stack("down")


def test_status_lists_every_process_with_every_port_it_listens_on(local: Local) -> None:
    status = local("status")

    listening = {
        connection.laddr.port
        for each in status["processes"]
        for process in [psutil.Process(each["pid"]), *psutil.Process(each["pid"]).children(recursive=True)]
        for connection in process.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert [each["name"] for each in status["processes"]] == NAMES
    assert {port for each in status["processes"] for port in each["ports"]} == listening
    assert set(status) == {"state_dir", "kafka", "gateway", "portal", "influx", "processes"}
    assert status["portal"]["url"].startswith(
        f"http://127.0.0.1:{status['processes'][-1]['ports'][0]}/auth/key?key="
    )
    assert set(status["influx"]) == {"url", "org", "token", "bucket"}


def test_every_process_is_a_session_of_its_own_without_input(local: Local) -> None:
    for each in local("status")["processes"]:
        assert os.getsid(each["pid"]) == each["pid"]
        assert Path(f"/proc/{each['pid']}/fd/0").readlink() == Path("/dev/null")


def test_everything_listens_on_loopback_only(local: Local) -> None:
    addresses = {
        connection.laddr.ip
        for each in local("status")["processes"]
        for connection in psutil.Process(each["pid"]).net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    }

    assert addresses <= {"127.0.0.1", "::ffff:127.0.0.1"}


def test_who_shows_no_token_is_told_where_it_is_and_the_command_shows_it_by_itself(
    local: Local, tmp_path: Path
) -> None:
    gateway = local("status")["gateway"]
    token_file = Path(gateway["token_file"])
    said = []
    for metadata in ([], [("authorization", f"Bearer {token_file.read_text().strip()}")]):
        with grpc.insecure_channel(gateway["address"]) as channel:
            access = gateway_pb2_grpc.AccessServiceStub(channel)
            try:
                who = access.WhoAmI(gateway_pb2.WhoAmIRequest(), timeout=30, metadata=metadata)
                said.append(f"{who.principal} {who.administrator}")
            except grpc.RpcError as error:
                said.append(error.details())
    words = [DAGGERS, "whoami", "--gateway", gateway["address"]]
    named = subprocess.run(
        [*words, "--state-dir", local.state_dir], capture_output=True, text=True, check=False, timeout=60
    )
    unknown = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=60,
        env={"XDG_STATE_HOME": str(tmp_path)},
    )  # fmt: skip

    assert "`daggers local status` says which file" in said[0]
    assert said[1] == "administrator True"
    assert (stat.S_IMODE(token_file.stat().st_mode), token_file.parent) == (0o600, local.state_dir)
    assert (named.returncode, named.stdout.partition(":")[0]) == (0, "administrator")
    assert (unknown.returncode, "`daggers local status` says which file" in unknown.stderr) == (1, True)


def test_data_logs_and_secrets_are_its_users_alone(local: Local) -> None:
    folders = [folder for folder in sorted(local.state_dir.iterdir()) if folder.is_dir()]

    assert {folder.name for folder in folders} >= {"kafka", "influxdb", "logs", "secrets"}
    assert [folder.name for folder in folders if stat.S_IMODE(folder.stat().st_mode) & 0o077] == []


def test_a_second_up_changes_nothing(local: Local) -> None:
    before = local("status")
    after = local("up", "--detach")

    assert after.pop("portal")["url"] != before.pop("portal")["url"]  # an address is good once
    assert after == before


def test_up_starts_what_is_missing_and_keeps_what_runs(local: Local) -> None:
    before = {each["name"]: each["pid"] for each in local("status")["processes"]}
    with_gateway = psutil.Process(before["gateway"])
    os.kill(before["gateway"], signal.SIGKILL)
    psutil.wait_procs([with_gateway], timeout=10)

    local("up", "--detach")
    after = {each["name"]: each["pid"] for each in local("status")["processes"]}

    assert after["gateway"] != before["gateway"]
    assert {name: pid for name, pid in after.items() if name != "gateway"} == {
        name: pid for name, pid in before.items() if name != "gateway"
    }


def test_down_leaves_no_process_also_when_half_is_dead_and_may_be_repeated(local: Local) -> None:
    kafka = psutil.Process(local.pid("kafka"))
    kafka.kill()
    psutil.wait_procs([kafka], timeout=10)
    pids = [each["pid"] for each in local("status")["processes"]]

    first, second = local("down"), local("down")

    assert (first["stopped"], second["stopped"]) == (True, False)
    assert local.leftovers() == []
    assert [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"] == []


@pytest.mark.long
def test_a_stack_that_was_stopped_goes_on_with_its_ports_and_its_data(local: Local) -> None:
    before = local("up", "--detach")
    local("down")

    alone = local("up", "--detach", "--only", "kafka")
    after = local("up", "--detach")

    assert [each["name"] for each in alone["processes"]] == ["kafka"]
    assert after["processes"][0] == alone["processes"][0]
    assert [after[key] for key in ("kafka", "gateway", "influx")] == [
        before[key] for key in ("kafka", "gateway", "influx")
    ]


@pytest.mark.long
def test_where_kafka_alone_was_ever_started_the_database_has_no_token(tmp_path: Path) -> None:
    fresh = Local(tmp_path)
    try:
        alone = fresh("up", "--detach", "--only", "kafka")
        status = fresh("status")
    finally:
        fresh("down")

    assert ([each["name"] for each in status["processes"]], status) == (["kafka"], alone)
    assert status["influx"]["token"] is None


@pytest.mark.long
def test_down_stops_a_stack_whose_directory_was_deleted_and_leaves_nothing(local: Local) -> None:
    local("up", "--detach")
    delete(local.state_dir)
    lease = local.state_dir / "checkpoints" / "orders-4" / "lease"  # as a driver that runs renews it
    lease.parent.mkdir(parents=True)
    lease.touch()

    first, second = local("down"), local("down")

    assert (first["stopped"], second["stopped"]) == (True, False)
    assert local.leftovers() == []
    assert not local.state_dir.exists()


@pytest.mark.long
def test_up_starts_no_second_stack_beside_one_whose_files_are_gone(local: Local) -> None:
    local("up", "--detach")
    delete(local.state_dir)

    refused = subprocess.run(
        [DAGGERS, "local", "up", "--detach", "--state-dir", local.state_dir],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    stopped = local("down")["stopped"]

    assert (refused.returncode, "stop it first by `daggers local down`" in refused.stderr, stopped) == (
        1,
        True,
        True,
    )


@contextmanager
def foreground(local: Local) -> Iterator[subprocess.Popen[str]]:
    """`daggers local up` in the foreground, once it says that everything runs; its end is awaited."""
    local("down")
    with subprocess.Popen(
        [DAGGERS, "local", "up", "--state-dir", local.state_dir],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as up:  # fmt: skip
        assert any("Ctrl-C stops it" in line for line in up.stderr)
        yield up
        up.wait(60)


@pytest.mark.long
def test_in_the_foreground_a_deleted_directory_stops_everything(local: Local) -> None:
    with foreground(local) as up:
        delete(local.state_dir)
        said = up.stderr.read()

    assert (up.returncode, "is gone, so what ran there is stopped" in said) == (0, True)
    assert local.leftovers() == []


@pytest.mark.long
def test_in_the_foreground_what_a_down_elsewhere_ends_is_not_told_as_a_fault(local: Local) -> None:
    with foreground(local) as up:
        local("down")
        said = up.stderr.read()

    assert (up.returncode, "has ended" in said) == (0, False)
    assert local.leftovers() == []


@pytest.mark.long
def test_in_the_foreground_sigterm_stops_everything(local: Local) -> None:
    with foreground(local) as up:
        running = [each["name"] for each in local("status")["processes"]]
        up.send_signal(signal.SIGTERM)

    assert (running, up.returncode) == (NAMES, 0)
    assert local("status")["processes"] == []
    assert local.leftovers() == []
