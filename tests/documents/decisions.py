"""The index of decisions, docs/decisions/README.md, from their titles and status.

`make decisions-index` writes it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.documents.pages import ROOT

FOLDER: Final = ROOT / "docs" / "decisions"
HEAD: Final = """# Decisions

Made by `make decisions-index` from the title and the status of each decision. One short page each: what was
decided, why, what else was tried, the price. A decision says what was true when it was taken; its status says
which later one has replaced it, wholly or in part. The design as it is: [architecture](../architecture.md).
"""
SUBSYSTEMS: Final = {
    "Control log": "`libs/eventlog`, `libs/fleet`: the one topic that all state is made of",
    "Specification": "`libs/spec`: the rule book of what a dagger may say",
    "SQL dialect": "`libs/daggersql`: from the text of a query to Spark SQL",
    "Decoding": "`services/runtime`: from the bytes of a record to columns",
    "Reader": "`services/runtime`: which records a batch has, and how Spark gets them",
    "Event time": "`services/runtime`: watermarks, late records, rows that are whole",
    "State": "`services/runtime`: checkpoints, leases, what Spark keeps",
    "Driver": "`services/runtime`: the process of a dagger, from its start to its end",
    "Sinks": "`services/runtime`, `libs/spec`: where rows go, and what becomes of those that are refused",
    "Quarantine": "`services/runtime`, `services/api-gateway`: records and rows that were set aside",
    "Replay": "`services/runtime`, `services/scheduler`: writing again what was set aside",
    "Preview": "`services/runtime`, `services/scheduler`: rows of a query before there is a dagger",
    "Cutover": "`libs/fleet`, `services/scheduler`: an edit without a gap in rows",
    "Scheduler": "`services/scheduler`: launches, their room, warm spares",
    "Hosts": "`services/scheduler`: what only the host of a driver can answer",
    "Gateway": "`services/api-gateway`: calls, and what is known of a dagger",
    "Access": "`libs/access`, `services/api-gateway`: who may do what, and what is audited",
    "Secrets and addresses": "`libs/chassis`, `libs/spec`: where secrets are, and where connections go",
    "Health and alerts": "`services/health-monitor`, `libs/fleet`: what is wrong, and who is told",
    "Telemetry": "`services/telemetry`, `libs/chassis`: dashboards and metrics",
    "Kafka clients": "`libs/kafka`: how every client of Kafka is made",
    "Portal": "`services/portal`: the pages",
    "Command line": "`cli`, `libs/client`, `devstack`: the command, and the embedded stack",
    "Deployment": "`deploy/compose`, `devstack`: how services are set up and started",
    "Project": "What holds for all members",
}
"""What a decision can be about: its name in titles, and where that is."""

_TITLE = re.compile(r"# (\d+)\. ([^:]+): (.+)")
_STATUS = re.compile(r"Status: (accepted|replaced by|replaced in part by)((?: .+)?)")
_LATER = re.compile(r"\[(\d+)\]\(([^)]+)\)")


@dataclass(frozen=True)
class Decision:
    """One decision: what its title, its status and its text say."""

    file: str
    number: int
    subsystem: str
    sentence: str
    status: str
    """accepted, replaced by, or replaced in part by."""
    later: tuple[tuple[int, str], ...]
    """Number and file of each decision that replaces it."""
    body: str

    def __str__(self) -> str:
        """Its line in the index."""
        later = ", ".join(str(number) for number, _ in self.later)
        return f"* [{self.number}]({self.file}): {self.sentence}" + (
            f" *({self.status} {later})*" if later else ""
        )


def parse(file: str, text: str) -> Decision:
    """Read a decision. Raises ValueError that names the file and the line that is not as it should be."""
    title, _, rest = text.partition("\n\n")
    status, _, body = rest.partition("\n\n")
    titled, stated = _TITLE.fullmatch(title), _STATUS.fullmatch(" ".join(status.split()))
    if titled is None:
        raise ValueError(f"{file} does not begin with `# NUMBER. Subsystem: decision`, but with {title!r}")
    if stated is None:
        raise ValueError(
            f"{file} has no status below its title: accepted, replaced by or replaced in part by"
        )
    later = tuple((int(number), name) for number, name in _LATER.findall(stated[2]))
    return Decision(file, int(titled[1]), titled[2], titled[3], stated[1], later, body)


def decisions() -> list[Decision]:
    """Read every decision, by number."""
    return [_read(path) for path in sorted(FOLDER.glob("0*.md"))]


def _read(path: Path) -> Decision:
    return parse(path.name, path.read_text(encoding="utf-8"))


def _sections(known: list[Decision]) -> Iterator[str]:
    for subsystem, about in SUBSYSTEMS.items():
        lines = [str(decision) for decision in known if decision.subsystem == subsystem]
        yield "\n".join([f"## {subsystem}", f"{about}.", "", *lines, ""])


def text() -> str:
    """Make the index, as Markdown."""
    return "\n".join([HEAD, *_sections(decisions())])


if __name__ == "__main__":
    sys.stdout.write(text())
