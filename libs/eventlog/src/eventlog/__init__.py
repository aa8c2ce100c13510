"""The log: append, replay and follow records of protobuf events.

This module is pure: importing it loads no client and no event loop. `eventlog.kafka` and
`eventlog.memory` are logs, `eventlog.follower` keeps a fold at the end of one.
"""

from eventlog.log import Log, LogDamaged, LogError, LogReplaced, LogUnavailable, RecordTooLarge
from eventlog.record import Draft, LogPosition, Record, extend_history, read_record

__all__ = [
    "Draft",
    "Log",
    "LogDamaged",
    "LogError",
    "LogPosition",
    "LogReplaced",
    "LogUnavailable",
    "Record",
    "RecordTooLarge",
    "extend_history",
    "read_record",
]
