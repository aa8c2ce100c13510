"""Keeps an outage in a file until the log has it."""

from __future__ import annotations

from pathlib import Path

from daggers.v1 import alerts_pb2
from google.protobuf.message import DecodeError

from chassis.files import replace_bytes
from chassis.logging import logger


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
            logger().error("outage not read", file=str(self._path), detail=str(error))
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
