"""The sink `parquet` in buckets: each row once whenever somebody dies, and what servers say.

By moto, and by versitygw with `make test-long`, which is a server of its own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import gateway_pb2, spec_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from services.runtime.tests import sink_parquet as local
from services.runtime.tests.sink_parquet import FIRST, NOON, Dead, batch, window
from services.runtime.tests.sink_parquet_s3 import Table, sink
from tests import s3 as servers
from tests.standstill import serving, standing_still

from daggerspec.rundir import SPEC
from daggerspec.selection import Selection
from runtime import sinks
from runtime.clients import files
from runtime.clients.files import s3
from runtime.errors import JobError, TemporaryError
from runtime.sinks import Source, parquet

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", params=["moto", pytest.param("versitygw", marks=pytest.mark.long)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server."""
    with ExitStack() as stack:
        if request.param == "moto":
            yield stack.enter_context(servers.moto())
        else:
            yield stack.enter_context(servers.versitygw(tmp_path_factory.mktemp("versitygw")))


@pytest.fixture
def table(server: str, tmp_path: Path) -> Table:
    return Table(sink(server, tmp_path / "secret"))


class Steps:
    """The files of a table of who dies at the n-th step: each one after it is done by nobody, too."""

    def __init__(self, inner: files.Files, left: list[int]) -> None:
        self._inner, self._left = inner, left

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            self._left[0] -= 1
            if self._left[0] < 0:
                raise Dead
            answer = getattr(self._inner, name)(*arguments)
            if self._left[0] == 0:  # done, and who did it never knew
                self._left[0] = -1
                raise Dead
            return answer

        return step


