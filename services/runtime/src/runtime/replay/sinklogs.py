"""Check that nothing waits in the log of a sink before a replay writes there: it is older, and comes first.

Else what waits would take the place of what a replay has corrected.
"""

from __future__ import annotations

from daggers.v1 import spec_pb2

from runtime.errors import external
from runtime.spool.log import TopicAddress, find_sinks, topic_of


class SinkLogs:
    """The logs of the sinks of one dagger, for one attempt of a replay."""

    def __init__(self, spec: spec_pb2.JobSpec) -> None:
        self._dagger = spec.dagger
        self._address = spec.platform
        self._platform = spec.platform.SerializeToString(deterministic=True)
        self._empty: set[str] = set()

    def check_empty(self, sink: str) -> None:
        """Check that a sink has all rows that came before; what comes later is newer than any replayed row.

        Raises: JobError, which passes as soon as it has.
        """
        if sink in self._empty:
            return
        topic = topic_of(self._dagger, sink)
        if self._has_batch(sink, topic):
            detail = (
                f"Rows of it wait in {topic}, and come first: a replay waits until the dagger has written"
                " them, which it does while it runs and the sink takes rows."
            )
            raise external("SPOOL_NOT_EMPTY", detail, retryable=True)
        self._empty.add(sink)

    def _has_batch(self, sink: str, topic: str) -> bool:
        """Tell whether there is a log with a marker: rows without one are left by a kill, and of no batch.

        A driver without rights to logs finds none, where asking for one would be refused. Raises: JobError.
        """
        if sink not in find_sinks(self._address, self._dagger):
            return False
        log = TopicAddress(self._platform, topic).open()
        return any(record.is_marker for _, record in log.read(*log.bounds()))
