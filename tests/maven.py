"""Servers of tests that come from Maven's repository, each known by its digest."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"


class LackingError(Exception):
    """Why this machine cannot have it, as a person reads it."""


def fetched(artifact: str, digest: str, folder: Path) -> Path:
    """The archive of GROUP:NAME:VERSION:TYPE, put into an empty folder; `digest` is its SHA-256.

    Raises: LackingError.
    """
    if shutil.which("mvn") is None:
        raise LackingError("mvn is missing (Debian: apt-get install maven)")
    maven = ["mvn", "-q", "-B", "--strict-checksums", _COPY]
    subprocess.run(
        [*maven, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"],
        check=True, cwd=folder, timeout=900,
    )  # fmt: skip
    (archive,) = folder.iterdir()
    if hashlib.sha256(archive.read_bytes()).hexdigest() != digest:
        raise LackingError(f"{archive.name} is not the one that is pinned")
    return archive
