"""An upgrade by Compose and the way back, line by line of docs/upgrade.md: recounted, and timed."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from tests.deploy.composed import ROOT, Deployment, Engine, deployed, lacks, say
from tests.deploy.composed_orders import (
    Feed,
    forged,
    generations,
    launched,
    order_class,
    recounted,
    restart_loops,
    running,
)
from tests.documents.pages import Page, slug
from tests.walks.earlier import BEFORE_EVENT_TIME

from daggerclient.client import Client
from daggerclient.errors import ClientError

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(bool(lacks()), reason=lacks() or "an engine can be had"),
]

OLD = BEFORE_EVENT_TIME
"""The version that is upgraded: what it deploys was changed in many places since."""


def git(folder: Path, *words: str) -> str:
    """Run git in a folder; return what it prints."""
    done = subprocess.run(
        ["git", "-C", folder, *words], check=True, capture_output=True, text=True, timeout=300
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Clone this repository at the version before."""
    found = subprocess.run(["git", "cat-file", "-e", f"{OLD}^{{commit}}"], cwd=ROOT, check=False)
    if found.returncode != 0:
        pytest.skip(f"this clone has no commit {OLD[:8]}: its history is shallow (git fetch --unshallow)")
    git(ROOT, "clone", "--quiet", "--no-checkout", "--shared", str(ROOT), str(tmp_path / "checkout"))
    git(tmp_path / "checkout", "checkout", "--quiet", OLD)
    return tmp_path / "checkout"


@pytest.fixture
def before(own_engine: Engine, checkout: Path, tmp_path: Path) -> Iterator[Deployment]:
    """Start a deployment of that version, from empty volumes."""
    (folder := tmp_path / "folder").mkdir()
    with deployed(own_engine, folder, name="daggers-upgrade", checkout=checkout) as ours:
        say(f"{OLD[:8]}, up from empty volumes: {ours.up():.0f} s")
        yield ours


@dataclass
class GatewayProbe:
    """Asks the gateway for a dagger all the time, as a command would, and knows when none was given."""

    ours: Deployment
    longest: float = 0.0
    """The longest time between two answers since it was set to 0, in seconds."""
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> GatewayProbe:
        for file in ("ca.pem", "token"):
            text = self.ours("exec", "-T", "api-gateway", "cat", f"/run/daggers/client/{file}")
            (self.ours.folder / file).write_text(text)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def pause(self) -> float:
        """Return the longest time between two answers since this was called before, in seconds."""
        longest, self.longest = self.longest, 0.0
        return longest

    def _run(self) -> None:
        answered = time.monotonic()
        while not self._stop.wait(0.5):
            if self._answers():
                answered = time.monotonic()
            self.longest = max(self.longest, time.monotonic() - answered)

    def _answers(self) -> bool:
        address = f"https://localhost:{self.ours.ports['DAGGERS_PORT']}"
        ca_file, token_file = self.ours.folder / "ca.pem", self.ours.folder / "token"
        try:
            with Client(address, ca_file=ca_file, token_file=token_file, patience_s=0) as client:
                client.find("coffee_first")
        except (ClientError, OSError):
            return False
        return True


def lines() -> tuple[list[str], list[str]]:
    """Read the commands of the page's section: forth from this old version, and back."""
    section = Page(ROOT / "docs" / "upgrade.md").section(slug("By Compose"))
    blocks = re.findall(r"^```console\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    forth, back = (
        [line.removeprefix("$ ").partition("  #")[0].strip() for line in block.splitlines()]
        for block in blocks
    )
    [export] = re.findall(r"`(docker compose run [^`]*--entrypoint[^`]*)`", section.replace("\n", " "))
    return [export if "log export" in line else line for line in forth], back


def run_line(line: str, ours: Deployment, *, new: str) -> float:
    """Run a line of the page in the checkout; return how long it took, in seconds."""
    line = re.sub(r"\bNEW\b", new, re.sub(r"\bOLD\b", OLD, line))
    begun = time.monotonic()
    done = subprocess.run(
        ["bash", "-c", line],
        check=False, text=True, timeout=3600, capture_output=True,
        cwd=ours.checkout, env={**ours.environment, "PWD": str(ours.checkout)},
    )  # fmt: skip
    assert done.returncode == 0, f"{line}: {done.stdout}\n{done.stderr}"
    return time.monotonic() - begun


def test_an_upgrade_by_compose_and_the_way_back_lose_and_double_nothing(before: Deployment) -> None:
    forth, back = lines()
    new = git(ROOT, "rev-parse", "HEAD")
    feed = Feed(before, order_class(before.folder))

    def step(title: str, action: Callable[[], object]) -> None:
        """Make a step that ends every driver, and say what paused."""
        over = generations(before)
        feed.pause()
        gateway.pause()
        begun = time.monotonic()
        action()
        took = time.monotonic() - begun
        again = took + running(before, over)
        say(
            f"{title}: {took:.0f} s; RUNNING {again:.0f} s after it began;"
            f" away: gateway {gateway.pause():.0f} s, Kafka {feed.pause():.0f} s"
        )

    with feed:
        since = launched(before, feed)
        with GatewayProbe(before) as gateway:
            time.sleep(60)
            for line in forth[:-1]:
                say(f"{line}: {run_line(line, before, new=new):.0f} s")
            paused = gateway.pause(), feed.pause()
            say(f"until then away: gateway {paused[0]:.0f} s, Kafka {paused[1]:.0f} s")
            step("the upgrade", lambda: run_line(forth[-1], before, new=new))
            refused = forged(before)
            time.sleep(60)
            # Three ends within eight minutes would be a loop, were they the driver's own.
            for number in (1, 2):
                step(f"restart {number}", lambda: before("restart"))
            time.sleep(30)  # a monitor says what it has to say
            loops = restart_loops(before)
            for line in back[:-1]:
                say(f"{line}: {run_line(line, before, new=new):.0f} s")
            step("the way back", lambda: run_line(back[-1], before, new=new))
            time.sleep(90)

    assert refused == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert loops == []
    assert recounted(before, feed, since)
