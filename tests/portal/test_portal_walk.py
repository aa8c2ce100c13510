"""The way from .proto files and a topic to a chart, in pages alone, on the real stack.

No command is called, but to take away what was made. A gateway of its own that everybody may ask stands on
the stack's log, and a portal before it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from conftest import Stack
from google.protobuf import message_factory
from playwright.sync_api import Browser, Page, expect
from tests.integration.cli import Cli
from tests.portal.conftest import Visit, visiting
from tests.portal.portal_stack import LAUNCH_MS, repeating, serving_stack

from protofiles import UploadedFile, compile_files

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1500)]  # a stack may start within it

QUIET_S = 75
"""Seconds that all waiting takes at most where nothing else runs, beside the minute of the window."""
PLACE = """\
syntax = "proto3";
package {package};
message Place {{ double latitude = 1; double longitude = 2; }}
"""
RIDE = """\
syntax = "proto3";
package {package};
import "google/protobuf/timestamp.proto";
import "{package}/place.proto";
enum State {{ UNKNOWN = 0; OPEN = 1; COMPLETED = 2; }}
// One ride.
message Ride {{
  string id = 1;
  State state = 2;
  Place place = 3;
  google.protobuf.Timestamp event_timestamp = 4;
}}
"""


@dataclass(frozen=True)
class UnregisteredTopic:
    """A beginner's belongings: files, and a topic that services write to."""

    files: list[Path]
    topic: str
    package: str

    @property
    def message(self) -> str:
        return f"{self.package}.Ride"


@pytest.fixture(scope="module")
def address(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a portal on the stack that asks for no login; give its address."""
    with serving_stack(stack, tmp_path_factory.mktemp("walk")) as at:
        yield at


@pytest.fixture
def visit(chromium: Browser, address: str) -> Iterator[Callable[..., Visit]]:
    """Opens a window before that portal."""
    yield from visiting(chromium, address)


@pytest.fixture
def world(stack: Stack, tmp_path: Path) -> Iterator[UnregisteredTopic]:
    """Files of a message that nobody has registered, and a topic to which its records come."""
    package = f"walk{uuid4().hex[:8]}"
    texts = {"place.proto": PLACE.format(package=package), "ride.proto": RIDE.format(package=package)}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    files = [UploadedFile(f"{package}/{name}", text.encode()) for name, text in texts.items()]
    kind = message_factory.GetMessages(compile_files(files).files.file)[f"{package}.Ride"]
    topic = f"{package}-rides"
    admin = AdminClient({"bootstrap.servers": stack.kafka})  # one that nobody has ends its requests
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    with feeding(stack.kafka, topic, kind):
        yield UnregisteredTopic([tmp_path / name for name in texts], topic, package)


@contextmanager
def feeding(kafka: str, topic: str, kind: Any) -> Iterator[None]:
    """Rides, ten a second, for as long as the block lasts."""
    producer = Producer({"bootstrap.servers": kafka})

    def ride(number: int, at: float) -> bytes:
        record = kind(id=f"r-{number}", state=1 + number % 2)
        record.event_timestamp.FromMilliseconds(round(at * 1000))
        encoded: bytes = record.SerializeToString()
        return encoded

    def feed(number: int) -> None:
        producer.produce(topic, ride(number, time.time()))
        producer.poll(0)

    for number in range(60):
        producer.produce(topic, ride(number, time.time() - 60 + number))
    producer.flush(30)
    try:
        with repeating(feed):
            yield
    finally:
        producer.flush(30)


def walk(page: Page, world: UnregisteredTopic, name: str) -> dict[str, float]:
    """Go the whole way; return how many seconds each step waited."""
    waited, begun = dict[str, float](), time.monotonic()

    def came(step: str) -> None:
        nonlocal begun
        waited[step] = time.monotonic() - begun
        begun = time.monotonic()

    page.get_by_role("link", name="Schemas").click()
    page.get_by_role("main").get_by_role("link", name="New schema").click()
    page.get_by_label("Protobuf files").set_input_files(world.files)
    expect(page.get_by_role("listitem").filter(has_text=world.message)).to_contain_text("One ride.")
    came("compiled")
    found = page.get_by_role("region", name="Topics that fit")
    chosen = found.get_by_role("radio", name=world.topic)
    expect(chosen).to_be_visible(timeout=LAUNCH_MS)
    expect(found.get_by_role("button", name="Look again")).to_be_visible(timeout=LAUNCH_MS)
    expect(chosen).to_be_checked()
    expect(page.get_by_role("region", name="Newest records").locator("pre").first).to_contain_text("r-")
    came("topic found, records seen")
    page.get_by_role("button", name="Register schema").click()
    page.get_by_role("button", name="Register stream").click()
    page.get_by_role("link", name="New dagger on it").click()
    came("stream registered")
    expect(page.locator(".cm-content")).to_contain_text("state AS tag_state")
    page.get_by_role("combobox", name="Cluster").select_option("local")  # others may have registered theirs
    page.get_by_placeholder("Name", exact=True).fill(name)
    expect(page.get_by_text("Ready to run")).to_be_visible()
    came("query checked")
    page.get_by_role("button", name="Review and create").click()
    page.get_by_role("button", name=f"Create {name}").click()
    expect(page.get_by_role("region", name="Steps")).to_contain_text("✓ Running", timeout=LAUNCH_MS)
    came("running")
    page.get_by_role("link", name=f"Open {name}").click()
    legend = page.get_by_role("region", name="Live rows").locator(".legend span")
    expect(legend).to_have_count(2, timeout=LAUNCH_MS)
    assert set(legend.all_inner_texts()) == {"OPEN", "COMPLETED"}
    came("on the chart")
    return waited


def test_somebody_comes_from_proto_files_to_a_chart_without_a_command(
    stack: Stack, visit: Callable[..., Visit], world: UnregisteredTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    name, cli = f"walk-{uuid4().hex[:8]}", Cli(stack.state_dir)
    page = visit().open("/", "Daggers")
    try:
        waited = walk(page, world, name)
    except AssertionError as error:
        error.add_note(f"The page: {page.locator('body').inner_text()[-3000:]}")
        error.add_note(f"{cli.try_('get', name)}")
        raise
    finally:
        page.goto("about:blank")  # it would ask for what is deleted
        cli.try_("delete", name, "--wait")
    with capsys.disabled():
        summary = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in waited.items())
        sys.stdout.write(f"\n{summary} (quietly within {QUIET_S} s and a window)\n")

    assert list(waited) == [
        "compiled", "topic found, records seen", "stream registered", "query checked", "running",
        "on the chart",
    ]  # fmt: skip
