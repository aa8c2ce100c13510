"""Reference tables of a launch: where they are read from, and how they are kept fresh before each batch."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import spec_pb2
from pyspark.sql import Row, SparkSession
from services.runtime.tests.sessions import feed, moment, planned, spark_session, stream

from daggersql import Reference
from runtime.errors import JobError
from runtime.references.fetching import TableUnreadable, fetch
from runtime.references.loading import References

Format = spec_pb2.ReferenceTable

# --- locations --------------------------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = {"/good": 200, "/drips": 200, "/moved": 302}.get(self.path.partition("?")[0], 404)
        self.send_response(status)
        self.send_header("Location", "/good")
        self.end_headers()
        while self.path == "/drips":
            try:
                self.wfile.write(b" ")
            except OSError:  # who reads has left
                return
            time.sleep(0.05)
        self.wfile.write(b'{"k": "v"}' if status == 200 else b"")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the standard library
        pass


@contextmanager
def served() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_url_is_read_and_no_redirect_is_followed(tmp_path: Path) -> None:
    with served() as url:
        good = fetch(f"{url}/good")
        with pytest.raises(TableUnreadable) as moved:
            fetch(f"{url}/moved?token=secret")
    with pytest.raises(TableUnreadable):
        fetch(f"{url}/good")
    with pytest.raises(TableUnreadable):
        fetch(str(tmp_path / "none.json"))

    assert good == b'{"k": "v"}'
    assert "302" in str(moved.value)
    assert "secret" not in str(moved.value)


def test_a_server_that_drips_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.references.fetching._DOWNLOAD_S", 0.5)
    with served() as url, pytest.raises(TableUnreadable, match=r"/drips gave only \d+ bytes in 0 s"):
        fetch(f"{url}/drips")


# --- refreshes --------------------------------------------------------------------------------------------


class Launch:
    """A driver's view of one table on disk, with a clock of its own."""

    def __init__(self, folder: Path, hours: int = 1) -> None:
        self.file, self.now = folder / "owners.json", 0.0
        self._folder, self._hours = folder, hours

    def references(self) -> References:
        use = Reference("owners", entries=False, refresh_hours=self._hours)
        location = Format(name="owners", format=Format.FORMAT_JSON, location=str(self.file))
        return References(
            [use],
            [location],
            dagger="d",
            store=self._folder / "store",
            folder=self._folder / "run",
            clock=lambda: self.now,
        )


def test_a_job_that_never_had_a_good_version_does_not_start(tmp_path: Path) -> None:
    launch = Launch(tmp_path)
    launch.file.write_text('["no object"]')
    with pytest.raises(JobError) as caught:
        launch.references().start()

    assert caught.value.error.reason == "REFERENCE_UNAVAILABLE"
    assert caught.value.error.retryable
    assert "DartGet needs an object" in caught.value.error.detail


def test_a_launch_survives_that_its_table_is_gone_on_the_last_good_version(tmp_path: Path) -> None:
    launch = Launch(tmp_path)
    launch.file.write_text('{"k": "v"}')
    first = launch.references()
    first.start()
    launch.file.unlink()
    second = launch.references()
    second.start()

    assert second.versions() == first.versions()
    assert first.warnings() == ()
    assert second.warnings()[0].startswith("REFERENCE_STALE owners: ")


def test_good_versions_are_kept_elsewhere_from_when_that_is_said(tmp_path: Path) -> None:
    launch = Launch(tmp_path)
    launch.file.write_text('{"k": "v"}')
    references = launch.references()
    references.start()
    elsewhere = tmp_path / "elsewhere"
    before = elsewhere.exists()
    references.keep_in(elsewhere)

    assert (before, [file.name for file in elsewhere.iterdir()]) == (False, ["owners.json"])


def test_a_batch_does_not_wait_for_a_read_that_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = Launch(tmp_path, hours=0)
    launch.file.write_text('{"k": "v"}')
    references = launch.references()
    references.start()
    asked, answer = threading.Event(), threading.Event()

    def hang(location: str) -> bytes:
        asked.set()
        answer.wait()
        return fetch(location)

    monkeypatch.setattr("runtime.references.loading.fetch", hang)
    slow = threading.Thread(target=references.reload)
    slow.start()
    asked.wait()
    references.reload()  # returns, or the test does not end
    answer.set()
    slow.join()

    assert references.warnings() == ()


def test_a_table_that_was_not_given_to_the_launch_ends_it(tmp_path: Path) -> None:
    with pytest.raises(JobError) as caught:
        References(
            [Reference("none", entries=True, refresh_hours=1)],
            [],
            dagger="d",
            store=tmp_path,
            folder=tmp_path,
            clock=lambda: 0.0,
        )

    assert caught.value.error.reason == "REFERENCE_NOT_FOUND"


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with spark_session("dartget", "dartcontains") as started:
        yield started


def test_a_running_query_sees_new_versions_and_keeps_the_last_good_one(
    session: SparkSession, tmp_path: Path
) -> None:
    launch = Launch(tmp_path)
    launch.file.write_text(json.dumps({"a": "one", "data": ["a"]}))
    references = launch.references()
    references.start()
    plan = planned(
        "SELECT driver_id, DartGet('owners', driver_id, 1, 'none') AS owner, DartGet('owners', driver_id) AS"
        " bare, DartContains('owners', driver_id) AS listed, DartContains('owners', driver_id, '%s.*') AS"
        " matched FROM bookings WHERE DartGet('owners', driver_id, 1, 'kept') IS NOT NULL",
        "bookings",
    )
    found: list[list[Row]] = []

    def batch(rows: Any, _: int) -> None:
        references.refresh(session)
        found.append(rows.collect())

    ids = ["a", "ab", None]
    query = (
        stream(session, plan, tmp_path)
        .writeStream.foreachBatch(batch)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    warned = []
    contents = (None, {"a": "two", "data": []}, "broken {", {"ab": "three", "data": ["b", "a"]})
    for number, content in enumerate(contents):
        if content is not None:
            launch.file.write_text(content if isinstance(content, str) else json.dumps(content))
        launch.now += 3600
        feed(tmp_path, "bookings", f"b{number}", [{"driver_id": id_, "rowtime": moment(1)} for id_ in ids])
        query.processAllAvailable()
        warned.append(len(references.warnings()))
    query.stop()
    seen = [[tuple(row[:5]) for row in rows] for rows in found if rows]

    assert seen == [
        [("a", "one", "one", True, True), ("ab", "none", None, False, True)],
        [("a", "two", "two", False, False), ("ab", "none", None, False, False)],
        [("a", "two", "two", False, False), ("ab", "none", None, False, False)],
        [("a", "none", None, True, True), ("ab", "three", "three", False, True)],
    ]
    assert warned == [0, 0, 1, 0]
