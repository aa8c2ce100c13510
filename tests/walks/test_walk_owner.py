"""An owner: Kafka and gateway by TLS; certificate, authority and token are replaced while clients work."""

from __future__ import annotations

import re
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.integration.cli import DAGGERS
from tests.integration.faults import until
from tests.integration.securedkafka import inherited, secured, services
from tests.walks.conftest import Say

from devstack import ports

pytestmark = [pytest.mark.integration, pytest.mark.long]

DEADLINE_S = 60
OLD, NEW = "0123456789abcdef0123", "fedcba9876543210fedc"


def pair(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for localhost that is its own authority, and its key: PEM files."""
    made = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", made[1], "-out", made[0], "-days", "1", "-subj", f"/CN={name}",
         "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True, timeout=DEADLINE_S,
    )  # fmt: skip
    return made


def moved(target: Path, text: str) -> None:
    """A file as an owner replaces it: written beside its place, and moved there."""
    (fresh := target.with_suffix(".new")).write_text(text)
    fresh.rename(target)


@dataclass
class Caller:
    """Somebody who registers one cluster after the other by the command, and follows the events meanwhile."""

    address: str
    authority: Path
    token: Path
    codes: list[int] = field(default_factory=list)
    """How each command ended."""
    _ended: threading.Event = field(default_factory=threading.Event)

    def command(self, *words: str) -> list[str]:
        """A command line."""
        return [str(DAGGERS), *words, "--gateway", self.address]

    def environment(self) -> dict[str, str]:
        """Where the secrets are."""
        return {
            **inherited(),
            "DAGGERS_CA_FILE": str(self.authority),
            "DAGGERS_TOKEN_FILE": str(self.token),
        }

    def run(self) -> None:
        """Work until it is ended."""
        while not self._ended.is_set():
            name = f"walk-{len(self.codes)}"
            words = self.command(
                "cluster", "register", name, "--kafka", "127.0.0.1:1", "--spark-master", "local[1]"
            )
            done = subprocess.run(
                words, env=self.environment(), capture_output=True, check=False, timeout=DEADLINE_S
            )
            self.codes.append(done.returncode)

    @contextmanager
    def working(self, events: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Around its work; the command that follows the events into a file."""
        worker = threading.Thread(target=self.run)
        with events.open("wb") as out:
            words = self.command("events", "--follow")
            follower = subprocess.Popen(words, env=self.environment(), stdout=out)
            worker.start()
            try:
                yield follower
            finally:
                self._ended.set()
                worker.join(DEADLINE_S)
                follower.terminate()
                follower.wait(DEADLINE_S)

    def works_on(self) -> None:
        """Two commands begin and end after this moment."""
        enough = len(self.codes) + 3  # one may be under way
        until(lambda: len(self.codes) >= enough, deadline_s=DEADLINE_S)


def shown(port: int) -> str:
    """The certificate that a new connection is shown."""
    return ssl.get_server_certificate(("localhost", port), timeout=DEADLINE_S).strip()


def test_certificate_authority_and_token_are_replaced_while_a_client_works(tmp_path: Path, say: Say) -> None:
    first, second = pair(tmp_path, "first"), pair(tmp_path, "second")
    names = ("cert", "key", "authority", "known", "mine")
    certificate, key, authority, known, mine = (tmp_path / name for name in names)
    for file, text in {
        certificate: first[0].read_text(), key: first[1].read_text(), authority: first[0].read_text(),
        known: f"owner:{OLD}\n", mine: OLD,
    }.items():  # fmt: skip
        moved(file, text)
    told = {"TLS_CERT_FILE": str(certificate), "TLS_KEY_FILE": str(key), "TOKEN_FILE": str(known)}
    (tmp_path / "kafka").mkdir()
    events = tmp_path / "events"
    with secured(tmp_path / "kafka") as kafka, services(tmp_path, kafka, **told) as port:
        until(lambda: ports.is_open(port), deadline_s=DEADLINE_S)
        caller = Caller(f"https://localhost:{port}", authority, mine)
        with caller.working(events) as follower:
            caller.works_on()

            # Who calls trusts both authorities before the gateway shows the new one's certificate.
            moved(authority, first[0].read_text() + second[0].read_text())
            caller.works_on()
            moved(key, second[1].read_text())
            moved(certificate, second[0].read_text())
            until(lambda: shown(port) == second[0].read_text().strip(), deadline_s=DEADLINE_S)
            moved(authority, second[0].read_text())
            caller.works_on()

            # The gateway takes both tokens before the caller has the new one.
            moved(known, f"owner:{OLD}\nowner:{NEW}\n")
            caller.works_on()
            moved(mine, NEW)
            caller.works_on()
            moved(known, f"owner:{NEW}\n")
            caller.works_on()
            moved(tmp_path / "stale", OLD)
            stale = Caller(caller.address, authority, tmp_path / "stale")
            refused = subprocess.run(
                stale.command("cluster", "list"), env=stale.environment(), capture_output=True, text=True,
                check=False, timeout=DEADLINE_S,
            )  # fmt: skip
            caller.works_on()
            until(lambda: set(registered(caller)) <= set(seen(events)), deadline_s=DEADLINE_S)
            follows = follower.poll() is None
    failed = len(caller.codes) - caller.codes.count(0)
    say(
        f"owner: certificate, authority and token replaced under {len(caller.codes)} commands over TLS,"
        f" {failed} failed; one watch has seen the registration of {len(seen(events))} clusters"
    )

    assert set(caller.codes) == {0}
    assert follows
    assert seen(events)[: len(caller.codes)] == registered(caller)
    assert (refused.returncode, "does not know this user" in refused.stderr) == (1, True)


def registered(caller: Caller) -> list[str]:
    """The clusters that its commands have registered so far."""
    return [f"walk-{number}" for number in range(len(caller.codes))]


def seen(events: Path) -> list[str]:
    """The clusters whose registration the watch has told, in its order."""
    return re.findall(r"\bwalk-\d+\b", events.read_text())
