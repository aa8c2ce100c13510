"""The control topic is damaged, in every way a topic can be: nothing is written or launched, a running dagger
goes on, everybody says what to do, and what the runbook says brings all of it back."""

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from conftest import DAGGERS, Stack, running_stack
from tests.integration.bookings import Bookings, booking, counted, recount, spread
from tests.integration.cli import Cli, Outcome
from tests.integration.faults import driver, influxql, kill, loaded, process, records, until, up

pytestmark = [pytest.mark.integration, pytest.mark.long]

CONTROL = "daggers.control"
FOREVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
SERVICES = ("gateway", "scheduler", "health-monitor")
LOAD = 20 * (os.cpu_count() or 1)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack of this module's own: its broker is maltreated."""
    with running_stack(tmp_path_factory.mktemp("damage")) as stack:
        yield stack


@dataclass(frozen=True)
class Running:
    """A dagger that runs on the stack, and its input."""

    stack: Stack
    cli: Cli
    name: str
    bookings: Bookings


@pytest.fixture(scope="module")
def running(own: Stack, tmp_path_factory: pytest.TempPathFactory) -> Running:
    cli = Cli(own.state_dir)
    bookings = Bookings(own.kafka, cli)
    name, file = bookings.dagger(tmp_path_factory.mktemp("files"), start="latest")
    cli("apply", "-f", file, "--wait")
    return Running(own, cli, name, bookings)


