"""Callbacks of receivers: what somebody does at a receiver comes back as a signed request. Pure.

This folder is the registry: `callbacks/slack.py` reads the requests of the kind `slack`. Nothing here uses
the network: `listen` does.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b, sha256
from hmac import compare_digest, digest
from typing import Any, Final, Protocol

from health_monitor.receivers import HttpRequest, make_printable

_ID: Final = re.compile(r"[A-Za-z0-9]{1,64}")
_LONGEST_NAME: Final = 80
_LONGEST_TEXT: Final = 2_000
"""Characters that the value of a button of Slack's may have."""


class UnreadableCallbackError(ValueError):
    """The request is none of the receiver's. One sentence."""


@dataclass(frozen=True, slots=True)
class CallbackRequest:
    """Request that came, whoever sent it. Its repr shows no header and no body."""

    team: str
    """Team in its path; empty where it has none."""
    headers: Mapping[str, str] = field(repr=False)
    """By name in lower case."""
    body: bytes = field(repr=False)
    """Bytes as they came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """Act of somebody at a receiver, about an incident or about all of a group."""

    id: str
    """Identity of the act: each attempt of the receiver has it."""
    receiver: str
    """Name of the receiver in events: TEAM/KIND."""
    dedup_key: str
    """Key by which the receiver knows the incident, or the group."""
    incident: str = ""
    """Name of the incident (`Alert.id`); empty: the one of the key that is open."""
    time: datetime
    """Time of the act, by the clock of the receiver."""
    actor: str
    """Person: KIND:ID (NAME)."""
    is_taken_back: bool = False
    """True if nobody looks after it any more."""
    message: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Payload that a reply is made of."""

    @property
    def draft_id(self) -> str:
        """Id of its record in the log."""
        own = blake2b(self.id.encode(), digest_size=16).hexdigest()
        return f"callback/{self.receiver}/{own}"


class CallbackKind(Protocol):
    """Interface of a module of this folder."""

    SIGNED_BY: str
    """Field of the settings of the receiver that has the secret of the signature."""

    def find_receiver(self, request: CallbackRequest) -> str:
        """Return the receiver that a request names, before anything about it is trusted.

        Raises: UnreadableCallbackError.
        """

    def is_signed(self, request: CallbackRequest, secret: str, now: datetime) -> bool:
        """Tell whether the request is signed with the secret, and as new as its protocol asks for."""

    def read(self, request: CallbackRequest, receiver: str, now: datetime) -> Callback | None:
        """Read a request that is signed; None: it is about no acknowledgement of a person.

        Raises: UnreadableCallbackError.
        """

    def reply(self, callback: Callback, detail: str, *, is_acknowledged: bool) -> HttpRequest | None:
        """Build the call that tells the person what became of it; None: the receiver takes none."""


def sign(secret: str, content: bytes) -> str:
    """Return the HMAC-SHA256 of the content, in hexadecimal digits."""
    return digest(secret.encode(), content, sha256).hex()


def is_same(signature: str, expected: str) -> bool:
    """Compare two signatures in a time that tells nothing of them."""
    return compare_digest(signature.encode(errors="replace"), expected.encode())


def name_actor(kind: str, id_: Any, name: Any) -> str:
    """Name a person as the acknowledger: KIND:ID (NAME). Raises: UnreadableCallbackError."""
    if not isinstance(id_, str) or not _ID.fullmatch(id_):
        raise UnreadableCallbackError("it names nobody by an id of letters and digits")
    text = make_printable(name if isinstance(name, str) else "").strip()[:_LONGEST_NAME]
    return f"{kind}:{id_} ({text})" if text else f"{kind}:{id_}"


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises: UnreadableCallbackError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableCallbackError("it is no JSON") from None
    if not isinstance(document, dict):
        raise UnreadableCallbackError("it is no JSON object")
    return document


def get_object(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object of a document. Raises: UnreadableCallbackError."""
    value = document.get(name)
    if not isinstance(value, dict):
        raise UnreadableCallbackError(f"it has no object {name}")
    return value


def get_text(document: Mapping[str, Any], name: str) -> str:
    """Return a text of a document, which may be empty. Raises: UnreadableCallbackError."""
    value = document.get(name)
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise UnreadableCallbackError(f"it has no text {name} of {_LONGEST_TEXT} characters at most")
    return value


def names() -> list[str]:
    """List the kinds of receivers that call back."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def kind(name: str) -> CallbackKind:
    """Import the module of a kind. Raises: ModuleNotFoundError."""
    module: Any = importlib.import_module(f"{__name__}.{name}")
    callback_kind: CallbackKind = module
    return callback_kind
