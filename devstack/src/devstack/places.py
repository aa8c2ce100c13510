"""Refuses directories in which the stack's programs cannot work, before anything is written."""

import os
from pathlib import Path

from chassis import paths
from cli.errors import RefusedError


def refuse_unusable(title: str, place: Path, instead: str = "name another one") -> None:
    """Raises: RefusedError for a path that no program, or not each of them, can be told.

    title: the place's name for a person; instead: what to do.
    """
    for path in {place.absolute(), Path(os.path.realpath(place))}:
        if (why := paths.unusable(path)) is not None:
            printable = str(path).encode("utf-8", "backslashreplace").decode()
            raise RefusedError(
                f"{title} {printable!r} cannot be used: {why}: {instead}", reason="PATH_UNUSABLE"
            )
