"""Keys of a dagger file for the fields of the API, and their places in the file."""

import re
from collections.abc import Mapping

from daggerclient.daggerfile.sinks import file_key
from daggerclient.daggerfile.table import SPEC

# The file leaves out a level that the API has, or says it in other words; the rest is called the same.
KEYS = (
    (re.compile(r"^spec\."), ""),
    (re.compile(r"^(streams\[\d+\]\.start)\.\w+$"), r"\1"),
    (re.compile(r"^(alerts\[\d+\])\.for_(windows|time)$"), r"\1.for"),
    *((re.compile(rf"^{row.field}$"), row.key) for row in SPEC if row.path),
)


def key(field: str) -> str:
    """Return the key of a dagger file that fills a field of a request, for example sinks[0].influx.url."""
    for pattern, replacement in KEYS:
        field = pattern.sub(replacement, field)
    return file_key(field)


def place(path: str, places: Mapping[str, tuple[int, int]]) -> tuple[int, int] | None:
    """Find line and column of a key of a dagger file; of what it would stand in when it is not there."""
    while path:
        if path in places:
            return places[path]
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return places.get("")
