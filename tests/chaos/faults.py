"""What each kind of fault does, and undoes when its context ends."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import psutil
from confluent_kafka import KafkaException
from tests.chaos.feeder import AHEAD_S, ASKED_PARTITIONS, Target
from tests.chaos.hosts import ChaosHost
from tests.chaos.schedule import Fault
from tests.chaos.world import World
from tests.integration.cli import DAGGERS

from devstack import drivers, state

# Longer than the command waits for a gateway that does not answer.
REQUEST_S = 120.0
# Each is a reader of its own in three drivers.
MOST_TOPICS = 3


class MissedError(Exception):
    """There was nothing to be hit: it does not run now."""


@contextmanager
def process_killed(world: World, fault: Fault) -> Iterator[str]:
    """kill -9 of a process of the stack, which stays away until the round has ended."""
    for each in _process(world, fault.target):
        each.kill()
        each.wait(10)
    yield fault.target


@contextmanager
def process_stopped(world: World, fault: Fault) -> Iterator[str]:
    """SIGSTOP, and SIGCONT."""
    with _stopped(_process(world, fault.target)):
        yield fault.target


@contextmanager
def driver_killed(world: World, fault: Fault) -> Iterator[str]:
    """kill -9 of a driver's JVM, its Python half, or both."""
    hit, halves = _halves(world, fault.target)
    for half in halves:
        half.kill()
    yield hit


@contextmanager
def driver_stopped(world: World, fault: Fault) -> Iterator[str]:
    """SIGSTOP of a driver's JVM, its Python half, or both; and SIGCONT."""
    hit, halves = _halves(world, fault.target)
    with _stopped(halves):
        yield hit


@contextmanager
def host_killed(world: World, fault: Fault) -> Iterator[str]:
    """End all that runs on a host at once; it comes back in another boot, some time after the round.

    Raises: MissedError where it is away.
    """
    host = _host(world, fault)
    host.kill()
    host.due = time.monotonic() + fault.amount
    try:
        yield f"{fault.target}, and away for {fault.amount:g} s more"
    finally:
        host.due = time.monotonic() + fault.amount


@contextmanager
def agent_killed(world: World, fault: Fault) -> Iterator[str]:
    """Kill a host's scheduler, which stays away until the round has ended; drivers go on."""
    with _host(world, fault).without_scheduler():
        yield f"of {fault.target}"


@contextmanager
def agent_stopped(world: World, fault: Fault) -> Iterator[str]:
    """Stop a host's scheduler by SIGSTOP, and let it go on."""
    with _stopped(_host(world, fault).schedulers()):
        yield f"of {fault.target}"


@contextmanager
def disk_full(world: World, fault: Fault) -> Iterator[str]:
    """No room on the disk of the broker, of the checkpoints, or of the drivers' own files."""
    if fault.target != "kafka":
        sessions = [drivers.session(driver) for launches in world.drivers().values() for driver in launches]
        writers = [member for session in sessions for member in session.members()]
    else:
        writers = _process(world, fault.target)
    with world.disks.full(fault.target, writers):
        yield fault.target


@contextmanager
def disk_out_of_inodes(world: World, fault: Fault) -> Iterator[str]:
    """No further file on such a disk."""
    with world.disks.out_of_inodes(fault.target):
        yield fault.target


@contextmanager
def disk_read_only(world: World, fault: Fault) -> Iterator[str]:
    """No file on such a disk can be opened for writing."""
    with world.disks.read_only(fault.target):
        yield fault.target


@contextmanager
def connections_cut(world: World, fault: Fault) -> Iterator[str]:
    """Every connection of the drivers to a server, old and new."""
    proxy = world.proxies[fault.target]
    proxy.cut()
    try:
        yield f"to {fault.target}"
    finally:
        proxy.open()


@contextmanager
def connections_slowed(world: World, fault: Fault) -> Iterator[str]:
    """The same, held back."""
    with world.proxies[fault.target].slowed(fault.amount):
        yield f"to {fault.target}, {fault.amount:g} s each way"


@contextmanager
def clock_jumped(world: World, fault: Fault) -> Iterator[str]:
    """The clock of the whole stack but its drivers, there and back."""
    with world.clock.jumped(fault.amount):
        yield f"of the {fault.target}, {fault.amount:+g} s"


@contextmanager
def restart_asked_for(world: World, fault: Fault) -> Iterator[str]:
    """What a person does who has had enough of it; the gateway may be away, as everything else."""
    command = [DAGGERS, "restart", fault.target, "--state-dir", world.stack.state_dir]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as asked:
        try:
            yield f"of {fault.target}"
        finally:
            with suppress(subprocess.TimeoutExpired):
                asked.wait(REQUEST_S)
            asked.kill()


