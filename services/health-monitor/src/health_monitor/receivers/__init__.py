"""Kinds of receivers. This folder is the registry: `receivers/slack.py` is the kind `slack`. Pure.

A kind is a module with the attributes of `Receiver`, whose docstring describes the receiver's protocol. The
settings, `--help`, docs/receivers.md and the contract suite find it in this folder. Nothing here uses the
network: `deliver.webhook` and `deliver.mail` send.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeAlias, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, SecretStr
from pydantic.fields import FieldInfo

if TYPE_CHECKING:
    from health_monitor.page import Page


# ---- The interface of a kind -------------------------------------------------------------------------------


class Receiver(Protocol):
    """Interface of a module of this folder."""

    Settings: type[ReceiverSettings]
    """Settings of one receiver."""
    IN_SETTINGS: bool
    """True if variables of the monitor configure one of the platform's. The platform has receivers of other
    kinds by its team (`fleet.alerts.alert.PLATFORM`).
    """
    PACE: timedelta
    """Minimum time between two calls."""
    TAKEN: Answer
    """Example of an answer that accepts a notification."""

    def request(self, page: Page, settings: Any) -> Request:
        """Build the call that notifies the receiver; `settings` are of its kind."""

    def outcome(self, answer: Any) -> Outcome:
        """Interpret its answer, which is of the kind of TAKEN: `Success` needs the proof that its protocol
        defines.
        """


def _check_url(url: SecretStr) -> SecretStr:
    text = url.get_secret_value()
    web = text.startswith(("https://", "http://"))
    if not web or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("it is not an http or https URL")
    return url


SecretUrl: TypeAlias = Annotated[SecretStr, AfterValidator(_check_url)]
"""URL that may contain a secret, and is treated as one."""


class ReceiverSettings(BaseModel):
    """Base of a kind's settings. A string under each field describes it.

    With IN_SETTINGS a field NAME of the kind KIND is the variable DAGGERS_MONITOR_KIND_NAME. A secret without
    a default can be given by a file as well, DAGGERS_MONITOR_KIND_NAME_FILE. A field without a default needs
    an example; the receiver is notified if such a field is set. In the file of a team a field is a key, whose
    values `daggerspec.receivers` checks. A field whose default is None is such a key alone, and no variable.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True
    )

    url: SecretStr
    """URL of the receiver."""

    def redact(self, text: str) -> str:
        """Replace the values of all secrets in a text."""
        for value in (getattr(self, name) for name in type(self).model_fields):
            if isinstance(value, SecretStr) and value.get_secret_value():
                text = text.replace(value.get_secret_value(), "***")
        return text


# ---- Requests and answers ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One call to a receiver. Its repr shows no URL, body or header: they may contain secrets."""

    url: str = field(repr=False)
    body: bytes = field(repr=False)
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def json_request(url: SecretStr, document: Any) -> HttpRequest:
    """Build the POST of a JSON document."""
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return HttpRequest(url.get_secret_value(), body, headers={"content-type": "application/json"})


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Answer to one call, by the receiver or by a proxy before it."""

    status: int
    body: str = ""
    after: timedelta | None = None
    """Retry-After of the answer."""


@dataclass(frozen=True, slots=True)
class MailRequest:
    """One message to be submitted by SMTP (RFC 6409), under TLS. Its repr shows no server and no message."""

    url: str = field(repr=False)
    """smtp://USER:PASSWORD@HOST:PORT, which is STARTTLS, or smtps:// for TLS from the start."""
    sender: str
    recipients: tuple[str, ...]
    message: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class MailAnswer:
    """Last reply of a mail server (RFC 5321, 4.2): to the message, or to the step at which it refused."""

    code: int
    text: str = ""


Request: TypeAlias = HttpRequest | MailRequest
Answer: TypeAlias = HttpAnswer | MailAnswer


@dataclass(frozen=True, slots=True)
class Success:
    """The receiver has accepted the notification."""


@dataclass(frozen=True, slots=True)
class Temporary:
    """The notification may not have arrived; another attempt may help."""

    reason: str
    """UPPER_SNAKE."""
    detail: str
    """One sentence for a person; no address, no key."""
    after: timedelta | None = None
    """Time for which the receiver asks not to be called."""
    throttled: bool = False
    """True if it limits rates: then it accepts no notification at all during `after`."""


@dataclass(frozen=True, slots=True)
class Permanent:
    """The receiver will never accept this notification."""

    reason: str
    """UPPER_SNAKE."""
    detail: str
    """One sentence for a person; no address, no key."""


Outcome: TypeAlias = Success | Temporary | Permanent


def make_printable(text: str) -> str:
    """Replace what is not printable by spaces: texts may be of rows, or of somebody else's server."""
    return "".join(character if character.isprintable() else " " for character in text)


def classify_failure(answer: HttpAnswer, quote: str, *, who: str = "this receiver") -> Temporary | Permanent:
    """Interpret an answer that does not prove success.

    A refusal by the receiver itself is permanent. 429 and 5xx are temporary, and so is any answer that is not
    the receiver's: a login page, a proxy that blocks or wants authentication, an answer that was cut off.
    `quote`: text of the receiver, safe to be shown, or empty; `who`: its name.
    """
    status = answer.status
    detail = f"it answered {status}{f': {quote}' if quote else ''}"
    if status == 429:
        return Temporary("THROTTLED", detail, answer.after, throttled=True)
    if status >= 500:
        return Temporary("RECEIVER_ERROR", detail, answer.after)
    if status in _MOVED:
        return Permanent("REDIRECTED", f"{detail}; redirects are not followed: give the final address")
    if 300 <= status < 400:
        return Temporary("REDIRECTED", f"{detail}; redirects are not followed, and a login page may be one")
    if status < 300 or status in _FROM_BETWEEN or is_page(answer.body):
        return Temporary("UNEXPECTED_ANSWER", f"it answered {status}, but not as {who} does", answer.after)
    return Permanent("REFUSED", detail)


_MOVED: Final = frozenset({301, 308})
"""Permanent redirects (RFC 9110, 15.4)."""
_FROM_BETWEEN: Final = frozenset({407, 408, 425})
"""Statuses of proxies, and those that HTTP defines as worth a retry."""
_PAGE: Final = re.compile(
    r"[\s\ufeff]*(?:<!--.*?-->\s*)*<(?:!doctype|html|head|body|script|meta)\b", re.IGNORECASE | re.DOTALL
)


def is_page(body: str) -> bool:
    """Recognise HTML for browsers: no receiver answers so, proxies and login pages before them do."""
    return _PAGE.match(body) is not None


# ---- The registry ------------------------------------------------------------------------------------------


def names() -> list[str]:
    """List the kinds."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def kind(name: str) -> Receiver:
    """Import the module of a kind. Raises: ModuleNotFoundError."""
    module: Any = importlib.import_module(f"{__name__}.{name}")
    receiver: Receiver = module
    return receiver


def list_variables(name: str) -> dict[str, FieldInfo]:
    """List the fields of a kind that variables of the monitor configure; none without IN_SETTINGS."""
    receiver = kind(name)
    fields = receiver.Settings.model_fields if receiver.IN_SETTINGS else {}
    return {field: info for field, info in fields.items() if info.is_required() or info.default is not None}


def is_secret(info: FieldInfo) -> bool:
    """Tell whether a field of a kind's settings is a secret."""
    return SecretStr in (info.annotation, *get_args(info.annotation))


def about(name: str) -> str:
    """Return the docstring of a kind."""
    return (importlib.import_module(f"{__name__}.{name}").__doc__ or "").strip()
