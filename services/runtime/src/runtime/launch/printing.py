"""Print the rows of log sinks to the log of the member that wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from chassis import lines
from runtime import members
from runtime.launch.report import Report
from runtime.sinks import Target, load


def print_rows(report: Report, targets: Mapping[str, Target]) -> None:
    """Print the lines of a batch's log sinks, up to their limits. targets: the sinks by name."""
    for sink, printed in sorted(report.printed.items()):
        target = targets[sink]
        lines_shown = [*printed[: load(target.kind).limit_of(target)]]
        if more := report.written[sink] - len(lines_shown):
            lines_shown.append(f"… and {more} more")
        now = datetime.now(UTC)
        members.write("".join(f"{lines.line(now, 'INFO', sink, row)}\n" for row in lines_shown))
