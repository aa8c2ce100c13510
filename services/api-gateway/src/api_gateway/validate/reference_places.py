"""Judge whether a reference table may be registered: its name, its format, and its place. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

from daggers.v1 import spec_pb2

from daggerspec import fields
from daggerspec.violation import Violation

_FORMATS: Final = frozenset(
    {
        spec_pb2.ReferenceTable.FORMAT_JSON,
        spec_pb2.ReferenceTable.FORMAT_CSV,
        spec_pb2.ReferenceTable.FORMAT_PARQUET,
    }
)
_MAX_LOCATION: Final = 2_000


def violations(path: str, table: spec_pb2.ReferenceTable, places: Sequence[str]) -> Iterator[Violation]:
    """Yield what is wrong with a table. `places` are the folders and base URLs that an
    administrator allows.
    """
    yield from fields.reference(f"{path}.name", table.name)
    if table.format not in _FORMATS:
        yield Violation(f"{path}.format", "must be JSON, CSV or Parquet", "REQUIRED")
    wrong = _unusable(table.location)
    if wrong:
        yield Violation(f"{path}.location", wrong, "INVALID_LOCATION")
    elif not any(_within(table.location, place) for place in places):
        allowed = ", ".join(places) or "none yet: DAGGERS_GATEWAY_REFERENCE_PLACES names them"
        yield Violation(
            f"{path}.location",
            f"is in no place that the administrator allows; allowed are {allowed}",
            "FORBIDDEN_PLACE",
        )


def _unusable(location: str) -> str | None:
    """Return why a location is invalid at any place; None where it is valid."""
    if len(location) > _MAX_LOCATION or not location.isprintable():
        return f"must be at most {_MAX_LOCATION} printable characters"
    try:
        parts = urlsplit(location)
        host = parts.hostname if parts.port != 0 else None
    except ValueError:
        return "must be an absolute path or an http(s) URL"
    is_url = parts.scheme in ("http", "https") and bool(host)
    if not is_url and not location.startswith("/"):
        return "must be an absolute path or an http(s) URL"
    if is_url and (parts.username is not None or parts.password is not None or parts.query or parts.fragment):
        return "must be a URL without credentials, ? and #: everybody may read it"
    path = unquote(parts.path) if is_url else location
    # paths that leave an allowed place, or that another program reads as another path
    if posixpath.normpath(path) != path or path.startswith("//") or "\\" in path:
        return "must be written without . and .., // and a / at its end"
    return None


def _within(location: str, place: str) -> bool:
    return location.startswith(place.rstrip("/") + "/")
