"""The lease: one generation writes, and an older one notices."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from daggers.v1 import spec_pb2
from tests.contracts.leases import StoreContract

from runtime.errors import FencedError, JobError
from runtime.launch.launch import Launch
from runtime.state.lease import PATIENCE_S, Lease, LeaseWatcher
from runtime.state.store import open_root
from runtime.state.store.local import LocalStore


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class TestLocalStore(StoreContract):
    @pytest.fixture
    def stores(self, tmp_path: Path) -> Callable[[], LocalStore]:
        return lambda: LocalStore(tmp_path / "not" / "there" / "yet")


def lease(root: Path, generation: int, clock: Clock | None = None) -> Lease:
    return Lease(LocalStore(root), generation, clock or Clock())


def run_for(seconds: float, clock: Clock, look: Callable[[], object]) -> None:
    """Let time pass as it does for a process that runs: it looks every second."""
    for _ in range(round(seconds)):
        clock.now += 1
        look()


def test_the_first_generation_takes_the_lease_and_may_write(tmp_path: Path) -> None:
    first = lease(tmp_path / "not" / "there" / "yet", 7)

    first.take()
    first.check()

    assert LocalStore(tmp_path / "not" / "there" / "yet").read() == 7


def test_a_newer_generation_fences_the_older_one_at_its_next_check(tmp_path: Path) -> None:
    old, new = lease(tmp_path, 7), lease(tmp_path, 12)
    old.take()
    new.take()

    with pytest.raises(FencedError) as fenced:
        old.check()

    assert fenced.value.error.detail == "Generation 12 runs this dagger now; generation 7 has ended."


def test_an_older_generation_does_not_get_the_lease_back(tmp_path: Path) -> None:
    lease(tmp_path, 12).take()

    with pytest.raises(FencedError):
        lease(tmp_path, 7).take()

    assert LocalStore(tmp_path).read() == 12


def test_the_same_generation_takes_the_lease_again_after_a_restart(tmp_path: Path) -> None:
    lease(tmp_path, 7).take()
    again = lease(tmp_path, 7)

    again.take()
    again.check()

    assert LocalStore(tmp_path).read() == 7


def test_a_lease_that_was_lost_from_disk_is_taken_again(tmp_path: Path) -> None:
    holder = lease(tmp_path, 7)
    holder.take()
    (tmp_path / "lease").unlink()

    holder.check()

    assert LocalStore(tmp_path).read() == 7


def test_a_lease_that_cannot_be_read_stops_the_driver_only_after_a_minute(tmp_path: Path) -> None:
    clock = Clock()
    holder = lease(tmp_path, 7, clock)
    holder.take()
    (tmp_path / "lease").write_text("not a number")

    run_for(PATIENCE_S - 1, clock, holder.check)
    clock.now += 1
    with pytest.raises(JobError) as stopped:
        holder.check()

    assert (stopped.value.error.reason, stopped.value.error.retryable) == ("LEASE_UNREADABLE", True)


def test_one_unreadable_look_after_a_process_stood_still_is_no_lost_lease(tmp_path: Path) -> None:
    clock = Clock()
    holder = lease(tmp_path, 7, clock)
    holder.take()
    (tmp_path / "lease").write_text("not a number")
    clock.now += 10 * PATIENCE_S  # SIGSTOP, or no processor: it could not look

    assert (holder.check(), holder.lost) == (False, False)
    run_for(PATIENCE_S / 2, clock, holder.check)
    (tmp_path / "lease").write_text("7")

    assert holder.check()


def test_nothing_is_written_while_the_lease_cannot_be_asked_for(tmp_path: Path) -> None:
    clock, lease_file = Clock(), tmp_path / "lease"
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        clock.now += seconds
        if len(waits) == 3:
            lease_file.write_text("8")  # it answers again, and a newer generation has it

    holder = Lease(LocalStore(tmp_path), 7, clock, wait)
    holder.take()
    lease_file.write_text("no number")
    with pytest.raises(FencedError):
        holder.confirm()

    assert waits == [1.0, 1.0, 1.0]


def test_a_readable_lease_gives_another_minute(tmp_path: Path) -> None:
    clock = Clock()
    holder = lease(tmp_path, 7, clock)
    holder.take()
    run_for(PATIENCE_S - 1, clock, holder.check)
    (tmp_path / "lease").write_text("not a number")

    run_for(PATIENCE_S - 1, clock, holder.check)

    assert clock.now == 1000 + 2 * (PATIENCE_S - 1)


@pytest.mark.parametrize("root", ["/data/ck", "file:///data/ck", "file:/data/ck"])
def test_a_checkpoint_root_may_be_a_path_or_a_file_uri(root: str) -> None:
    place, store = open_root(root)

    assert (place.local, type(store)) == (Path("/data/ck"), LocalStore)


@pytest.mark.parametrize("root", ["relative/ck", "file:relative", ""])
def test_a_checkpoint_root_that_is_not_absolute_is_refused_by_name(root: str) -> None:
    with pytest.raises(JobError) as refused:
        open_root(root)

    assert refused.value.error.reason == "CHECKPOINT_ROOT_UNSUPPORTED"
    assert repr(root) in refused.value.error.detail


class SilentStore(LocalStore):
    """A store whose host goes away: then reading does not end, until the test lets it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked, self.mended = threading.Event(), threading.Event()
        self.mended.set()

    def read(self) -> int:
        self.asked.set()
        self.mended.wait(60)
        return super().read()


