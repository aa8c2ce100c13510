"""The log: append, replay and follow records of protobuf events.

What stands here is pure: importing it loads no client and no event loop. `eventlog.kafka` and
`eventlog.memory` are logs.
"""

from eventlog.log import Log, LogDamaged, LogError, LogUnavailable, RecordTooLarge
from eventlog.record import Draft, Mark, Record, chained, read_record

__all__ = [
    "Draft",
    "Log",
    "LogDamaged",
    "LogError",
    "LogUnavailable",
    "Mark",
    "Record",
    "RecordTooLarge",
    "chained",
    "read_record",
]
