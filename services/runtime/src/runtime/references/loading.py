"""Load reference tables in the driver: read them, store good versions, and refresh them.

A table is read at the launch and, once it is older than the query allows, before a batch. If it cannot be
read or used, the last good version stays in use, with a warning until a refresh succeeds. Good versions are
stored beside the checkpoint, for later launches; only a job that never had a good version cannot start.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from daggers.v1 import spec_pb2
from pyspark.sql import SparkSession

import daggersql
from chassis import threads
from chassis.files import replace_text
from chassis.logging import logger
from daggersql.functions.references import DEFAULT_HOURS
from runtime.errors import JobError, external
from runtime.references.content import InvalidContent, entries, mapping, parse
from runtime.references.fetching import TableUnreadable, fetch
from runtime.references.worker import PROPERTY

STALE = "REFERENCE_STALE"
"""Code of the warning of a table that could not be refreshed."""
_HOUR_S = 3600.0
_RETRY_S = 60.0
"""Pause before a failed read is repeated."""
_POLL_S = 10.0
"""Time between two refreshes of due tables while no batch runs."""

Check: TypeAlias = Callable[[Any], object]
"""Reads what a use needs of a content. Raises: InvalidContent."""


@dataclass(frozen=True, slots=True)
class Version:
    """One good version of a table."""

    id: str
    """Digest of the content."""
    loaded: str
    """Time of the read, ISO 8601 UTC."""
    content: Any


@dataclass(slots=True)
class _Table:
    location: spec_pb2.ReferenceTable
    hours: int
    checks: tuple[Check, ...]
    due: float = 0.0
    now: Version | None = None
    trouble: str = ""


class References:
    """Reference tables of one launch.

    store: folder of good versions, shared by launches. folder: of this launch. clock: in seconds.
    """

    def __init__(
        self,
        uses: Iterable[daggersql.Reference],
        tables: Iterable[spec_pb2.ReferenceTable],
        *,
        dagger: str,
        store: Path,
        folder: Path,
        clock: Callable[[], float],
    ) -> None:
        """Match the plan's uses with the tables. Raises: JobError (EXTERNAL) for a table that is missing."""
        self._dagger, self._store, self._folder, self._clock = dagger, store, folder, clock
        self._loading = threading.Lock()
        self._sent: set[str] = set()
        self._reported: tuple[float, Mapping[str, str]] | None = None
        by_name = {table.name: table for table in tables}
        uses_by_name: dict[str, list[daggersql.Reference]] = {}
        for use in uses:
            uses_by_name.setdefault(use.name, []).append(use)
        for name in uses_by_name:
            if name not in by_name:
                raise _not_found(name)
        self._tables = {name: _make_table(by_name[name], entries) for name, entries in uses_by_name.items()}

    def choose(
        self, checks: Mapping[str, Sequence[Check]], tables: Iterable[spec_pb2.ReferenceTable]
    ) -> None:
        """Go on with these tables, by name, in place of those before; they are read with the next `reload`,
        and have no content until then. Raises: JobError (EXTERNAL) for a table that is missing.
        """
        by_name = {table.name: table for table in tables}
        chosen: dict[str, _Table] = {}
        for name, of_table in checks.items():
            if name not in by_name:
                raise _not_found(name)
            table, before = _Table(by_name[name], DEFAULT_HOURS, tuple(of_table)), self._tables.get(name)
            is_same = before and (before.location, before.checks) == (table.location, table.checks)
            chosen[name] = before if before and is_same else table
        self._tables = chosen

    def find(self, name: str) -> Version | None:
        """Return the version of a table that is in use; None where there never was one."""
        table = self._tables.get(name)
        return table.now if table is not None else None

    def start(self) -> None:
        """Read every table once. Raises: JobError (EXTERNAL, retryable) for one without any good version."""
        for name, table in self._tables.items():
            self._load(name, table)
            if table.now is None:
                detail = f"The reference table {name!r} cannot be used, and never could: {table.trouble}"
                raise external("REFERENCE_UNAVAILABLE", detail, retryable=True)

    def refresh(self, spark: SparkSession) -> None:
        """Reload due tables, and set the versions for the batch's tasks.

        Called on each batch's thread before it.
        """
        if not self._tables:
            return
        self.reload()
        files = {name: self._send(spark, name, table) for name, table in self._tables.items()}
        spark.sparkContext.setLocalProperty(PROPERTY, json.dumps(files))

    def reload(self) -> None:
        """Reload due tables, unless another thread does: no batch waits for a slow server twice."""
        if not self._loading.acquire(blocking=False):
            return
        try:
            for name, table in [*self._tables.items()]:
                if self._clock() >= table.due:
                    self._load(name, table)
        finally:
            self._loading.release()

    def keep_fresh(self, ended: threading.Event) -> None:
        """Reload due tables between batches, too, until `ended`: so a warning ends with its cause."""
        if self._tables:
            threads.start(partial(self._keep_fresh, ended), "references")

    def _keep_fresh(self, ended: threading.Event) -> None:
        while not ended.wait(_POLL_S):
            self.reload()

    def keep_in(self, store: Path) -> None:
        """Store good versions there from now on, beginning with those in use."""
        with self._loading:
            self._store = store
            for name, table in self._tables.items():
                if table.now is not None:
                    self._save(name, table.now)

    def versions(self) -> Mapping[str, str]:
        """Return the digests of the versions in use, by table, updated once a minute: frequent changes would
        fill the log.
        """
        now = self._clock()
        if self._reported is None or now - self._reported[0] >= _RETRY_S:
            versions = {name: table.now.id for name, table in self._tables.items() if table.now is not None}
            self._reported = (now, versions)
        return self._reported[1]

    def warnings(self) -> tuple[str, ...]:
        """Return warnings, each with its UPPER_SNAKE code first."""
        return tuple(
            f"{STALE} {name}: {table.trouble} {_describe_use(table.now)}"
            for name, table in [*self._tables.items()]
            if table.trouble
        )

    def _load(self, name: str, table: _Table) -> None:
        now = self._clock()
        try:
            data = fetch(table.location.location)
            content = parse(table.location.format, data)
            for check in table.checks:
                check(content)
        except (TableUnreadable, InvalidContent) as problem:
            table.trouble, table.due = str(problem), now + _RETRY_S
            if table.now is None:
                table.now = self._load_saved(name, table)
            logger().warning("reference.not_refreshed", reference=name, problem=table.trouble)
            return
        table.trouble, table.due = "", now + table.hours * _HOUR_S
        id_ = hashlib.sha256(data).hexdigest()[:12]
        if table.now is None or table.now.id != id_:
            table.now = Version(id_, datetime.now(UTC).isoformat(timespec="seconds"), content)
            self._save(name, table.now)
            logger().info("reference.loaded", reference=name, version=id_)

    def _send(self, spark: SparkSession, name: str, table: _Table) -> str:
        """Have Spark ship the version's file to tasks; return its name, unique in the application."""
        version = table.now  # read once: another thread may replace it
        assert version is not None
        file = f"reference-{self._dagger}-{name}-{version.id}.json"
        if file not in self._sent:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / file
            path.write_text(json.dumps(version.content, default=str), encoding="utf-8")
            spark.sparkContext.addFile(str(path))
            self._sent.add(file)
        return file

    def _save(self, name: str, version: Version) -> None:
        self._store.mkdir(parents=True, exist_ok=True)
        saved = {"version": version.id, "loaded": version.loaded, "content": version.content}
        replace_text(self._store / f"{name}.json", json.dumps(saved, default=str))

    def _load_saved(self, name: str, table: _Table) -> Version | None:
        """Load the last good version of an earlier launch, if it passes the present checks; else None."""
        try:
            saved = json.loads((self._store / f"{name}.json").read_text(encoding="utf-8"))
            for check in table.checks:
                check(saved["content"])
            return Version(saved["version"], saved["loaded"], saved["content"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _describe_use(version: Version | None) -> str:
    if version is None:  # of alert rules alone: a query needs one to begin
        return "There is no version of it yet, and alert rules that need one are true of nothing."
    return f"The version of {version.loaded} stays in use."


def _not_found(name: str) -> JobError:
    return external("REFERENCE_NOT_FOUND", f"The reference table {name!r} is not registered.")


def _make_table(location: spec_pb2.ReferenceTable, uses: Sequence[daggersql.Reference]) -> _Table:
    checks: dict[bool, Check] = {use.entries: entries if use.entries else mapping for use in uses}
    return _Table(location, min(use.refresh_hours for use in uses), tuple(checks.values()))
