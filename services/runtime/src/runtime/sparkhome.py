"""A Spark home from which drivers start in half the time: `python -m runtime.sparkhome PLACE`.

Two things in a start are the same every time and need not be done again:

* The JVM loads 15,000 classes out of 200 jars. `classes.jsa` holds them as they are in memory (class data
  sharing), mapped by every driver of the host and shared among them.
* PySpark's home has its Python half once more as a zip file, which Spark puts first on every Python's path.
  Modules in it are compiled anew by each of the six processes of a driver. Here it is missing, so that they
  find the installed package, which is compiled.

The rest are links to the installed PySpark. A JVM to which the archive does not fit (another Java, other
jars) starts without it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from runtime import rehearsal

ARCHIVE = "classes.jsa"
_LINKS = ("bin", "jars")
_LIMIT_S = 600.0


def main(arguments: list[str]) -> int:
    """Build the home; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m runtime.sparkhome",
        description="Prepares a Spark home from which drivers start in half the time. Takes about 20 s."
        " JAVA_HOME, or the java on the PATH, must be the drivers' Java.",
    )
    parser.add_argument("place", type=Path, help="directory to build it in; made when it is missing")
    build(parser.parse_args(arguments).place.absolute())
    return 0


def build(place: Path) -> None:
    """Make the links and, where this Java can, the archive. Raises CalledProcessError, OSError."""
    place.mkdir(parents=True, exist_ok=True)
    home = Path(pyspark.__file__).parent
    for name in _LINKS:
        (place / name).unlink(missing_ok=True)
        (place / name).symlink_to(home / name)
    fresh = place / f"{ARCHIVE}.new"
    fresh.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as scratch:
        options = [
            f"-XX:ArchiveClassesAtExit={fresh}",
            "-XX:TieredStopAtLevel=1",
            f"-Djava.io.tmpdir={scratch}",
        ]
        subprocess.run(
            [place / "bin" / "spark-submit", "--master", "local[2]", "--driver-memory", "512m",
             "--driver-java-options", " ".join(options),
             "--conf", "spark.ui.enabled=true", "--conf", f"spark.local.dir={scratch}",
             "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1",
             "--conf", "spark.python.unix.domain.socket.enabled=true",
             "--conf", "spark.python.unix.domain.socket.dir=.",
             rehearsal.__file__, Path(scratch) / "checkpoint"],
            check=True, timeout=_LIMIT_S, cwd=scratch, stdin=subprocess.DEVNULL,
            env={**os.environ, "SPARK_HOME": str(place), "PYSPARK_PYTHON": sys.executable,  # noqa: TID251 - handed on
                 "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONSAFEPATH": "1", "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
    fresh.replace(place / ARCHIVE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
