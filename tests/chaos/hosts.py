"""Hosts of a chaos run: namespaces of their own (UTS, PID, network, mounts), each with a scheduler.

A host reaches what the stack serves on loopback, and gateways reach its scheduler, by its address. When it is
killed, all that runs there ends at once; it comes back in another boot. Needs root.
"""

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

import psutil
from tests.chaos.schedule import HOSTS
from tests.integration.faults import until
from tests.proxy import LOOPBACK, Proxy

from chassis import drivers, processes
from daggerspec import rundir
from daggerspec.rundir import DriverIdentity

TOOLS = ("ip", "unshare", "mount")
CLONE_NEWNET = 0x40000000
GONE_S = 30.0
LOG = "scheduler.log"
HELD, READY = "held", "ready"
# A supervisor: begins the scheduler anew where it ends, unless that is held back; ends with the host alone.
INIT = """\
hostname "$1" && ip link set lo up && mount --bind "$2/boot-id" /proc/sys/kernel/random/boot_id || exit 1
while [ ! -e "$2/ready" ]; do sleep 0.1; done
while :; do
  if [ ! -e "$2/held" ]; then "$3" -m scheduler >>"$2/scheduler.log" 2>&1; fi
  sleep 1
done
"""


def explain_missing() -> str:
    """Explain why no host can have namespaces of its own here; empty where it can."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if os.geteuid() != 0:
        return "only root may make namespaces"
    return f"{' and '.join(missing)} are missing" if missing else ""


@dataclass(eq=False)
class ChaosHost:
    """One machine that is simulated by namespaces.

    number: from 1; of its address. folder: its own disk. env: what its scheduler is started with. ports: of
    the loopback of the stack, which it reaches on its own.
    """

    name: str
    number: int
    folder: Path
    env: Mapping[str, str]
    ports: Sequence[int]
    due: float = 0.0
    """When it may come back, in seconds of the monotonic clock."""
    _machine: subprocess.Popen[bytes] | None = None
    _relays: ExitStack = field(default_factory=ExitStack)

    @property
    def lives(self) -> bool:
        """True while its machine is on."""
        return self._machine is not None

    @property
    def address(self) -> str:
        """The address at which the others reach it."""
        return f"10.199.{self.number}.2"

    def boot(self) -> None:
        """Switch it on, in another boot than ever before."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "boot-id").write_text(f"{uuid4()}\n")
        for file in (READY, HELD):
            (self.folder / file).unlink(missing_ok=True)
        words = ["unshare", "--uts", "--pid", "--net", "--mount", "--fork", "--kill-child", "--mount-proc"]
        words += ["sh", "-c", INIT, "sh", self.name, str(self.folder), sys.executable]
        with (self.folder / LOG).open("ab") as log:
            self._machine = subprocess.Popen(words, env=self.env, stdout=log, stderr=log, cwd=self.folder)
        until(lambda: bool(self._init()), deadline_s=GONE_S)
        self._connect(self._init()[0].pid)
        (self.folder / READY).touch()

    def kill(self) -> None:
        """End all that runs there, at once."""
        machine, self._machine = self._machine, None
        if machine is None:
            return
        inside = self._members(machine)
        machine.kill()
        machine.wait()
        until(lambda: not any(map(psutil.pid_exists, inside)), deadline_s=GONE_S)
        self._relays.close()
        subprocess.run(["ip", "link", "delete", self._link], check=False, capture_output=True)

    @contextmanager
    def without_scheduler(self) -> Iterator[None]:
        """Kill its scheduler, which stays away until the context ends."""
        (self.folder / HELD).touch()
        try:
            for scheduler in self.schedulers():
                scheduler.kill()
            yield
        finally:
            (self.folder / HELD).unlink(missing_ok=True)

    def schedulers(self) -> list[psutil.Process]:
        """List its scheduler, if that runs."""
        found = [
            child for init in self._init() for child in init.children() if "scheduler" in child.cmdline()
        ]
        return [each for each in found if "-m" in each.cmdline()]

    def drivers(self) -> list[DriverIdentity]:
        """List the launches of which a process lives there, with process ids as seen from outside."""
        if self._machine is None:
            return []
        pids = self._members(self._machine)
        inside = {own: pid for pid, own in pids.items()}
        boot_id = (self.folder / "boot-id").read_text().strip()
        runs = sorted(path for path in (self.folder / "runs").glob("*/*") if not path.is_symlink())
        found = []
        for run_dir in runs:
            driver = drivers.read(run_dir) if run_dir.name.isdigit() else None
            if driver is None or driver.boot_id != boot_id:
                continue
            leader = inside.get(driver.pid) or self._find_session(pids, run_dir)
            outside = replace(driver, pid=leader, boot_id=processes.boot_id())
            if leader and drivers.members(outside):
                found.append(outside)
        return found

    def halves(self, driver: DriverIdentity) -> dict[str, psutil.Process]:
        """Find the JVM and the Python half of a driver, as `halves_of` does outside."""
        found: dict[str, psutil.Process] = {}
        if self._machine is None:
            return found
        inside = {own: pid for pid, own in self._members(self._machine).items()}
        with suppress(FileNotFoundError, KeyError, psutil.NoSuchProcess):
            record = json.loads((Path(driver.run_dir) / rundir.DRIVER).read_text())
            found["python"] = psutil.Process(inside[record["pid"]])
        for member in drivers.members(driver):
            with suppress(psutil.Error):
                process = psutil.Process(member.pid)
                if process.ppid() == driver.pid and Path(process.exe()).name == "java":
                    found["jvm"] = process
        return found

    @property
    def _link(self) -> str:
        return f"chaos{self.number}"

    def _init(self) -> list[psutil.Process]:
        """List the first process of its namespaces, once that is there."""
        if self._machine is None:
            return []
        with suppress(psutil.Error, OSError):
            return [
                child for child in psutil.Process(self._machine.pid).children() if _own_pid(child.pid) == 1
            ]
        return []

    def _members(self, machine: subprocess.Popen[bytes]) -> dict[int, int]:
        """Return the processes that run there: process id outside, and inside."""
        init = next(iter(psutil.Process(machine.pid).children()), None)
        if init is None:
            return {}
        with suppress(OSError):
            space = _find_space(init.pid)
            return dict(_list_members(space))
        return {}

    def _find_session(self, pids: Iterable[int], run_dir: Path) -> int:
        """Find the session of a launch whose leader has ended; 0 where nothing of it lives."""
        for pid in pids:
            process = processes.find(pid)
            if process is not None and processes.working_directory(pid) == str(run_dir):
                return process.session
        return 0

    def _connect(self, init: int) -> None:
        """Give it a network, and the ports of the stack on its loopback."""
        _ip("link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", str(init))
        _ip("address", "add", f"10.199.{self.number}.1/24", "dev", self._link)
        _ip("link", "set", self._link, "up")
        inside = ["nsenter", "--target", str(init), "--net", "ip"]
        for words in (["address", "add", f"{self.address}/24", "dev", "eth0"], ["link", "set", "eth0", "up"]):
            subprocess.run([*inside, *words], check=True, capture_output=True)
        self._relays = ExitStack()
        for port in self.ports:
            self._relays.enter_context(Proxy(port, listener=listen_within(init, port)))


