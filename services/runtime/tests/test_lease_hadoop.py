"""Checkpoint roots on Hadoop file systems: the lease, what a checkpoint tells, a driver that lives there."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from services.runtime.tests.checkpoint_damage import committed
from services.runtime.tests.job_driver import in_kafka, kafka_sink
from services.runtime.tests.launches import Dagger
from services.runtime.tests.lease_hadoop import link
from tests.contracts.leases import StoreContract
from tests.integration.bookings import booking, recount, spread

from daggerspec import anew
from runtime.errors import FencedError, JobError
from runtime.state import checkpoint, damage
from runtime.state.lease import Lease
from runtime.state.root import is_marked
from runtime.state.store.hadoop import HadoopPath, HadoopStore, hadoop_path

pytestmark = pytest.mark.integration


@pytest.fixture(params=["file", "viewfs"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> HadoopPath:
    """A root that Hadoop reaches: this disk, and this disk through a mount table."""
    if request.param == "file":
        return hadoop_path(f"file://{tmp_path}/ck")
    table = uuid4().hex  # Hadoop remembers file systems by name
    return hadoop_path(f"viewfs://{table}/data/ck", {link(table): f"file://{tmp_path}"})


def test_a_newer_generation_takes_the_lease_and_fences_the_older_one(root: HadoopPath) -> None:
    old, new = (Lease(HadoopStore(root), generation, lambda: 0.0) for generation in (7, 12))

    old.take()
    old.take()
    old.check()
    new.take()
    with pytest.raises(FencedError):
        old.check()
    with pytest.raises(FencedError):
        old.take()
    new.check()

    assert HadoopStore(root).read() == 12


def test_a_file_is_written_whole_and_again(root: HadoopPath) -> None:
    file = root / "folder" / "file"

    file.write_text("first")
    file.write_text("second")

    assert (file.read_text(), [entry.name for entry in (root / "folder").iterdir()]) == ("second", ["file"])


def test_the_marker_and_the_damage_of_a_checkpoint_are_seen_there_too(
    root: HadoopPath, tmp_path: Path
) -> None:
    local = tmp_path / "ck"
    path = committed(local / "orders-7")
    whole = damage.of_launch(root / "orders-7", "plan")
    marked = [is_marked(root)]
    (root / anew.MARKER).write_text("here\n")
    marked.append(is_marked(root))
    (path / "state" / "0" / "1" / "2.delta").unlink()
    damaged = damage.of_launch(root / "orders-7", "plan")
    checkpoint.begin_anew(root / "orders-7", 4)
    gone = damage.of_launch(root / "orders-7", "plan")

    assert (whole, marked) == (None, [False, True])
    assert damaged is not None
    assert gone is not None
    assert [damaged.reason, gone.reason] == [anew.DAMAGED, anew.GONE]
    assert not checkpoint.begin_anew(root / "orders-7", 4)


def test_a_lease_is_not_taken_again_where_the_whole_root_is_gone(root: HadoopPath, tmp_path: Path) -> None:
    holder = Lease(HadoopStore(root / "orders-7"), 7, lambda: 0.0)
    holder.take()
    (tmp_path / "ck").rename(tmp_path / "unmounted")

    assert holder.check() is False
    assert not (tmp_path / "ck").exists()
    (tmp_path / "unmounted").rename(tmp_path / "ck")
    assert holder.check() is True


class TestHadoopStore(StoreContract):
    @pytest.fixture
    def stores(self, root: HadoopPath) -> Callable[[], HadoopStore]:
        return lambda: HadoopStore(root)


def test_an_edited_plan_starts_where_the_old_checkpoint_stood(root: HadoopPath, tmp_path: Path) -> None:
    stood = datetime(2026, 1, 1, 12, tzinfo=UTC)
    old = tmp_path / "ck" / "checkpoints" / "old"
    for log, key in (("commits", "nextBatchWatermarkMs"), ("offsets", "batchWatermarkMs")):
        (old / log).mkdir(parents=True)
        (old / log / "3").write_text("v1\n" + json.dumps({key: int(stood.timestamp() * 1000)}))

    chosen = checkpoint.choose(root, "new", 1)
    assert chosen.stand is not None
    before = (chosen.stand.watermark, [path.name for path in chosen.outdated], chosen.committed)
    chosen.forget_outdated()

    assert before == (stood, ["old"], False)
    assert not old.exists()


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("http://127.0.0.1:1/ck", "two drivers could write one checkpoint"),
        ("nonsense://host/ck", "cannot be used"),
        ("s3a://bucket/ck", "cannot be used"),
    ],
)
def test_a_store_that_cannot_hold_a_checkpoint_is_refused_in_one_sentence(uri: str, said: str) -> None:
    with pytest.raises(JobError) as refused:
        hadoop_path(uri)

    assert refused.value.error.reason == "CHECKPOINT_ROOT_UNSUPPORTED"
    assert repr(uri) in refused.value.error.detail
    assert said in refused.value.error.detail


@pytest.mark.long
def test_a_driver_keeps_its_state_on_a_hadoop_file_system_over_a_kill(tmp_path: Path, kafka: str) -> None:
    dagger = Dagger(tmp_path, kafka, idle_timeout_s=0, root="viewfs://daggers/data/ck")
    dagger.conf = {f"spark.hadoop.{link('daggers')}": f"file://{tmp_path}/remote"}
    (tmp_path / "remote").mkdir()
    rows = f"rows-{dagger.name}"
    dagger.sinks = [kafka_sink(kafka, rows)]
    events = spread(range(120), cities=2)

    with dagger.launch() as launch:
        dagger.write(*(booking(second, city_id=city) for second, city in events[:80]))
        launch.until(lambda beat: beat.rows_out and beat.rows_out[0] >= 2)
        launch.kill()
    dagger.write(*(booking(second, city_id=city) for second, city in events[80:]), booking(400))
    with dagger.launch() as relaunch:
        relaunch.until(lambda beat: len(set(in_kafka(kafka, rows))) >= 4)
        code = relaunch.stop()

    assert dict(in_kafka(kafka, rows)) == dict(recount(events))
    assert (code, (tmp_path / "remote" / "ck" / "checkpoints").is_dir()) == (0, True)
