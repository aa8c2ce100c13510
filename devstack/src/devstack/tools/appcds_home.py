"""A Spark home from which drivers start in half the time; `runtime.appcds_home` builds it and says how."""

import hashlib
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from cli.environment import environment
from cli.output.progress import Report
from devstack.tools.run import run

ARCHIVE = "classes.jsa"
TITLE = "Spark's classes (drivers start in half the time)"


def name(java_home: Path) -> str:
    """Name the home for this Spark and this Java: the archive fits no other."""
    java = subprocess.run(
        [java_home / "bin" / "java", "-version"], capture_output=True, check=True, timeout=60
    )
    return f"spark-{version('pyspark')}-java-{hashlib.sha256(java.stderr).hexdigest()[:8]}"


def build(place: Path, java_home: Path, report: Report) -> None:
    """Build it. An archive holds the paths of what is in it, so it is built where it stays."""
    place.mkdir(exist_ok=True)
    run(
        [sys.executable, "-m", "runtime.appcds_home", place],
        log=place / "training.log", report=report, env=environment(JAVA_HOME=str(java_home)),
        failure="Spark's classes could not be kept",
    )  # fmt: skip
