"""HDFS and YARN of one node, on loopback: Hadoop's own mini cluster, from Maven's repository.

`python -m tests.yarn` installs it, once: so does `make test-long`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue

import pyspark
from tests.maven import LackingError, fetch_jars

from devstack.settings import StackSettings
from devstack.tools import java

VERSION = "3.5.0"
HOME = Path(sys.prefix) / "share" / "daggers" / f"miniyarn-{VERSION}"
DEADLINE_S = 240.0
_HERE = Path(__file__).parent
# What the mini cluster stands on is not in its jar, and not named by it. Hadoop's client is PySpark's.
_DEPENDENCIES = f"""\
<dependency org="org.apache.hadoop" name="hadoop-client-minicluster" rev="{VERSION}" conf="default->master"/>
<dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default->default"/>
<dependency org="junit" name="junit" rev="4.13.2" conf="default->default"/>
<dependency org="org.mockito" name="mockito-core" rev="4.11.0" conf="default->default"/>
<dependency org="org.junit.jupiter" name="junit-jupiter" rev="5.11.4" conf="default->default"/>
<dependency org="org.assertj" name="assertj-core" rev="3.27.3" conf="default->default"/>
<dependency org="ch.qos.reload4j" name="reload4j" rev="1.2.25" conf="default->default"/>
<dependency org="org.bouncycastle" name="bcprov-jdk18on" rev="1.78.1" conf="default->default"/>
<dependency org="org.bouncycastle" name="bcpkix-jdk18on" rev="1.78.1" conf="default->default"/>
"""


@dataclass(frozen=True)
class Yarn:
    """Where it is."""

    conf_dir: Path
    """What HADOOP_CONF_DIR has to be."""
    hdfs: str
    """URI of its HDFS."""


def install() -> None:
    """Put its jars where `running` looks for them. Raises: LackingError."""
    if HOME.is_dir():
        return
    HOME.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HOME.parent) as part:
        fetch_jars("miniyarn", _DEPENDENCIES, _HERE / "jars.sha256", Path(part)).rename(HOME)


@contextmanager
def running(folder: Path) -> Iterator[Yarn]:
    """A cluster of one node whose files are in `folder`; it ends with the context, and with this process.

    Raises: LackingError.
    """
    install()
    settings = StackSettings()
    home = java.find_home(settings.tools_dir, settings.java_home)
    if home is None or not (home / "bin" / "javac").exists():
        raise LackingError("Java has no compiler (Debian: openjdk-17-jdk-headless)")
    conf = folder / "conf"
    conf.mkdir(parents=True)
    spark = Path(pyspark.__file__).parent / "jars"
    clients = [str(jar) for part in ("api", "runtime") for jar in spark.glob(f"hadoop-client-{part}-*.jar")]
    words = [home / "bin" / "java", "-Xmx768m", "-XX:+UseSerialGC", "-cp", ":".join([f"{HOME}/*", *clients])]
    environment = {
        "HOME": str(folder),
        "JAVA_HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}:/usr/local/bin",
        "PYSPARK_PYTHON": sys.executable,
    }
    with (folder / "yarn.log").open("wb") as log:
        process = subprocess.Popen(
            [*words, _HERE / "MiniYarn.java", conf, folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=folder, env=environment, text=True,
        )  # fmt: skip
    try:
        yield Yarn(conf, _await_ready(process, folder))
    finally:
        process.communicate(timeout=60)  # its input ends, and so does it


def _await_ready(process: subprocess.Popen[str], folder: Path) -> str:
    """Wait for the URI of HDFS."""
    lines: Queue[str] = Queue()
    assert process.stdout is not None
    threading.Thread(
        target=lambda out: [lines.put(line) for line in out], args=(process.stdout,), daemon=True
    ).start()
    try:
        while True:
            word, _, uri = lines.get(timeout=DEADLINE_S).strip().partition(" ")
            if word == "READY":
                return uri
    except Empty:
        raise AssertionError(f"YARN did not start; its log is {folder}/yarn.log") from None