@contextmanager
def producer_ahead(world: World, fault: Fault) -> Iterator[str]:
    """A booking from the future, in event time and in Kafka time."""
    topic, partition = target = _newest_topic(world, fault)
    world.feeder.send_ahead(target)
    yield f"by {AHEAD_S // 60} minutes, into {topic}/{partition}"


@contextmanager
def partition_behind(world: World, fault: Fault) -> Iterator[str]:
    """Bookings of one partition come when this is over, in their order; those of the others come on."""
    topic, partition = target = _newest_topic(world, fault)
    with world.feeder.delayed(target):
        yield f"{topic}/{partition}"


@contextmanager
def transaction_open(world: World, fault: Fault) -> Iterator[str]:
    """A transaction that stays open in one partition, in front of its bookings, and is aborted.

    Raises: MissedError when the broker begins none.
    """
    topic, partition = target = _newest_topic(world, fault)
    try:
        abort = world.feeder.begin_transaction(target)
    except KafkaException as error:
        raise MissedError(f"no transaction begins: {error}") from error
    try:
        yield f"in {topic}/{partition}"
    finally:
        abort()


@contextmanager
def records_deleted(world: World, fault: Fault) -> Iterator[str]:
    """All records of one partition are deleted, whoever has not read them yet.

    Raises: MissedError when the broker does not.
    """
    topic, partition = target = _newest_topic(world, fault)
    try:
        until = world.feeder.delete(target)
    except (KafkaException, TimeoutError) as error:
        raise MissedError(f"nothing is deleted: {error}") from error
    yield f"up to {topic}/{partition}/{until}"


@contextmanager
def topic_added(world: World, _: Fault) -> Iterator[str]:
    """One more topic of a stream that all daggers read; once the round has ended, see `World.grow`.

    Raises: MissedError when there are enough.
    """
    if len(world.feeder.targets) >= MOST_TOPICS * ASKED_PARTITIONS:
        raise MissedError(f"the stream has {MOST_TOPICS} topics")
    world.growing.set()
    yield "when this is over"


Hit = Callable[[World, Fault], AbstractContextManager[str]]
HITS: dict[str, Hit] = {
    "process killed": process_killed,
    "process stopped": process_stopped,
    "driver killed": driver_killed,
    "driver stopped": driver_stopped,
    "host killed": host_killed,
    "agent killed": agent_killed,
    "agent stopped": agent_stopped,
    "disk full": disk_full,
    "disk out of inodes": disk_out_of_inodes,
    "disk read-only": disk_read_only,
    "connections cut": connections_cut,
    "connections slowed": connections_slowed,
    "clock jumped": clock_jumped,
    "restart asked for": restart_asked_for,
    "producer ahead": producer_ahead,
    "partition behind": partition_behind,
    "transaction open": transaction_open,
    "records deleted": records_deleted,
    "topic added": topic_added,
}


def _newest_topic(world: World, fault: Fault) -> Target:
    """The partition that a fault names by its number, of the topic of bookings that came last."""
    partition = int(fault.target.partition("/")[2])
    return next(target for target in reversed(world.feeder.targets) if target[1] == partition)


def _host(world: World, fault: Fault) -> ChaosHost:
    """Find the host that a fault hits. Raises: MissedError where it is away."""
    assert world.hosts is not None, "the schedule has hosts, and the world has none"
    host = world.hosts[fault.target]
    if not host.lives:
        raise MissedError(f"{fault.target} is away")
    return host


def _process(world: World, name: str) -> list[psutil.Process]:
    """What runs of a process of the stack; of hosts, their schedulers. Raises: MissedError."""
    if world.hosts is not None and name == "scheduler":
        return [scheduler for host in world.hosts for scheduler in host.schedulers()]
    now = state.load(world.stack.state_dir)
    started = now.running(name) if now is not None else None
    if started is None:
        raise MissedError(f"{name} does not run")
    return started.members()


def _halves(world: World, target: str) -> tuple[str, list[psutil.Process]]:
    """The halves of a driver that DAGGER/HALVES names: of the next dagger when that one has no driver now.

    Raises: MissedError.
    """
    wanted, _, which = target.partition("/")
    launches = world.drivers()
    names = list(launches)
    begin = names.index(wanted)
    for name in names[begin:] + names[:begin]:
        for driver in launches[name]:
            halves = world.halves(driver)
            if len(halves) == 2:
                hit = list(halves.values()) if which == "both" else [halves[which]]
                return f"{name} ({which})", hit
    raise MissedError("no driver runs")


@contextmanager
def _stopped(processes: list[psutil.Process]) -> Iterator[None]:
    try:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)
