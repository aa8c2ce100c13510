"""Keys of S3 that are replaced while rows are written: new ones are read, and no row is lost."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.job_writing import Place
from services.runtime.tests.sink_contract import target
from services.runtime.tests.sink_parquet_s3 import Table, sink
from services.runtime.tests.sink_rotation import DEADLINE_S, Told, write
from tests import s3 as servers

from runtime import sinks
from runtime.launch import delivery, outages
from runtime.sinks import BatchRef, Target

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "PATIENCE_S", 0.0)
    monkeypatch.setattr(outages, "LONGEST_PAUSE_S", 0.1)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Told:
    return Told.at(caplog, capfd)


@dataclass(frozen=True)
class Keys:
    """The access keys of somebody who may everything at a server."""

    iam: Any
    """Who makes and ends them."""
    user: str

    @staticmethod
    def of(url: str, user: str, by: tuple[str, str]) -> Keys:
        where = {"endpoint_url": url, "region_name": "us-east-1"}
        return Keys(boto3.client("iam", aws_access_key_id=by[0], aws_secret_access_key=by[1], **where), user)

    def begin(self) -> None:
        """Make the user."""
        self.iam.create_user(UserName=self.user)
        may = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
        said = json.dumps({"Version": "2012-10-17", "Statement": may})
        self.iam.put_user_policy(UserName=self.user, PolicyName="all", PolicyDocument=said)

    def make(self) -> tuple[str, str]:
        """One more: its id, and its secret."""
        made = self.iam.create_access_key(UserName=self.user)["AccessKey"]
        return made["AccessKeyId"], made["SecretAccessKey"]

    def end(self, key: tuple[str, str]) -> None:
        """From now on it is none."""
        self.iam.delete_access_key(UserName=self.user, AccessKeyId=key[0])


@dataclass(frozen=True)
class Lake:
    """A sink in a bucket of a server that checks who calls, and the file with the key."""

    resolved: spec_pb2.ResolvedSink
    secret: Path
    keys: Keys

    def has(self, key: tuple[str, str]) -> None:
        self.secret.write_text(":".join(key))

    def seen(self) -> dict[int, int]:
        """How often each value is there."""
        return dict(Table(self.resolved).seen())


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with servers.moto() as url:
        resolved = sink(url, tmp_path / "secret")
        resolved.sink.name = "lake"
        name, first = uuid4().hex[:8], (servers.KEY, servers.SECRET)
        owner, writer = (Keys.of(url, f"{who}-{name}", first) for who in ("owner", "writer"))
        owner.begin()
        writer.begin()
        own = Keys.of(url, writer.user, owner.make())
        count(url, "0")
        try:
            yield Lake(resolved, tmp_path / "secret", own)
        finally:
            count(url, "inf")  # moto has one state for all servers of a process


def count(url: str, free: str) -> None:
    """How many calls moto lets through before it checks who calls."""
    plain = {"Content-Type": "text/plain"}
    request = urllib.request.Request(f"{url}/moto-api/reset-auth", free.encode(), plain, method="POST")
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("when", ["between batches", "before a commit"])
def test_a_key_of_s3_that_is_replaced_is_read_again_and_no_row_is_lost(
    lake: Lake, tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    old, new = lake.keys.make(), lake.keys.make()
    lake.has(old)
    place, commit, commits = Place(tmp_path, target("d", lake.resolved)), sinks.commit, list[int]()

    def replaced() -> None:
        lake.has(new)
        lake.keys.end(old)

    def committed(aimed: Target, whole: BatchRef, receipts: Any) -> None:
        commits.append(whole.batch_id)
        if when == "before a commit" and commits == [0, 1]:
            replaced()
        commit(aimed, whole, receipts)

    monkeypatch.setattr(sinks, "commit", committed)
    jobs = [write(place, 0)]
    if when == "between batches":
        replaced()
    jobs += [write(place, number) for number in (1, 2)]

    between = when == "between batches"
    assert (jobs, commits) == (([1, 2, 1], [0, 1, 2]) if between else ([1, 1, 1], [0, 1, 1, 2]))
    assert lake.seen() == {0: 1, 1: 1, 2: 1}
    assert [secret for _, secret in (old, new) if secret in told.all()] == []


def test_a_key_of_s3_that_is_no_more_is_told_and_the_next_one_waited_for(
    lake: Lake, tmp_path: Path, told: Told
) -> None:
    old, new = lake.keys.make(), lake.keys.make()
    lake.has(old)
    place = Place(tmp_path, target("d", lake.resolved))
    write(place, 0)
    lake.keys.end(old)
    later = told.once(place, lambda: lake.has(new))
    write(place, 1)
    later.join(DEADLINE_S)

    assert (told.sinks, lake.seen()) == ([("lake", "SINK_DENIED")], {0: 1, 1: 1})
    assert [secret for _, secret in (old, new) if secret in told.all()] == []
