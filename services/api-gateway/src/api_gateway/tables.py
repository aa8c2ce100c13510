"""The tables of the projection. Their content is a function of the control topic, byte for byte."""

from __future__ import annotations

from sqlalchemy import LargeBinary, String
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
    shape: str
    """Digest of the tables and messages it was made with."""


class DaggerRow(SQLModel, table=True):
    """A dagger that is not deleted."""

    __tablename__ = "daggers"

    name: str = Field(primary_key=True, sa_type=_Name)
    team: str = Field(index=True)
    cluster: str = Field(index=True)
    phase: str = Field(index=True)
    version: int
    sequence: int
    data: bytes = Field(sa_type=LargeBinary)
    """daggers.v1.Dagger."""


class ClusterRow(SQLModel, table=True):
    """A registered cluster."""

    __tablename__ = "clusters"

    name: str = Field(primary_key=True, sa_type=_Name)
    version: int
    sequence: int
    data: bytes = Field(sa_type=LargeBinary)
    """daggers.v1.Cluster."""


class StreamRow(SQLModel, table=True):
    """A registered stream."""

    __tablename__ = "streams"

    name: str = Field(primary_key=True, sa_type=_Name)
    message: str = Field(index=True)
    version: int
    sequence: int
    data: bytes = Field(sa_type=LargeBinary)
    """daggers.v1.Stream."""


class ReferenceRow(SQLModel, table=True):
    """A registered reference table."""

    __tablename__ = "reference_tables"

    name: str = Field(primary_key=True, sa_type=_Name)
    version: int
    sequence: int
    data: bytes = Field(sa_type=LargeBinary)
    """daggers.v1.ReferenceTable."""


class MessageRow(SQLModel, table=True):
    """A registered message, and which registration holds its files."""

    __tablename__ = "messages"

    name: str = Field(primary_key=True, sa_type=_Name)
    version: int
    sequence: int = Field(index=True)
    """Of the registration: `SchemaRow.sequence`."""


class SchemaRow(SQLModel, table=True):
    """The files of one registration."""

    __tablename__ = "schemas"

    sequence: int = Field(primary_key=True)
    data: bytes = Field(sa_type=LargeBinary)
    """daggers.v1.Schema."""


class AnswerRow(SQLModel, table=True):
    """What a request was answered."""

    __tablename__ = "answers"

    request_id: str = Field(primary_key=True)
    sequence: int = Field(index=True)
    digest: bytes = Field(sa_type=LargeBinary)
    version: int
    code: str
    """Empty when it was accepted."""
    reason: str
    detail: str


CONTENT: tuple[type[SQLModel], ...] = (
    DaggerRow,
    ClusterRow,
    StreamRow,
    ReferenceRow,
    MessageRow,
    SchemaRow,
    AnswerRow,
)
