"""What a machine lacks for tests: which are skipped without it, and what installs it.

A pytest plugin. The end of a run has one list of what was skipped, with the line that installs what is a
package. With STRICT=1 in the environment a skip that no pattern here knows fails the run.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Lacking:
    """Something that a machine may be without."""

    pattern: str
    """A regular expression of the reasons that tests give."""
    remedy: str
    """What a person does about it; empty where Debian's packages are all."""
    packages: tuple[str, ...] = ()
    """Debian's packages that bring it."""


KNOWN = (
    Lacking(r"DAGGERS_INFLUXD2 names no influxd", "DAGGERS_INFLUXD2=PATH of an influxd 2.x (docs/tested.md)"),
    Lacking(r"no YARN: no Java compiler", "", ("openjdk-17-jdk-headless",)),
    Lacking(r"no YARN", "make yarn, where Maven's repository answers"),
    Lacking(r"no Kubernetes", "make kubernetes, where Go's module proxy answers"),
    Lacking(r"no Alertmanager", "make alertmanager, where Go's module proxy answers"),
    Lacking(r"history is shallow", "git fetch --unshallow"),
    Lacking(r"root|tmpfs may be mounted|cgroup|mount namespace", "as root, on a machine of one's own"),
    Lacking(r"tests.searchservers|no Elasticsearch", "make opensearch"),
    Lacking(r"no Redis", "make redis"),
    Lacking(r"no PostgreSQL", "make postgres"),
    Lacking(r"this PostgreSQL has no TLS", "", ("postgresql",)),
    Lacking(r"no pgbouncer", "", ("pgbouncer",)),
    Lacking(r"reaches no other host", "an address beside loopback for this machine"),
    Lacking(r"no openssl|openssl is not", "", ("openssl",)),
    Lacking(r"docker compose", "Docker with its compose (operations.md)"),
    Lacking(r"no Go on", "", ("golang-go",)),
    Lacking(r"no java|versitygw", "make setup, where the packages' registries answer"),
    Lacking(r"found its brokers again by itself", "nothing: run it again"),
    Lacking(r"no Maven, or no Java compiler", "", ("maven", "openjdk-17-jdk-headless")),
    Lacking(r"no C compiler", "", ("gcc", "libc6-dev")),
)


def lacking(reason: str) -> Lacking | None:
    """What the machine lacks where a test gives this reason; None for a reason that nobody listed."""
    return next((known for known in KNOWN if re.search(known.pattern, reason, re.IGNORECASE)), None)


def summary(reasons: Iterable[str]) -> list[str]:
    """The list of what was skipped, as lines, with what installs it."""
    by_reason = Counter(reasons)
    found = [lacking(reason) for reason in by_reason]
    lines = [
        f"{count:5} skipped: {reason}" + (f" -> {known.remedy}" if known is not None and known.remedy else "")
        for (reason, count), known in sorted(
            zip(by_reason.items(), found, strict=True), key=lambda each: each[0]
        )
    ]
    packages = sorted({package for known in found if known is not None for package in known.packages})
    return [*lines, f"apt-get install {' '.join(packages)}"] if packages else lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the list."""
    if lines := summary(_reasons(terminalreporter)):
        terminalreporter.section("what this machine lacks")
        terminalreporter.write_line("\n".join(lines))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With STRICT=1, fail a run that skipped what nobody listed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or os.environ.get("STRICT", "") in ("", "0"):  # noqa: TID251 - an option of `make test`
        return
    unknown = sorted({reason for reason in _reasons(reporter) if lacking(reason) is None})
    if unknown and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(
            "\nSTRICT: skipped for a reason that tests/skips.py does not list:\n" + "\n".join(unknown)
        )
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _reasons(reporter: pytest.TerminalReporter) -> list[str]:
    reports = reporter.stats.get("skipped", [])
    return [
        report.longrepr[2].removeprefix("Skipped: ") for report in reports if type(report.longrepr) is tuple
    ]
