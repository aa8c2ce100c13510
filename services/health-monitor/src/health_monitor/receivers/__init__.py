"""Receivers of notifications. This folder is the registry: `receivers/slack.py` is the kind `slack`. Pure.

A kind is a module whose docstring says what its receiver is like, and that has what `Receiver` says. The
settings, `--help`, docs/receivers.md and the contract suite find it by its existing. What is here knows no
network: `webhook` sends.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeAlias

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
        """What its answer means: `Sent` for the proof that its protocol has, never for a status alone."""


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


def refused(answer: Answer, said: str, *, who: str = "this receiver") -> Temporary | Permanent:
    """What an answer means that is not the proof of success which the receiver's protocol has.

    A refusal in the receiver's own words is for good. 429 and 5xx may pass, and so may whatever is no word of
    the receiver's: a login page, a proxy that blocks or asks who calls, an answer that was cut off.
    `said`: what the receiver said, safe to be shown; `who`: its name.
    """
    status = answer.status
    detail = f"it answered {status}{f': {said}' if said else ''}"
    if status == 429:
        return Temporary("THROTTLED", detail, answer.after, throttled=True)
    if status >= 500:
        return Temporary("RECEIVER_ERROR", detail, answer.after)
    if status in _MOVED:
        return Permanent("REDIRECTED", f"{detail}; redirects are not followed: give the final address")
    if 300 <= status < 400:
        return Temporary("REDIRECTED", f"{detail}; redirects are not followed, and a login page may be one")
    if status < 300 or status in _FROM_BETWEEN or _is_page(answer.body):
        return Temporary("UNEXPECTED_ANSWER", f"it answered {status}, but not as {who} does", answer.after)
    return Permanent("REFUSED", detail)


_MOVED: Final = frozenset({301, 308})
"""Redirects that say themselves that they last (RFC 9110, 15.4)."""
_FROM_BETWEEN: Final = frozenset({407, 408, 425})
"""What a proxy asks, and what HTTP itself says to send again."""
_PAGE: Final = re.compile(
    r"[\s\ufeff]*(?:<!--.*?-->\s*)*<(?:!doctype|html|head|body|script|meta)\b", re.IGNORECASE | re.DOTALL
)


def _is_page(body: str) -> bool:
    """Whether it is HTML for a browser: no receiver here answers so, what stands before them does."""
    return _PAGE.match(body) is not None


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
