"""Build a Spark home from which drivers start in half the time.

Two steps of a start are the same every time, and are saved:

* The JVM loads 15,000 classes out of 200 jars. `classes.jsa`, an AppCDS archive, has them as they are in
  memory (class data sharing), mapped by every driver of the host and shared among them.
* PySpark's home has its Python half once more as a zip file, which Spark puts first on every Python's path.
  Modules in it are compiled anew by each of the six processes of a driver. Here it is missing, so that they
  find the installed package, which is compiled.

The rest are links to the installed PySpark. A JVM to which the archive does not fit (another Java, other
jars) starts without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from chassis import paths

ARCHIVE = "classes.jsa"
_LINKS = ("bin", "jars")
_LIMIT_S = 600.0


def build(folder: Path, training: str) -> None:
    """Make the links and, where this Java can, the archive: of the classes that the job `training` needs.

    `training` is a Python file; it is given a directory for a checkpoint. Raises CalledProcessError, OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    home = Path(pyspark.__file__).parent
    for name in _LINKS:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(home / name)
    fresh = folder / f"{ARCHIVE}.new"
    fresh.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="training-") as scratch:
        options = [
            f"-XX:ArchiveClassesAtExit={fresh}",
            "-XX:TieredStopAtLevel=1",
            f"-Djava.io.tmpdir={scratch}",
        ]
        subprocess.run(
            [folder / "bin" / "spark-submit", "--master", "local[2]", "--driver-memory", "512m",
             "--driver-java-options", paths.spark_options(options),
             "--conf", "spark.ui.enabled=true", "--conf", "spark.local.dir=.",
             "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1",
             "--conf", "spark.python.unix.domain.socket.enabled=true",
             "--conf", "spark.python.unix.domain.socket.dir=.",
             Path(training).absolute().as_uri(), Path(scratch) / "checkpoint"],
            check=True, timeout=_LIMIT_S, cwd=scratch, stdin=subprocess.DEVNULL,
            env={**os.environ, "SPARK_HOME": str(folder), "PYSPARK_PYTHON": sys.executable,  # noqa: TID251 - handed on
                 "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONSAFEPATH": "1", "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
    fresh.replace(folder / ARCHIVE)
