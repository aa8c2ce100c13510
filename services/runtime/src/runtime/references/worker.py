"""The half of reference tables that runs in workers: the version of a table that the running batch has.

The driver sends each version to the workers as a file, once (`SparkContext.addFile`), and names the versions
of a batch in a job-local property: all tasks of a batch, and a repeated attempt at it, see the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from pyspark import SparkFiles, TaskContext

from runtime.errors import internal
from runtime.references.content import entries, mapping

PROPERTY = "daggers.references"
"""The property: a JSON object of file names by table names."""


@dataclass(frozen=True)
class Content:
    """One version of a table."""

    raw: Any

    @cached_property
    def mapping(self) -> Mapping[str, str]:
        """Values by key."""
        return mapping(self.raw)

    @cached_property
    def entries(self) -> tuple[str, ...]:
        """The entries of a list."""
        return entries(self.raw)


def table(name: str) -> Content:
    """The table of the running batch. Raises: JobError (INTERNAL) when the driver named none."""
    return _read(file_of(name))


def file_of(name: str) -> str:
    """The file that holds the table of the running batch: another version is another file.

    Raises: JobError (INTERNAL) when the driver named none.
    """
    task = TaskContext.get()
    said = task.getLocalProperty(PROPERTY) if task is not None else None
    file = json.loads(said or "{}").get(name)
    if file is None:
        raise internal("REFERENCE_MISSING", f"The driver has not loaded the reference table {name!r}.")
    return str(file)


@lru_cache(maxsize=32)
def _read(file: str) -> Content:
    return Content(json.loads(Path(SparkFiles.get(file)).read_text(encoding="utf-8")))
