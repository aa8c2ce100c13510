"""A copy of this installation that every user of the host may read and run, unlike one below a person's home.

Its code is the checkout's, its packages are those of the environment that runs this, its Python is one that
others may run. Files are linked where that is possible, so a copy takes seconds and no room.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
import sysconfig
from pathlib import Path

from devstack.settings import StackSettings

CHECKOUT = Path(__file__).resolve().parents[2]
MADE_WHERE_THEY_STAY = "spark-*"
"""Tools that name their own paths: an archive of Java's classes."""
NOT_THE_STACKS = ("elasticsearch-*", "opensearch-*", "redis-*", "postgres*", ".lock")
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def python_for(user: pwd.struct_passwd) -> Path | None:
    """An interpreter of this version that a user may run; None where there is none."""
    asks = "import sys; sys.exit(sys.version_info[:2] != tuple(map(int, sys.argv[1].split('.'))))"
    for found in (os.path.realpath(sys.executable), f"/usr/bin/python{_VERSION}", "/usr/bin/python3"):
        try:
            done = subprocess.run(
                [found, "-c", asks, _VERSION], cwd="/", env={}, check=False, capture_output=True, timeout=60,
                user=user.pw_uid, group=user.pw_gid, extra_groups=(),
            )  # fmt: skip
        except OSError:
            continue
        if done.returncode == 0:
            return Path(found)
    return None


def copy(place: Path, python: Path) -> Path:
    """Make the copy in a folder that others may read; answer its `daggers` command."""
    home = place / ".venv"
    subprocess.run([python, "-m", "venv", "--without-pip", home], check=True, timeout=120)
    packages = home / "lib" / f"python{_VERSION}" / "site-packages"
    _share(Path(sysconfig.get_path("purelib")), packages)
    for file in packages.glob("*.pth"):
        folder = Path(file.read_text().strip())
        if folder.is_relative_to(CHECKOUT):
            there = place / folder.relative_to(CHECKOUT)
            _share(folder, there)
            file.unlink()  # it may be the very file of the other environment
            file.write_text(f"{there}\n")
    _share(StackSettings().tools_dir, home / "share" / "daggers", MADE_WHERE_THEY_STAY, *NOT_THE_STACKS)
    daggers = home / "bin" / "daggers"
    daggers.write_text(
        f"#!{home / 'bin' / 'python'}\nimport sys\n\nfrom cli.__main__ import main\n\nsys.exit(main())\n"
    )
    daggers.chmod(0o755)
    return daggers


def _share(source: Path, target: Path, *without: str) -> None:
    shutil.copytree(
        source, target, symlinks=True, copy_function=_share_file, ignore=shutil.ignore_patterns(*without),
        dirs_exist_ok=True,
    )  # fmt: skip
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir() and not path.is_symlink())):
        folder.chmod(0o755)


def _share_file(source: str, target: str) -> None:
    """Link a file that others may read, else copy it for them."""
    if Path(source).stat().st_mode & stat.S_IROTH:
        try:
            os.link(source, target)
        except OSError:  # another file system
            pass
        else:
            return
    shutil.copy2(source, target)
    file = Path(target)
    file.chmod(file.stat().st_mode | 0o644)