class TestSilentStore(StoreContract):
    @pytest.fixture
    def stores(self, tmp_path: Path) -> Callable[[], SilentStore]:
        return lambda: SilentStore(tmp_path)


@pytest.mark.parametrize(
    ("overload", "reason"), [("", "LEASE_UNREADABLE"), ("the host is overloaded", "HOST_OVERLOADED")]
)
def test_a_store_that_never_answers_stops_the_driver_after_a_minute(
    tmp_path: Path, overload: str, reason: str
) -> None:
    clock, store, wake = Clock(), SilentStore(tmp_path), threading.Event()
    holder = Lease(store, 7, clock, overload=lambda: overload)
    holder.take()
    store.mended.clear()
    store.asked.clear()
    watcher = LeaseWatcher(holder, wake=wake, ended=threading.Event())
    assert store.asked.wait(10)

    run_for(PATIENCE_S - 1, clock, watcher.check)
    clock.now += 1
    with pytest.raises(JobError) as stopped:
        watcher.check()
    store.mended.set()

    assert (stopped.value.error.reason, stopped.value.error.retryable) == (reason, True)
    assert ("check the disk" in stopped.value.error.detail) is (not overload)


def test_a_lease_watcher_wakes_its_driver_when_a_newer_generation_has_the_lease(tmp_path: Path) -> None:
    wake = threading.Event()
    holder = lease(tmp_path, 7)
    holder.take()
    lease(tmp_path, 12).take()
    watcher = LeaseWatcher(holder, wake=wake, ended=threading.Event())
    assert wake.wait(10)

    with pytest.raises(FencedError):
        watcher.check()


def test_a_lease_that_was_taken_long_ago_is_asked_for_before_it_is_judged(tmp_path: Path) -> None:
    """A start may take ten minutes: its threads may get no turn in them, and its store is fine."""
    clock = Clock()
    holder = lease(tmp_path, 7, clock)
    holder.take()
    clock.now += 600
    watcher = LeaseWatcher(holder, wake=threading.Event(), ended=threading.Event())

    watcher.check()
    assert holder.check()


def test_a_process_that_stood_still_while_it_asked_gives_its_store_time_to_answer(tmp_path: Path) -> None:
    clock, store = Clock(), SilentStore(tmp_path)
    holder = Lease(store, 7, clock)
    holder.take()
    store.mended.clear()
    store.asked.clear()
    watcher = LeaseWatcher(holder, wake=threading.Event(), ended=threading.Event())
    assert store.asked.wait(10)

    clock.now += 600
    watcher.check()
    run_for(PATIENCE_S / 2, clock, watcher.check)
    store.mended.set()


def test_a_launch_watches_its_lease_from_the_moment_that_it_takes_it(tmp_path: Path) -> None:
    """Planning, references, sinks and the start of Spark come behind that: they may take minutes."""
    spec = spec_pb2.JobSpec(dagger="orders", generation=7, run_dir=str(tmp_path / "run"))
    spec.checkpoint_root, spec.platform.bootstrap_servers = str(tmp_path), "localhost:9092"
    launch = Launch(spec, lambda: pytest.fail("nobody asked for Spark"))
    launch.take_lease()
    try:
        lease(tmp_path, 12).take()

        assert launch.wake.wait(10)
        with pytest.raises(FencedError):
            launch.check_lease()
    finally:
        launch.ended.set()
