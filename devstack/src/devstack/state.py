"""The state directory of an embedded stack: where what lies, and what the next start must know."""

import fcntl
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from chassis import tickets
from chassis.files import replace_text
from cli.errors import RefusedError
from cli.framework.machine import refusal
from devstack import processes
from devstack.processes import StackProcess

FILE = "stack.json"
LOOK_S = 1.0
LOCK = ".lock"
TOKEN_FILE = "influx.token"  # noqa: S105 - a file's name
HOST_TOKEN_FILE = "host.token"  # noqa: S105 - a file's name
ADMINISTRATOR_TOKEN_FILE = "administrator.token"  # noqa: S105 - a file's name
PORTAL_KEY_FILE = "portal.key"
DATABASE = "daggers"


@dataclass(frozen=True)
class Influx:
    """An InfluxDB: base URL, organisation ("-" for 1.8), bucket, and the file with its token, if any."""

    url: str
    org: str
    bucket: str
    token_file: str | None


@dataclass(frozen=True)
class Stack:
    """Stack of a state directory, as that remembers it.

    ports: port by purpose: kafka, controller, gateway, health, influx, influx_rpc, alerts, portal.
    processes: what was started and not yet seen to end, in the order of starting.
    own_influx: the user's InfluxDB, in place of the embedded one.
    installation: the virtual environment that it was last started from; None before that was recorded.
    """

    state_dir: Path
    ports: Mapping[str, int] = field(default_factory=dict)
    processes: tuple[StackProcess, ...] = ()
    own_influx: Influx | None = None
    installation: Path | None = None

    @property
    def kafka(self) -> str:
        """Bootstrap servers of its Kafka."""
        return f"127.0.0.1:{self.ports['kafka']}"

    @property
    def gateway(self) -> str:
        """Address of its gateway."""
        return f"127.0.0.1:{self.ports['gateway']}"

    @property
    def health(self) -> str:
        """Address where its gateway tells health."""
        return f"127.0.0.1:{self.ports['health']}"

    @property
    def portal(self) -> str | None:
        """Address that a browser opens; where there is a key it is good once, and each time another one.

        None: a stack from before the portal.
        """
        if "portal" not in self.ports:
            return None
        place = f"http://127.0.0.1:{self.ports['portal']}/"
        if self.token_file is None:
            return place
        try:
            key = (self.state_dir / PORTAL_KEY_FILE).read_text(encoding="utf-8").strip()
        except OSError:
            return place
        return f"{place}auth/key?key={tickets.issue_ticket(key, secrets.token_bytes(16), time.time())}"

    @property
    def token_file(self) -> Path | None:
        """The file with its administrator's token. None: its gateway asks for no token."""
        file = self.state_dir / ADMINISTRATOR_TOKEN_FILE
        return file if file.exists() else None

    @property
    def influx(self) -> Influx:
        """Its InfluxDB, embedded or the user's."""
        if self.own_influx is not None:
            return self.own_influx
        url = f"http://127.0.0.1:{self.ports['influx']}"
        return Influx(url, "-", DATABASE, str(self.state_dir / TOKEN_FILE))

    @property
    def projection(self) -> Path:
        """The gateway's SQLite file."""
        return self.state_dir / "gateway.sqlite"

    def log(self, name: str) -> Path:
        """Return the file where a process's output goes."""
        return self.state_dir / "logs" / f"{name}.log"

    def running(self, name: str) -> StackProcess | None:
        """Return the living process of that name."""
        return next((p for p in self.processes if p.name == name and p.alive()), None)

    def with_process(self, process: StackProcess) -> "Stack":
        """Return this stack with one more process, in the place of any older one of its name."""
        others = tuple(p for p in self.processes if p.name != process.name)
        return replace(self, processes=(*others, process))

    def without_processes(self) -> "Stack":
        """Return this stack, stopped."""
        return replace(self, processes=())


def load(state_dir: Path) -> Stack | None:
    """Read what the directory remembers; None when no stack was ever started there.

    Raises: RefusedError when it is damaged.
    """
    file = state_dir / FILE
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        own, installation = raw["own_influx"], raw.get("installation")
        return Stack(
            state_dir=state_dir,
            ports={str(name): int(port) for name, port in raw["ports"].items()},
            processes=tuple(StackProcess(**process) for process in raw["processes"]),
            own_influx=Influx(**own) if own else None,
            installation=Path(installation) if installation else None,
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise refusal(error, file) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RefusedError(
            f"{file} is damaged; remove it, or name another directory by --state-dir"
        ) from error


def require(state_dir: Path) -> Stack:
    """Read sentence the directory remembers. Raises RefusedError when no stack was ever started there."""
    stack = load(state_dir)
    if stack is None:
        sentence = f"no stack was ever started in {state_dir}: start one by `daggers local up`"
        if processes.find_marked(state_dir):
            sentence = f"a stack runs whose files in {state_dir} are gone: stop it by `daggers local down`"
        raise RefusedError(sentence, reason="NO_STACK")
    return stack


def save(stack: Stack) -> None:
    """Write down what to remember, in one step."""
    raw = {
        "ports": dict(stack.ports),
        "processes": [asdict(process) for process in stack.processes],
        "own_influx": asdict(stack.own_influx) if stack.own_influx else None,
        "installation": str(stack.installation) if stack.installation else None,
    }
    replace_text(stack.state_dir / FILE, json.dumps(raw, indent=2) + "\n", private=True)


def busy(state_dir: Path) -> bool:
    """Tell whether an `up` or `down` of the directory is at work."""
    try:
        with (state_dir / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@contextmanager
def lock(state_dir: Path) -> Iterator[None]:
    """Lock a directory: one `up` or `down` at a time. Raises RefusedError when another is under way."""
    end = time.monotonic() + LOOK_S
    with (state_dir / LOCK).open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > end:  # else it may be no more than a look by `busy`
                    raise RefusedError(
                        f"another daggers local up or down is at work in {state_dir}: try again later"
                    ) from error
                time.sleep(LOOK_S / 20)
        yield
