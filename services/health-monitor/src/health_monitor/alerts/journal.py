"""Keeps an outage until the log has it: in the process, and in a file for the next one."""

from __future__ import annotations

from pathlib import Path

from daggers.v1 import alerts_pb2
from google.protobuf.message import DecodeError

from chassis.files import replace_bytes
from chassis.logging import logger
from fleet.alerts.alert import PLATFORM
from fleet.alerts.ledger import Ledger
from health_monitor.alerts.outage import CONDITION, Journal, Outage


class KeptOutage:
    """The outage that the log does not hold yet."""

    def __init__(self, journal: Journal) -> None:
        """`journal`: where a restart finds it."""
        self.current: Outage | None = None
        """None when the log has all there is."""
        self._journal = journal

    def load(self, ledger: Ledger) -> None:
        """Go on with what an earlier process kept. Raises: OSError."""
        report = self._journal.load()
        if report is not None:
            self.current = Outage(report, ledger.alert(PLATFORM, CONDITION))

    def keep(self, kept: Outage | None) -> None:
        """Remember it. Told it is all the same where the journal fails."""
        self.current = kept
        try:
            self._journal.save(None if kept is None else kept.report)
        except OSError as error:
            logger().error("outage.save_failed", detail=str(error))


class FileJournal:
    """One file, replaced whole. With no directory it is kept by the process alone."""

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / "outage.pb"

    def load(self) -> alerts_pb2.OutageReported | None:
        """What an earlier process kept; None when nothing can be read. Raises: OSError."""
        if self._path is None or not self._path.exists():
            return None
        try:
            return alerts_pb2.OutageReported.FromString(self._path.read_bytes())
        except DecodeError as error:
            logger().error("outage.load_failed", file=str(self._path), detail=str(error))
            return None

    def save(self, report: alerts_pb2.OutageReported | None) -> None:
        """Keep it, and be sure of it. Raises: OSError."""
        if self._path is None:
            return
        if report is None:
            self._path.unlink(missing_ok=True)
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_bytes(self._path, report.SerializeToString(), durable=True, private=True)
