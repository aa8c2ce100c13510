"""The tables of the projection. Their content is a function of the control topic, byte for byte."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Index, LargeBinary, String, text
from sqlmodel import Field, SQLModel

# Names sort by their bytes on every database; PostgreSQL would use the locale's order.
_Name = String().with_variant(String(collation="C"), "postgresql")


class ProjectionRow(SQLModel, table=True):
    """How far the projection is: one row, changed in the transaction that changes the others."""

    __tablename__ = "projection"

    id: int = Field(default=1, primary_key=True)
    applied: int
    """Sequence of the newest record in it; -1 before the first."""
    history: bytes
    """Digest of every record up to it: which log this was made from."""
    anchors: str
    """Earlier positions, SEQUENCE:HISTORY each: the records behind the first tell this log from others."""
    checksum: bytes
    """Sum of the digests of all rows of the snapshot."""
    seal: bytes
    """Digest of the columns above."""
    shape: str
    """Digest of the tables, messages and code it was made with."""


class SnapshotRow(SQLModel, table=True):
    """A part of the fold's state: see fleet.snapshot.entries."""

    __tablename__ = "snapshot"

    key: str = Field(primary_key=True, sa_type=_Name)
    digest: bytes = Field(sa_type=LargeBinary)
    """Of the key and the data."""
    data: bytes = Field(sa_type=LargeBinary)


class DaggerRow(SQLModel, table=True):
    """A dagger that is not deleted."""

    __tablename__ = "daggers"

    name: str = Field(primary_key=True, sa_type=_Name)
    team: str = Field(index=True)
    cluster: str = Field(index=True)
    phase: str = Field(index=True)
    text: str
    """What people look for it by, beside its name, team and cluster, in lower case."""
    version: int
    sequence: int
    data: bytes = Field(sa_type=LargeBinary)
    """daggers.v1.Dagger."""


TABLES: tuple[type[SQLModel], ...] = (ProjectionRow, SnapshotRow, DaggerRow)
"""Of the projection."""

FORMER: tuple[str, ...] = ("answers", "schemas", "clusters", "streams", "reference_tables", "messages")
"""Tables that earlier versions had."""


class PartitionRow(SQLModel, table=True):
    """How far a partition of `daggers.quarantine` is read; changed in the transaction that adds its rows."""

    __tablename__ = "quarantine_partitions"

    partition: int = Field(primary_key=True)
    next: int = Field(sa_type=BigInteger)
    """Offset of the record to be read next."""
    last: bytes = Field(sa_type=LargeBinary)
    """Digest of the record before it: tells the topic from another of its name."""
    shape: str
    """Digest of the tables and the code they were made with."""


_AGAIN: Final = text('first < "offset"')


class QuarantineRow(SQLModel, table=True):
    """A record that was set aside, and what has become of it."""

    __tablename__ = "quarantine"
    __table_args__ = (
        Index("quarantine_id", "dagger", "id", unique=True),
        # The newest of a dagger's launches are chosen and read from the index alone, and in its order.
        Index(
            "quarantine_newest",
            *("dagger", "time_ms", "offset", "partition", "generation", "state", "resolved"),
            *("stage", "reason", "sink", "set_ms"),
        ),
        Index(
            "quarantine_groups",
            *("dagger", "stage", "reason", "sink", "state", "generation", "resolved", "time_ms", "set_ms"),
        ),
        # Of the few that were set aside again, and only of them.
        Index("quarantine_again", "dagger", "first", sqlite_where=_AGAIN, postgresql_where=_AGAIN),
    )

    partition: int = Field(primary_key=True)
    offset: int = Field(primary_key=True, sa_type=BigInteger)
    """Where it stands; of one that was set aside several times, the last place."""
    first: int = Field(sa_type=BigInteger)
    """The offset of its first place; -1 where that is in another partition."""
    dagger: str = Field(sa_type=_Name)
    id: str
    """Its id: `daggerspec.setaside.id_of`."""
    generation: int = Field(sa_type=BigInteger)
    time_ms: int = Field(sa_type=BigInteger)
    """Kafka's timestamp: retention goes by it."""
    set_ms: int = Field(sa_type=BigInteger)
    """When it was set aside: `daggerspec.setaside.set_ms`."""
    stage: str
    reason: str
    sink: str
    truncated: bool
    state: int
    """api_gateway.quarantine.state.Became, and all below."""
    attempts: int
    why_reason: str
    why: str
    replay: str
    resolved: int = Field(sa_type=BigInteger)
    data: bytes = Field(sa_type=LargeBinary)
    """daggers.v1.Quarantined, as it stands in the topic."""


class OutcomeRow(SQLModel, table=True):
    """What a replay made of one record."""

    __tablename__ = "quarantine_outcomes"
    __table_args__ = (Index("quarantine_outcomes_of", "dagger", "replay", "outcome"),)

    dagger: str = Field(primary_key=True, sa_type=_Name)
    replay: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    outcome: int
    partition: int
    offset: int = Field(sa_type=BigInteger)
