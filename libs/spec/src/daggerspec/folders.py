"""Folders of the drivers' hosts that tenants' files may be written below: an administrator's word.

They are absolute, several separated by commas; one that has a comma stands in quotes. {team} is the
team of the dagger that writes: in /data/daggers/{team} none reaches another's files.
"""

from __future__ import annotations

import csv
import io
import posixpath
from collections.abc import Iterable
from typing import Final

_TEAM: Final = "{team}"


def parse(text: str) -> tuple[str, ...]:
    """Parse and check the folders of a setting. Raises: ValueError."""
    folders = split_words(text)
    for folder in folders:
        if not is_plain(folder) or folder == "/":
            raise ValueError(f"{folder} must be an absolute folder without .., and not /")
        if any(_TEAM in part and part != _TEAM for part in folder.split("/")):
            raise ValueError(f"{folder} must have {_TEAM} as a whole part")
    return folders


def split_words(text: str) -> tuple[str, ...]:
    """Split the words of a setting, paths mostly, at commas; one that has a comma stands in quotes as in
    CSV, "/data/a, b", where a quote is written twice. Raises: ValueError.
    """
    try:
        rows = list(csv.reader(io.StringIO(text), skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise ValueError(f"is no list with commas, and quotes around what has some: {error}") from None
    return tuple(word.strip() for row in rows for word in row if word.strip())


def as_list(words: Iterable[str]) -> str:
    """Join words into the text that `split_words` splits into them."""
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow(list(words))
    return written.getvalue()


def of(team: str, folders: Iterable[str]) -> tuple[str, ...]:
    """Return the folders of a team; without a team those for everybody."""
    return tuple(folder.replace(_TEAM, team) for folder in folders if team or _TEAM not in folder)


def is_plain(path: str) -> bool:
    """Return whether a path is absolute and leads nowhere else: no .., no empty part."""
    plain = posixpath.normpath(path) == path and not path.startswith("//")
    return path.startswith("/") and plain and path.isprintable()


def holding(folders: Iterable[str], path: str) -> str | None:
    """Return the folder that a plain path is in, or is itself; None if it is in none."""
    return next((folder for folder in folders if path == folder or path.startswith(f"{folder}/")), None)
