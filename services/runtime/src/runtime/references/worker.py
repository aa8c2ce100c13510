"""Read reference tables in workers: the version that the running batch uses.

The driver ships each version to workers once, as a file (`SparkContext.addFile`), and names a batch's
versions in a job-local property: all tasks and attempts of a batch use the same ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark import SparkFiles, TaskContext

from runtime.errors import internal
from runtime.recent import cache_in_use
from runtime.references.content import entries, mapping

PROPERTY = "daggers.references"
"""Job-local property: a JSON object of file names by table."""


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
    """Return the running batch's version of a table. Raises: JobError (INTERNAL) if the driver set none."""
    return _read(file_of(name))


def file_of(name: str) -> str:
    """Return the file of the running batch's version: every version has its own file.

    Raises: JobError (INTERNAL) if the driver set none.
    """
    task = TaskContext.get()
    versions = task.getLocalProperty(PROPERTY) if task is not None else None
    file = json.loads(versions or "{}").get(name)
    if file is None:
        raise internal("REFERENCE_MISSING", f"The driver has not loaded the reference table {name!r}.")
    return str(file)


@cache_in_use
def _read(file: str) -> Content:
    return Content(json.loads(Path(SparkFiles.get(file)).read_text(encoding="utf-8")))
