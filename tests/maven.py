"""Servers of tests that come from Maven's repository, each known by its digest."""

from __future__ import annotations

import hashlib
import tempfile
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
    settings = StackSettings()
    home = java.find_home(settings.tools_dir, settings.java_home)
    if home is None:
        raise LackingError("Java is missing: make setup brings one")
    wheel = home == java.wheel_home(settings.tools_dir)
    with tempfile.TemporaryDirectory(dir=folder.parent) as part:
        try:
            files = ivy.retrieve(
                name, wanted, Path(part), lambda line: None, home / "bin" / "java", own_authorities=wheel,
                failure=f"{name} {version} could not be fetched: check the network",
            )  # fmt: skip
        except RefusedError as problem:
            raise LackingError(problem.message) from None
        (archive,) = files.iterdir()
        if hashlib.sha256(archive.read_bytes()).hexdigest() != digest:
            raise LackingError(f"{archive.name} is not the one that is pinned")
        return archive.rename(folder / archive.name)
