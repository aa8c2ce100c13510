"""Receivers of notifications. This folder is the registry: `receivers/slack.py` is the kind `slack`. Pure.

A kind is a module whose docstring says what its receiver is like, and that has what `Receiver` says. The
settings, `--help`, docs/receivers.md and the contract suite find it by its existing. What is here knows no
network: `webhook` sends.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, SecretStr

if TYPE_CHECKING:
    from health_monitor.page import Page


# ---- What a kind has ---------------------------------------------------------------------------------------


class Receiver(Protocol):
    """A module of this folder."""

    Settings: type[ReceiverSettings]
    """What has to be known of one receiver."""
    PACE: timedelta
    """Least time between two calls."""
    TAKEN: Answer
    """An answer by which it says that it has a notification."""

    def request(self, page: Page, settings: Any) -> Request:
        """What tells the receiver; `settings` are of its kind."""

    def outcome(self, answer: Answer) -> Outcome:
        """What its answer means."""


def _check_url(url: SecretStr) -> SecretStr:
    text = url.get_secret_value()
    web = text.startswith(("https://", "http://"))
    if not web or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("it is not an http or https URL")
    return url


SecretUrl: TypeAlias = Annotated[SecretStr, AfterValidator(_check_url)]
"""An address that may be a secret, and is treated as one."""


class ReceiverSettings(BaseModel):
    """Base of a kind's settings. A string under each field says what it is.

    A field NAME of the kind KIND is the variable DAGGERS_MONITOR_KIND_NAME. A secret without a default can be
    given by a file as well, DAGGERS_MONITOR_KIND_NAME_FILE. What has no default has an example; a kind is
    told when that is given.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True
    )

    url: SecretUrl
    """Where it listens."""

    def redacted(self, text: str) -> str:
        """Text without any of its secrets."""
        for value in (getattr(self, name) for name in type(self).model_fields):
            if isinstance(value, SecretStr) and value.get_secret_value():
                text = text.replace(value.get_secret_value(), "***")
        return text


# ---- What goes out and what comes back ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """One call to a receiver."""

    url: str = field(repr=False)
    body: bytes = field(repr=False)
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def json_request(url: SecretStr, document: Any) -> Request:
    """A POST of a JSON document."""
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return Request(url.get_secret_value(), body, headers={"content-type": "application/json"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver answered."""

    status: int
    body: str = ""
    after: timedelta | None = None
    """Its Retry-After."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The receiver has it."""


@dataclass(frozen=True, slots=True)
class Temporary:
    """It may not have it; trying again may help."""

    reason: str
    """UPPER_SNAKE."""
    detail: str
    """One sentence for a person; no address, no key."""
    after: timedelta | None = None
    """The receiver asks to be left alone for this long."""
    throttled: bool = False
    """It takes nothing at all until then: it limits rates."""


@dataclass(frozen=True, slots=True)
class Permanent:
    """It will never take this."""

    reason: str
    """UPPER_SNAKE."""
    detail: str
    """One sentence for a person; no address, no key."""


Outcome: TypeAlias = Sent | Temporary | Permanent


def refused(answer: Answer, said: str) -> Temporary | Permanent:
    """What an answer that is not a success means: 429 and 5xx may pass, anything else will not.

    `said`: what the receiver said, safe to be shown.
    """
    status = answer.status
    detail = f"it answered {status}{f': {said}' if said else ''}"
    if status == 429:
        return Temporary("THROTTLED", detail, answer.after, throttled=True)
    if status >= 500:
        return Temporary("RECEIVER_ERROR", detail, answer.after)
    if 300 <= status < 400:
        return Permanent("REDIRECTED", f"{detail}; redirects are not followed: give the final address")
    return Permanent("REFUSED", detail)


# ---- The registry ------------------------------------------------------------------------------------------


def names() -> list[str]:
    """The kinds there are."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def kind(name: str) -> Receiver:
    """The module of a kind. Raises: ModuleNotFoundError."""
    module: Any = importlib.import_module(f"{__name__}.{name}")
    receiver: Receiver = module
    return receiver


def about(name: str) -> str:
    """What a kind says of itself."""
    return (importlib.import_module(f"{__name__}.{name}").__doc__ or "").strip()
