"""Install one wheel into a folder of its own, through pip, which checks its hash."""

import shutil
import sys
from pathlib import Path
from typing import Final

from cli.errors import RefusedError
from cli.output.progress import Report
from devstack.tools.run import run

LOCKS: Final = Path(__file__).parent
"""Place where wheels are pinned: NAME.lock has the version, and the hash of each file that it may be."""


def install_wheel(lock: Path, target: Path, report: Report, *, otherwise: str) -> None:
    """Install the wheel that `lock` pins and nothing else into `target`, afresh.

    otherwise: what to do instead, for the one line that is shown when it does not work.

    Raises: RefusedError.
    """
    fresh = target.with_name(f"{target.name}.fresh")
    for folder in (target, fresh):
        shutil.rmtree(folder, ignore_errors=True)
    requirement = lock.read_text().split()[0]
    log = target.with_name(f"{target.name}.pip.log")
    try:
        run(
            [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-deps",
             "--only-binary", ":all:", "--target", fresh, "--require-hashes", "--requirement", lock],
            log=log, report=report, failure=f"{requirement} could not be installed by pip",
        )  # fmt: skip
    except RefusedError as error:
        raise RefusedError(f"{otherwise}: {error.message}", reason=error.reason) from error
    fresh.rename(target)