def start(state_dir: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Start what is missing of a stack, if it can be started."""
    return subprocess.run(
        [DAGGERS, "local", "up", "--detach", "--state-dir", state_dir, *options],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def recreated(stack: Stack) -> None:
    """Deleted, and made again by whoever came first."""
    delete(stack)
    create(stack)


def foreign(stack: Stack) -> None:
    """The history of somebody else's platform under the same name, longer than ours."""
    length = len(records(stack.kafka, CONTROL))
    delete(stack)
    create(stack)
    producer = Producer({"bootstrap.servers": stack.kafka})
    for number in range(length + 7):
        producer.produce(CONTROL, b"\x0a\x00", b"theirs", headers=[("ce_id", f"{number}".encode())])
    assert producer.flush(30) == 0


def truncated(stack: Stack) -> None:
    """The last batch is missing on the broker's disk, as after a crash without fsync."""
    kill(stack, "kafka")
    segment = segment_of(stack)
    begin, _ = last_batch(segment.read_bytes())
    with segment.open("r+b") as file:
        file.truncate(begin)
    start(stack.state_dir, "--only", "kafka").check_returncode()


def corrupted(stack: Stack) -> None:
    """A byte of the last batch has changed on the broker's disk."""
    broker = process(stack, "kafka")
    broker.terminate()
    broker.wait(60)
    segment = segment_of(stack)
    content = bytearray(segment.read_bytes())
    _, end = last_batch(content)
    content[end - 1] ^= 0xFF
    segment.write_bytes(content)
    start(stack.state_dir, "--only", "kafka").check_returncode()


@pytest.mark.parametrize(
    ("damage", "options"),
    [
        (recreated, ()),
        (foreign, ("--recreate",)),
        (truncated, ("--recreate",)),  # the scheduler may have written behind the loss before it noticed
        (corrupted, ("--recreate",)),
    ],
)
def test_a_damaged_control_topic_stops_nobody_who_runs_and_is_restored_as_it_was(
    running: Running, tmp_path: Path, damage: Callable[[Stack], None], options: tuple[str, ...]
) -> None:
    stops_nobody_and_is_restored(running, tmp_path, damage, options)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("damage", [truncated, corrupted])
def test_so_it_is_on_a_machine_that_has_twenty_times_as_much_to_do_as_it_can(
    running: Running, tmp_path: Path, damage: Callable[[Stack], None]
) -> None:
    with loaded(LOAD):
        stops_nobody_and_is_restored(running, tmp_path, damage, ("--recreate",))


def stops_nobody_and_is_restored(
    running: Running, tmp_path: Path, damage: Callable[[Stack], None], options: tuple[str, ...]
) -> None:
    stack, cli, name = running.stack, running.cli, running.name
    file = tmp_path / "control.jsonl"
    before = cli.until(name, lambda dagger: dagger["phase"] == "RUNNING")
    (session,) = driver(stack, name)
    exported = cli("log", "export", file)
    history = content(stack)

    damage(stack)
    shown, said = damaged(cli, name)
    refused = cli.try_("stop", name)
    until(lambda: not alive(stack, "scheduler"))
    again = start(stack.state_dir)  # a scheduler that is started again knows it too
    rows = fed(running)
    (survivor,) = driver(stack, name)

    for service in SERVICES:
        if alive(stack, service):
            kill(stack, service)
    restored = cli("log", "restore", file, *options)
    up(stack)
    after = cli.until(name, lambda dagger: dagger["phase"] == "RUNNING")
    healthy = cli.try_("get", name)

    assert shown["generation"] == before["generation"]
    assert "the gateway is degraded" in said
    assert refused.json["error"]["reason"] == "LOG_DAMAGED"
    assert again.returncode == 1
    assert rows
    assert survivor == session
    assert restored["kept"] + restored["written"] == exported["records"] == len(history)
    assert restored["written"] > 0
    assert content(stack)[: len(history)] == history
    assert (after["generation"], list(driver(stack, name))) == (before["generation"], [session])
    assert "degraded" not in healthy.err


def fed(running: Running) -> list[dict[str, Any]]:
    """The rows of new events, once they are there and are as recounted."""
    known = written(running)
    first = 1_200 * (len(known) + 1)  # windows of their own, later than all before
    events = spread(range(first, first + 180), cities=2)
    running.bookings.write([booking(second, city_id=city) for second, city in events])
    until(lambda: len(written(running)) >= len(known) + 6)
    rows = [row for row in written(running) if row not in known]
    assert counted(rows) == recount(events)
    return rows


def written(running: Running) -> list[dict[str, Any]]:
    """The dagger's rows as its sink has them: the scheduler, which reads them for others, is not there."""
    text = f'SELECT tag_city_id, num_of_bookings FROM "{running.name}"'
    return [
        {"window_timestamp": at, "tags": {"tag_city_id": city}, "fields": {"num_of_bookings": count}}
        for series in influxql(running.stack, text).get("series", [])
        for at, city, count in series["values"]
    ]


def damaged(cli: Cli, name: str) -> tuple[dict[str, Any], str]:
    """The dagger as it is shown once the damage is known, and what the command says of it."""
    found: list[Outcome] = []

    def known() -> bool:
        found.append(cli.try_("get", name))
        return "docs/operations.md" in found[-1].err

    until(known)
    return found[-1].json, found[-1].err


def alive(stack: Stack, name: str) -> bool:
    """Whether the stack's process of that name runs."""
    return any(each["name"] == name for each in stack.status()["processes"])


def content(stack: Stack) -> list[tuple[int | None, bytes | None, bytes | None, Any]]:
    """Every record of the control topic: sequence, key, value, headers."""
    return [
        (record.offset(), record.key(), record.value(), record.headers())
        for record in records(stack.kafka, CONTROL)
    ]


def delete(stack: Stack) -> None:
    admin = AdminClient({"bootstrap.servers": stack.kafka})
    admin.delete_topics([CONTROL])[CONTROL].result(30)
    until(lambda: CONTROL not in admin.list_topics(timeout=30).topics)


def create(stack: Stack) -> None:
    """An empty control topic; one that a service was quicker to make is as good."""
    admin = AdminClient({"bootstrap.servers": stack.kafka})
    done = admin.create_topics([NewTopic(CONTROL, 1, 1, config=FOREVER)])[CONTROL]
    assert done.exception(30) is None or "already exists" in str(done.exception())
    until(lambda: CONTROL in admin.list_topics(timeout=30).topics)


def segment_of(stack: Stack) -> Path:
    """The file that holds the control topic's records."""
    (segment,) = stack.state_dir.rglob(f"{CONTROL}-0/*.log")
    return segment


def last_batch(content: bytes | bytearray) -> tuple[int, int]:
    """Where the last batch of a segment begins and ends."""
    begin = end = 0
    while end + 12 <= len(content) and (size := int.from_bytes(content[end + 8 : end + 12], "big")):
        begin, end = end, end + 12 + size
    return begin, end
