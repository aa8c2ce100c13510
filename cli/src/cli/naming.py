"""What the API calls a field, as the user wrote it: a flag of the command line, or a key of a dagger file."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

# The file leaves out a level that the API has, or says it in other words; the rest is called the same.
KEYS = (
    (re.compile(r"^spec\."), ""),
    (re.compile(r"^(sinks\[\d+\]\.influx)\.address\b"), r"\1"),
    (re.compile(r"^(streams\[\d+\]\.start)\.\w+$"), r"\1"),
    (re.compile(r"^driver_memory_mib$"), "driver_memory"),
)


def flag(field: str, names: Mapping[str, str]) -> str:
    """The flag that fills a field of a request, or what the field is a part of; the field when none does."""
    whole = field
    while field:
        if field in names:
            return names[field]
        field = field[: max(field.rfind("."), field.rfind("["), 0)]
    return whole


def key(field: str) -> str:
    """The key of a dagger file that fills a field of a request, for example sinks[0].influx.url."""
    for pattern, replacement in KEYS:
        field = pattern.sub(replacement, field)
    return field


def place(path: str, places: Mapping[str, tuple[int, int]]) -> tuple[int, int] | None:
    """Line and column of a key of a dagger file; those of what it would stand in when it is not there."""
    while path:
        if path in places:
            return places[path]
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return places.get("")


def headline(findings: Sequence[Mapping[str, Any]]) -> str:
    """The first of some findings in one sentence, with how many more there are."""
    first = findings[0]
    of_file = "file" in first and "source" not in first
    line = first.get("file_line") or (first.get("line") if of_file else None)
    field = "" if first["message"].startswith(first["field"]) else first["field"]
    where = ", ".join(filter(None, (field, f"line {line}" if line else "")))
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return ": ".join(filter(None, (where, first["message"]))) + more
