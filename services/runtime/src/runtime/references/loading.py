"""The half of reference tables that runs in the driver: reads them, keeps what was good, and refreshes.

A table is read at the launch and, when it has grown older than the query lets it, before a batch. What cannot
be read, or not used, changes nothing: the last good version stays, and a warning says so until a refresh
succeeds. Good versions are kept beside the checkpoint, so a launch survives that too; only a job that never
had a good version cannot start.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import urllib3
from daggers.v1 import spec_pb2
from pyspark.sql import SparkSession

import daggersql
from chassis.files import replace_text
from chassis.logging import logger
from runtime.clients.egress import credentials_for, proxy_of
from runtime.errors import external
from runtime.references.content import InvalidContent, entries, mapping, parse
from runtime.references.worker import PROPERTY

MAX_BYTES = 64 * 1024 * 1024
STALE = "REFERENCE_STALE"
"""The code of the warning about a table that could not be refreshed."""
_HOUR_S = 3600.0
_RETRY_S = 60.0
"""A table that could not be read is not asked for again before this."""
_LOOK_S = 10.0
"""While no batch runs, what is due is looked for this often."""
_TIMEOUT = urllib3.Timeout(connect=5.0, read=10.0)
_DOWNLOAD_S = 60.0
_PIECE = 1024 * 1024


class Unreadable(Exception):  # noqa: N818 - reads as what is wrong
    """A location that gives no content; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Version:
    """One good content of a table."""

    id: str
    """Digest of the content."""
    loaded: str
    """When it was read, ISO 8601 UTC."""
    content: Any


@dataclass(slots=True)
class _Table:
    location: spec_pb2.ReferenceTable
    hours: int
    checks: tuple[Callable[[Any], object], ...]
    due: float = 0.0
    now: Version | None = None
    trouble: str = ""