def write_until(table: Table, steps: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Write the first batch for so many steps; whether it came to its end."""
    left, known = [steps], files.of
    parquet._open_table.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(files, "of", lambda resolved: Steps(known(resolved), left))
        try:
            table.write(*FIRST, batch=batch())
        except Dead:
            return False
        finally:
            parquet._open_table.cache_clear()
    return True


def test_who_dies_between_manifest_and_file_leaves_what_the_next_start_makes_whole(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(s3.S3Files, "publish", _dies)
        with pytest.raises(Dead):
            table.write(*FIRST, batch=batch())
    assert (table.seen(), len(table.waiting())) == (Counter(), 3)
    sinks.check(table.target)

    assert table.seen() == table.told() == Counter([1, 2, 3])
    assert table.waiting() == []


def _dies(*_: object) -> None:
    raise Dead


@pytest.mark.long
@pytest.mark.parametrize("checkpoint", ["c", "edited"])
def test_who_dies_at_any_step_leaves_what_the_next_attempt_makes_whole(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: str
) -> None:
    for steps in range(1, 100):
        table = Table(sink(server, tmp_path / "secret"))
        ended = write_until(table, steps, monkeypatch)
        assert table.seen() - Counter([1, 2, 3]) == Counter(), "somebody sees a row twice"
        sinks.check(table.target)
        rows = FIRST if checkpoint == "c" else ([*FIRST[0], *FIRST[1]],)
        table.write(*rows, batch=batch(0, checkpoint, 2))
        table.write([window(4, 91)], batch=batch(1, checkpoint, 2))

        assert table.seen() == table.told() == Counter([1, 2, 3, 4])
        assert table.waiting() == []
        if ended:
            assert steps > 10
            return
    raise AssertionError("it never ends")


# What holds in a folder holds in a bucket.
def test_the_manifest_of_a_launch_that_stood_still_counts_where_it_came_first(table: Table) -> None:
    local.check_the_first_manifest_counts(table)


def test_a_launch_that_stood_still_while_another_wrote_its_batch_is_told_so(table: Table) -> None:
    local.check_the_launch_that_stood_still_is_fenced(table)


def test_a_manifest_is_put_once(table: Table) -> None:
    assert [table.files.put_once("x", text) for text in (b"1", b"2")] == [True, False]
    assert table.files.get("x") == b"1"


def test_rows_are_read_back(table: Table) -> None:
    table.write(*FIRST, batch=batch())

    source = Source("d", table.resolved, FileDescriptorSet(), Path("/"))
    assert [row.fields["n"] for row in parquet.read(source, Selection(1))] == [2]


def test_an_archive_in_a_bucket_says_how_large_it_is_and_of_which_hours(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "1")  # a list that is longer than one answer
    begun = datetime.now(UTC) - timedelta(seconds=5)
    table.write(*FIRST, batch=batch())
    table.write([window(4, 60 * 24)], batch=batch(1))
    table.stage([window(5, 60 * 48)], batch(2))  # not seen yet
    asked = table.resolved.sink.parquet
    prefix = "lake/counts/dt="
    pages = table.client.get_paginator("list_objects_v2").paginate(
        Bucket=asked.location.split("/")[2], Prefix=prefix
    )
    sizes = [file["Size"] for page in pages for file in page["Contents"]]

    told = archived(table)
    assert (told.path, told.files, told.bytes) == (f"{asked.location}/counts", 4, sum(sizes))
    assert len(sizes) == 4
    assert told.first_hour.ToDatetime(UTC) == NOON
    assert told.last_hour.ToDatetime(UTC) == NOON + timedelta(days=1)
    assert begun < told.last_write.ToDatetime(UTC) < datetime.now(UTC) + timedelta(seconds=5)
    assert not told.more
    few = archived(table, most=1)
    assert (few.more, few.files, few.first_hour) == (True, 1, told.last_hour)


def archived(table: Table, most: int = 100) -> gateway_pb2.DescribeArchiveResponse:
    """What is said of the table's files."""
    return parquet.archive(Source("d", table.resolved, FileDescriptorSet(), Path("/")), most)


def test_an_archive_is_described_by_a_process_of_its_own_that_finds_its_secret(
    table: Table, tmp_path: Path
) -> None:
    table.write(*FIRST, batch=batch())
    job = spec_pb2.JobSpec(dagger="d", sinks=[table.resolved])
    (tmp_path / SPEC).write_bytes(job.SerializeToString())
    command = [sys.executable, "-m", "runtime.describearchive", "--run-dir", str(tmp_path)]
    found = subprocess.run(command, capture_output=True, check=True, timeout=120).stdout

    assert found[:1] == b"D"
    assert gateway_pb2.DescribeArchiveResponse.FromString(found[5:]).files == 3


def test_an_archive_in_a_bucket_that_is_not_there_is_told_as_such(table: Table) -> None:
    table.resolved.sink.parquet.location = "s3://nobody-made-this"
    with pytest.raises(JobError) as caught:
        archived(table)

    assert caught.value.error.reason == "SINK_MISSING"


def test_a_bucket_that_is_not_there_is_waited_for(table: Table) -> None:
    table.resolved.sink.parquet.location = "s3://nobody-made-this"
    with pytest.raises(JobError) as caught:
        sinks.check(table.target)

    assert (caught.value.error.reason, caught.value.error.retryable) == ("SINK_MISSING", True)


def test_a_server_that_does_not_answer_is_away(table: Table) -> None:
    table.resolved.sink.parquet.endpoint = "http://127.0.0.1:1"
    with pytest.raises(TemporaryError):
        sinks.probe(table.target)
    sinks.check(table.target)  # silence is no reason not to start


def test_an_address_that_is_not_allowed_is_not_reached(table: Table) -> None:
    table.resolved.egress.networks = ""
    with pytest.raises(JobError) as caught:
        sinks.probe(table.target)

    assert caught.value.error.reason == "SINK_ADDRESS_REFUSED"


@pytest.mark.long
def test_a_wrong_secret_is_denied_and_a_new_one_is_read_again(tmp_path: Path) -> None:
    """moto checks none."""
    with servers.versitygw(tmp_path) as url:
        table = Table(sink(url, tmp_path / "secret"))
        good = (tmp_path / "secret").read_text()
        (tmp_path / "secret").write_text(f"{servers.KEY}:canary\n")
        with pytest.raises(JobError) as caught:
            sinks.probe(table.target)
        (tmp_path / "secret").write_text(good)
        sinks.probe(table.target)

    assert (caught.value.error.reason, caught.value.error.retryable) == ("SINK_DENIED", True)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("server", [pytest.param("versitygw", marks=pytest.mark.long)], indirect=True)
def test_a_server_that_stands_still_for_a_minute_is_given_up_and_has_each_row_once(
    server: str, table: Table
) -> None:
    table.write(*FIRST, batch=batch())
    with standing_still(serving(int(server.rpartition(":")[2]))):
        began = time.monotonic()
        with pytest.raises(TemporaryError):
            table.write([window(4, 91)], batch=batch(1))
        given_up = time.monotonic() - began
        with pytest.raises(TemporaryError):
            sinks.probe(table.target)
        time.sleep(max(60 - (time.monotonic() - began), 0))  # so long it stands still
    table.write([window(4, 91)], batch=batch(1))

    assert given_up < 90  # a request may take a minute
    assert table.seen() == table.told() == Counter([1, 2, 3, 4])
    assert table.waiting() == []
