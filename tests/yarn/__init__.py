"""HDFS and YARN of one node: Hadoop's own mini cluster, whose containers are processes of this machine.

`python -m tests.yarn` installs it, once: so does `make test-long`. Versions and digests stand in
`jars.sha256`; Hadoop's client and what it logs with are PySpark's.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.maven import LackingError, fetch_jars

from devstack import processes
from devstack.settings import StackSettings
from devstack.tools import java
from devstack.tools.pyspark_home import find_pyspark

_HERE: Final = Path(__file__).parent
_LOCK: Final = _HERE / "jars.sha256"
VERSION: Final = re.findall(r"hadoop-client-minicluster:(\S+)", _LOCK.read_text(encoding="utf-8"))[0]
_HOME: Final = Path(sys.prefix) / "share" / "daggers" / f"yarn-{VERSION}"
_READY: Final = re.compile(r"^READY (\S+)$", re.MULTILINE)
_DEADLINE_S: Final = 420.0
"""It took 180 s at load 23."""
_GRACE_S: Final = 10.0
_MINUTES: Final = 30
"""It ends by itself after so long."""


@dataclass(frozen=True)
class Yarn:
    """A cluster that runs."""

    conf_dir: Path
    """Folder for HADOOP_CONF_DIR."""
    hdfs: str
    """URI of its HDFS."""


def install() -> None:
    """Put its jars where `yarn` looks for them. Raises: LackingError."""
    if not _HOME.is_dir():
        fetch_jars("YARN", _LOCK, _HOME)


@contextmanager
def yarn(folder: Path) -> Iterator[Yarn]:
    """Run a cluster of one node, whose files are in `folder`, for as long as the context.

    Raises: LackingError where it is not installed and cannot be, or Java cannot compile.
    """
    settings = StackSettings()
    home = java.find_home(settings.tools_dir, settings.java_home)
    if home is None or not (home / "bin" / "javac").exists():
        raise LackingError("no Java compiler")
    install()
    conf_dir, log = folder / "conf", folder / "yarn.log"
    conf_dir.mkdir(parents=True)
    class_path = f"{_HOME}/*:{find_pyspark()}/jars/*"
    program = [home / "bin" / "java", "-Xmx768m", "-XX:+UseSerialGC", "-cp", class_path]
    environment = {
        "HOME": str(folder),
        "JAVA_HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
        "PYSPARK_PYTHON": sys.executable,
    }
    try:
        processes.start(
            "yarn",
            ["timeout", f"{_MINUTES}m", *program, _HERE / "MiniYarn.java", conf_dir, folder, processes.MARK],
            stack=folder, log=log, env=environment,
        )  # fmt: skip
        yield Yarn(conf_dir, _await_ready(log))
    finally:
        processes.stop(processes.find_marked(folder), grace_s=_GRACE_S)  # its containers, too


def _await_ready(log: Path) -> str:
    """Wait until it runs; return the URI of HDFS."""
    end = time.monotonic() + _DEADLINE_S
    while (ready := _READY.search(log.read_text(errors="replace"))) is None:
        assert time.monotonic() < end, log.read_text(errors="replace")[-2000:]
        time.sleep(0.5)  # polling a server that starts; bounded by the deadline
    return ready[1]