class Hosts:
    """The hosts of a run."""

    def __init__(self, hosts: Sequence[ChaosHost]) -> None:
        self._hosts = {host.name: host for host in hosts}

    def __iter__(self) -> Iterator[ChaosHost]:
        return iter(self._hosts.values())

    def __getitem__(self, name: str) -> ChaosHost:
        return self._hosts[name]

    def bring_back(self, *, at_once: bool = False) -> list[str]:
        """Switch on those that are due; tells which."""
        now = time.monotonic()
        back = [host for host in self if not host.lives and (at_once or host.due <= now)]
        for host in back:
            host.boot()
        return [host.name for host in back]

    def halves(self, driver: DriverIdentity) -> dict[str, psutil.Process]:
        """Find the halves of a driver on whichever host it runs."""
        own = [host for host in self if Path(driver.run_dir).is_relative_to(host.folder)]
        return own[0].halves(driver) if own else {}


@contextmanager
def hosts(count: int, folder: Path, env: Mapping[str, str], ports: Sequence[int]) -> Iterator[Hosts]:
    """Run so many hosts, with their disks in `folder`; nothing of them is left when the context ends."""
    machines = [
        ChaosHost(name, number, folder / name, {}, ports) for number, name in enumerate(HOSTS[:count], 1)
    ]
    for host in machines:
        host.env = {
            **env,
            "DAGGERS_SCHEDULER_STATE_DIR": str(host.folder),
            "DAGGERS_SCHEDULER_HOST_BIND": f"{host.address}:0",
            "DAGGERS_SCHEDULER_METRICS_BIND": f"{LOOPBACK}:0",
        }
    running = Hosts(machines)
    try:
        running.bring_back()
        yield running
    finally:
        for host in running:
            host.kill()


def listen_within(pid: int, port: int) -> socket.socket:
    """Listen on loopback at a port of the network that a process is in. Raises: OSError."""
    listeners: list[socket.socket] = []

    def listen() -> None:  # the network is that of a thread, and of this one alone
        space = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(space, CLONE_NEWNET) == 0:
                listeners.append(socket.create_server((LOOPBACK, port)))
        finally:
            os.close(space)

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    if not listeners:
        raise OSError(f"nothing listens at {port} within the network of {pid}")
    return listeners[0]


def _list_members(space: str) -> Iterator[tuple[int, int]]:
    """Yield each process of a name space: its process id here, and there."""
    for pid in psutil.pids():
        with suppress(OSError):
            if _find_space(pid) == space:
                yield pid, _own_pid(pid)


def _find_space(pid: int) -> str:
    """Return the identity of a process's name space of process ids. Raises: OSError."""
    return str(Path(f"/proc/{pid}/ns/pid").readlink())


def _own_pid(pid: int) -> int:
    """Return the process id that a process has in its own name space. Raises: OSError."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("NSpid:")).split()[-1])


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
