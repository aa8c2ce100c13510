"""The client of the gateway: what the command, the portal, bots and tests use. It prints nothing."""

from daggerclient.client import PATIENCE_S, AcceptedRequest, Client
from daggerclient.errors import (
    ClientError,
    InvalidFileError,
    NotCompletedError,
    NotReachedError,
    OutcomeUnknownError,
    RefusedError,
    SettingError,
    Silence,
    UnreachableError,
)

__all__ = [
    "PATIENCE_S",
    "AcceptedRequest",
    "Client",
    "ClientError",
    "InvalidFileError",
    "NotCompletedError",
    "NotReachedError",
    "OutcomeUnknownError",
    "RefusedError",
    "SettingError",
    "Silence",
    "UnreachableError",
]
