"""The log: append, replay and follow records of protobuf events."""

from eventlog.kafka import KafkaLog
from eventlog.log import Log, LogDamaged, LogError, LogUnavailable, RecordTooLarge
from eventlog.memory import MemoryLog
from eventlog.record import Draft, Mark, Record, chained, read_record

__all__ = [
    "Draft",
    "KafkaLog",
    "Log",
    "LogDamaged",
    "LogError",
    "LogUnavailable",
    "Mark",
    "MemoryLog",
    "Record",
    "RecordTooLarge",
    "chained",
    "read_record",
]
