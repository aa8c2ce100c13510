"""Tables of the projection. Their content is a function of the control topic, byte for byte."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Index, LargeBinary, String, text
from sqlmodel import Field, SQLModel

# Names sort by their bytes on every database; PostgreSQL would use the locale's order.
_Name = String().with_variant(String(collation="C"), "postgresql")


class ProjectionRow(SQLModel, table=True):
    """The position of the projection: one row, changed in the same transaction as the others."""

    __tablename__ = "projection"

    id: int = Field(default=1, primary_key=True)
    applied: int
    """Sequence of the newest applied record; -1 before the first."""
    history: bytes
    """Digest of all records up to it, which identifies the log."""
    anchors: str
    """Earlier positions, SEQUENCE:HISTORY each: the records after the first identify the log."""
    checksum: bytes
    """Sum of the digests of all rows of the snapshot."""
    seal: bytes
    """Digest of the columns above."""
    shape: str
    """Digest of the tables, messages and code that wrote it."""


class SnapshotRow(SQLModel, table=True):
    """A part of the fold's state: see fleet.snapshot.entries."""

    __tablename__ = "snapshot"

    key: str = Field(primary_key=True, sa_type=_Name)
    digest: bytes = Field(sa_type=LargeBinary)
    """Digest of key and data."""
    data: bytes = Field(sa_type=LargeBinary)


class DaggerRow(SQLModel, table=True):
    """A dagger that is not deleted."""

    __tablename__ = "daggers"

    name: str = Field(primary_key=True, sa_type=_Name)
    team: str = Field(index=True)
    cluster: str = Field(index=True)
    phase: str = Field(index=True)
    text: str
    """Text that people search a dagger by, beside its name, team and cluster; in lower case."""
    version: int
    sequence: int
    data: bytes = Field(sa_type=LargeBinary)
    """A serialised daggers.v1.Dagger."""


TABLES: tuple[type[SQLModel], ...] = (ProjectionRow, SnapshotRow, DaggerRow)
"""Tables of the projection."""

FORMER: tuple[str, ...] = ("answers", "schemas", "clusters", "streams", "reference_tables", "messages")
"""Tables of earlier versions, which are dropped."""


class PartitionRow(SQLModel, table=True):
    """Position in a partition of `daggers.quarantine`, changed in the transaction that adds its rows."""

    __tablename__ = "quarantine_partitions"

    partition: int = Field(primary_key=True)
    next: int = Field(sa_type=BigInteger)
    """Offset of the next record to read."""
    last: bytes = Field(sa_type=LargeBinary)
    """Digest of the record before it, which identifies the topic among others of its name."""
    shape: str
    """Digest of the tables and the code that wrote it."""


_REQUARANTINED: Final = text('first < "offset"')


class QuarantineRow(SQLModel, table=True):
    """A quarantined record, and the outcome of its replays."""

    __tablename__ = "quarantine"
    __table_args__ = (
        Index("quarantine_id", "dagger", "id", unique=True),
        # covers the query for the newest records of a dagger's launches, in its order
        Index(
            "quarantine_newest",
            *("dagger", "time_ms", "offset", "partition", "generation", "state", "resolved"),
            *("stage", "reason", "sink", "set_ms"),
        ),
        Index(
            "quarantine_groups",
            *("dagger", "stage", "reason", "sink", "state", "generation", "resolved", "time_ms", "set_ms"),
        ),
        # a partial index: few records were quarantined again
        Index(
            "quarantine_again",
            "dagger",
            "first",
            sqlite_where=_REQUARANTINED,
            postgresql_where=_REQUARANTINED,
        ),
    )

    partition: int = Field(primary_key=True)
    offset: int = Field(primary_key=True, sa_type=BigInteger)
    """Offset of the record; where it was quarantined several times, the last offset."""
    first: int = Field(sa_type=BigInteger)
    """Offset where it was quarantined first; -1 where that is in another partition."""
    dagger: str = Field(sa_type=_Name)
    id: str
    """Its id: `daggerspec.setaside.id_of`."""
    generation: int = Field(sa_type=BigInteger)
    time_ms: int = Field(sa_type=BigInteger)
    """Kafka's timestamp in ms, which decides its retention."""
    set_ms: int = Field(sa_type=BigInteger)
    """Time of the quarantine in ms: `daggerspec.setaside.set_ms`."""
    stage: str
    reason: str
    sink: str
    truncated: bool
    state: int
    """Fields of api_gateway.quarantine.state.RecordState, down to `resolved`."""
    attempts: int
    why_reason: str
    why: str
    replay: str
    resolved: int = Field(sa_type=BigInteger)
    data: bytes = Field(sa_type=LargeBinary)
    """A serialised daggers.v1.Quarantined, as in the topic."""


class OutcomeRow(SQLModel, table=True):
    """The outcome of one record in one replay."""

    __tablename__ = "quarantine_outcomes"
    __table_args__ = (Index("quarantine_outcomes_of", "dagger", "replay", "outcome"),)

    dagger: str = Field(primary_key=True, sa_type=_Name)
    replay: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    outcome: int
    partition: int
    offset: int = Field(sa_type=BigInteger)
