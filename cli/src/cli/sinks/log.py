"""Rows from a driver's log, where the sink `log` prints them."""

import json
from pathlib import Path

from cli.driverlog import lines
from cli.sinks.row import Row, from_columns

PREFIX = "row "


def read(log: Path, limit: int) -> list[Row]:
    """The rows printed last, the last one first."""
    rows = []
    for number, line in enumerate(lines(log)):
        _, found, text = line.partition(PREFIX)
        if not found:
            continue
        try:
            columns = json.loads(text)
        except ValueError:
            continue  # some other line with the word in it
        if isinstance(columns, dict):
            rows.append(from_columns(columns, str(number)))
    return rows[::-1][:limit]
