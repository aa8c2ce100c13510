"""Servers of tests that come from Maven's repository, each file known by its digest."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import suppress
from pathlib import Path

from cli.errors import RefusedError
from devstack.settings import StackSettings
from devstack.tools import ivy, java


class LackingError(Exception):
    """Why this machine cannot have it, as a person reads it."""


def fetched(artifact: str, digest: str, folder: Path) -> Path:
    """The archive of GROUP:NAME:VERSION:TYPE, put into an empty folder; `digest` is its SHA-256.

    Raises: LackingError.
    """
    group, name, version, kind = artifact.split(":")
    wanted = f"""\
<dependency org="{group}" name="{name}" rev="{version}" conf="default->default" transitive="false">
  <artifact name="{name}" type="{kind}" ext="{kind}"/>
</dependency>"""
    with tempfile.TemporaryDirectory(dir=folder.parent) as part:
        (archive,) = _retrieve(f"{name} {version}", wanted, Path(part)).iterdir()
        _verify(archive, digest)
        return archive.rename(folder / archive.name)


def fetch_jars(name: str, lock: Path, folder: Path) -> None:
    """Fetch the jars of a lock, and nothing that they depend on, into a new folder.

    lock: file with a line for each, its SHA-256 and GROUP:NAME:VERSION. Raises: LackingError.
    """
    pinned = {artifact: digest for digest, artifact in map(str.split, lock.read_text().splitlines())}
    wanted = "\n".join(
        '<dependency org="{}" name="{}" rev="{}" conf="default->master"/>'.format(*artifact.split(":"))
        for artifact in pinned
    )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as part:
        jars = _retrieve(name, wanted, Path(part))
        for artifact, digest in pinned.items():
            _, jar, version = artifact.split(":")
            _verify(jars / f"{jar}-{version}.jar", digest)
        with suppress(OSError):  # a run beside this one was faster
            jars.rename(folder)


def _retrieve(name: str, dependencies: str, part: Path) -> Path:
    """Resolve Ivy's elements into a folder of `part`; return that folder. Raises: LackingError."""
    settings = StackSettings()
    home = java.find_home(settings.tools_dir, settings.java_home)
    if home is None:
        raise LackingError("Java is missing: make setup brings one")
    wheel = home == java.wheel_home(settings.tools_dir)
    try:
        return ivy.retrieve(
            name, dependencies, part, lambda line: None, home / "bin" / "java", own_authorities=wheel,
            failure=f"{name} could not be fetched: check the network",
        )  # fmt: skip
    except RefusedError as problem:
        raise LackingError(problem.message) from None


def _verify(file: Path, digest: str) -> None:
    """Check that a file is the pinned one. Raises: LackingError."""
    if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != digest:
        raise LackingError(f"{file.name} is not the one that is pinned")
