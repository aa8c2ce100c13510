"""Keeps an outage until the log has it: in memory, and in a file for the next process."""

from __future__ import annotations

from pathlib import Path

from daggers.v1 import alerts_pb2
from google.protobuf.message import DecodeError

from chassis.files import replace_bytes
from chassis.logging import logger
from fleet.alerts.alert import PLATFORM
from fleet.alerts.ledger import Ledger
from health_monitor.alerts.outage import Journal, Outage
from health_monitor.conditions.kafka_away import CONDITION


class PendingOutage:
    """Outage that the log does not hold yet."""

    def __init__(self, journal: Journal) -> None:
        """`journal`: stores the outage for a restart."""
        self.current: Outage | None = None
        """None while there is none that the log lacks."""
        self._journal = journal

    def load(self, ledger: Ledger) -> None:
        """Restore the outage of an earlier process. Raises: OSError."""
        report = self._journal.load()
        if report is not None:
            self.current = Outage(report, ledger.alert(PLATFORM, CONDITION))

    def keep(self, outage: Outage | None) -> None:
        """Replace the outage; None: there is none any more. A failing journal is logged and does not raise:
        receivers must be notified all the same.
        """
        self.current = outage
        try:
            self._journal.save(None if outage is None else outage.report)
        except OSError as error:
            logger().error("outage.save_failed", detail=str(error))


class FileJournal:
    """Journal in one file, replaced whole. Without a directory it stores nothing."""

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / "outage.pb"

    def load(self) -> alerts_pb2.OutageReported | None:
        """Read the report of an earlier process; None without one, or when it is damaged. Raises: OSError."""
        if self._path is None or not self._path.exists():
            return None
        try:
            return alerts_pb2.OutageReported.FromString(self._path.read_bytes())
        except DecodeError as error:
            logger().error("outage.load_failed", file=str(self._path), detail=str(error))
            return None

    def save(self, report: alerts_pb2.OutageReported | None) -> None:
        """Write the report durably; None: remove the file. Raises: OSError."""
        if self._path is None:
            return
        if report is None:
            self._path.unlink(missing_ok=True)
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_bytes(self._path, report.SerializeToString(), durable=True, private=True)