class References:
    """The reference tables of one launch.

    `store` keeps good versions from launch to launch; `folder` belongs to this launch; `clock` is in seconds.
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
        """Raises: JobError (EXTERNAL) for a table that the launch was not given."""
        self._dagger, self._store, self._folder, self._clock = dagger, store, folder, clock
        self._loading = threading.Lock()
        self._sent: set[str] = set()
        self._told: tuple[float, Mapping[str, str]] | None = None
        given = {table.name: table for table in tables}
        wanted: dict[str, list[daggersql.Reference]] = {}
        for use in uses:
            wanted.setdefault(use.name, []).append(use)
        for name in wanted:
            if name not in given:
                raise external("REFERENCE_NOT_FOUND", f"The reference table {name!r} is not registered.")
        self._tables = {name: _table(given[name], entries) for name, entries in wanted.items()}

    def start(self) -> None:
        """Read every table once. Raises: JobError (EXTERNAL, retryable) for one without any good version."""
        for name, table in self._tables.items():
            self._load(name, table)
            if table.now is None:
                table.now = self._kept(name, table)
            if table.now is None:
                detail = f"The reference table {name!r} cannot be used, and never could: {table.trouble}"
                raise external("REFERENCE_UNAVAILABLE", detail, retryable=True)

    def refresh(self, spark: SparkSession) -> None:
        """To be called before each batch, on its thread: reads what is due, and tells the batch's tasks."""
        if not self._tables:
            return
        self.reload()
        files = {name: self._send(spark, name, table) for name, table in self._tables.items()}
        spark.sparkContext.setLocalProperty(PROPERTY, json.dumps(files))

    def reload(self) -> None:
        """Read what is due, unless that is under way: a batch does not wait for a slow server twice.

        Thread-safe.
        """
        if not self._loading.acquire(blocking=False):
            return
        try:
            for name, table in self._tables.items():
                if self._clock() >= table.due:
                    self._load(name, table)
        finally:
            self._loading.release()

    def keep_fresh(self, ended: threading.Event) -> None:
        """Read what is due also while no batch runs, so that a warning ends with its cause; until `ended`."""
        if self._tables:
            threading.Thread(target=self._keep_fresh, args=(ended,), name="references", daemon=True).start()

    def _keep_fresh(self, ended: threading.Event) -> None:
        while not ended.wait(_LOOK_S):
            self.reload()

    def keep_in(self, store: Path) -> None:
        """Keep good versions there from now on, and those that are in use."""
        with self._loading:
            self._store = store
            for name, table in self._tables.items():
                if table.now is not None:
                    self._keep(name, table.now)

    def versions(self) -> Mapping[str, str]:
        """Digest of the content in use, by table: as it was a minute ago, so that what changes all the time
        does not fill the log.
        """
        now = self._clock()
        if self._told is None or now - self._told[0] >= _RETRY_S:
            versions = {name: table.now.id for name, table in self._tables.items() if table.now is not None}
            self._told = (now, versions)
        return self._told[1]

    def warnings(self) -> tuple[str, ...]:
        """What a person should know, UPPER_SNAKE code first."""
        return tuple(
            f"{STALE} {name}: {table.trouble} The version of {table.now.loaded} stays in use."
            for name, table in self._tables.items()
            if table.trouble and table.now is not None
        )

    def _load(self, name: str, table: _Table) -> None:
        now = self._clock()
        try:
            data = fetch(table.location.location)
            content = parse(table.location.format, data)
            for check in table.checks:
                check(content)
        except (Unreadable, InvalidContent) as problem:
            table.trouble, table.due = str(problem), now + _RETRY_S
            logger().warning("reference.not_refreshed", reference=name, problem=table.trouble)
            return
        table.trouble, table.due = "", now + table.hours * _HOUR_S
        id_ = hashlib.sha256(data).hexdigest()[:12]
        if table.now is None or table.now.id != id_:
            table.now = Version(id_, datetime.now(UTC).isoformat(timespec="seconds"), content)
            self._keep(name, table.now)
            logger().info("reference.loaded", reference=name, version=id_)

    def _send(self, spark: SparkSession, name: str, table: _Table) -> str:
        """The file that the tasks read, which Spark brings to them: its name is unique in the application."""
        version = table.now  # once: another thread may replace it
        assert version is not None
        file = f"reference-{self._dagger}-{name}-{version.id}.json"
        if file not in self._sent:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / file
            path.write_text(json.dumps(version.content, default=str), encoding="utf-8")
            spark.sparkContext.addFile(str(path))
            self._sent.add(file)
        return file

    def _keep(self, name: str, version: Version) -> None:
        self._store.mkdir(parents=True, exist_ok=True)
        known = {"version": version.id, "loaded": version.loaded, "content": version.content}
        replace_text(self._store / f"{name}.json", json.dumps(known, default=str))

    def _kept(self, name: str, table: _Table) -> Version | None:
        """The last good version of an earlier launch, if it fits what is asked of it now."""
        try:
            known = json.loads((self._store / f"{name}.json").read_text(encoding="utf-8"))
            for check in table.checks:
                check(known["content"])
            return Version(known["version"], known["loaded"], known["content"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _table(location: spec_pb2.ReferenceTable, uses: Sequence[daggersql.Reference]) -> _Table:
    checks: dict[bool, Callable[[Any], object]] = {
        use.entries: entries if use.entries else mapping for use in uses
    }
    return _Table(location, min(use.refresh_hours for use in uses), tuple(checks.values()))


def fetch(location: str) -> bytes:
    """The bytes at an absolute path or an http(s) URL, at most 64 MiB. Raises: Unreadable."""
    if urlsplit(location).scheme in ("http", "https"):
        return _download(location)
    try:
        with Path(location).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as problem:
        raise Unreadable(f"{location} cannot be read: {problem.strerror}.") from None
    return _bounded(location, data)


def _download(url: str) -> bytes:
    """No redirect is followed: it would lead out of the place that was allowed."""
    try:
        with _pool(url) as pool:
            answer = pool.request("GET", url, redirect=False, preload_content=False)
            data = _body(answer, url)
            status = answer.status
            answer.close()
    except (urllib3.exceptions.HTTPError, ValueError) as problem:
        raise Unreadable(f"{_shown(url)} does not answer: {type(problem).__name__}.") from None
    if status != 200:
        raise Unreadable(f"{_shown(url)} answers with status {status}.")
    return _bounded(_shown(url), data)


def _pool(url: str) -> urllib3.PoolManager:
    proxy = proxy_of(url)
    if proxy is None:
        return urllib3.PoolManager(timeout=_TIMEOUT, retries=False)
    headers = credentials_for(proxy)
    return urllib3.ProxyManager(proxy, proxy_headers=headers, timeout=_TIMEOUT, retries=False)


def _body(answer: urllib3.BaseHTTPResponse, url: str) -> bytes:
    """The content, at most a piece more than is allowed; the limit of a read is for each piece of it."""
    data, end = bytearray(), time.monotonic() + _DOWNLOAD_S
    while len(data) <= MAX_BYTES and (piece := answer.read1(_PIECE)):
        if time.monotonic() > end:
            raise Unreadable(f"{_shown(url)} gave only {len(data)} bytes in {_DOWNLOAD_S:.0f} s.")
        data += piece
    return bytes(data)


def _bounded(location: str, data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise Unreadable(f"{location} is larger than {MAX_BYTES // 2**20} MiB.")
    return data


def _shown(url: str) -> str:
    """Without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{parts.path}"
