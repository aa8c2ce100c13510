"""Receivers of a team's alerts. This folder is the registry: `receivers/slack.py` has the rules of a team's
receiver `slack`, `health_monitor/receivers/slack.py` notifies it; a test there checks that both name the same
secrets and settings. Nothing else lists kinds.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, cast

from daggers.v1 import access_pb2

from daggerspec import fields
from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation


@dataclass(frozen=True, slots=True)
class Setting:
    """Key of a receiver that is no secret, such as the recipients of mail."""

    parse: Callable[[str], Any]
    """Reads a value. Raises: ValueError that says what it must be."""
    required: bool = True


class ReceiverKind(Protocol):
    """The interface of a module of this folder."""

    SECRETS: Mapping[str, bool]
    """Its secrets; whether it needs each."""
    SETTINGS: Mapping[str, Setting]
    """Its keys that are no secrets."""
    ACKNOWLEDGES: bool
    """True if it is told that somebody looks after an incident; of others the next reminder says so."""
    TAKES_ANNOUNCEMENTS: bool
    """True if it is told what is no incident, such as a silence that is about to end. False where all that it
    is told is one, so that somebody is paged.
    """


def names() -> tuple[str, ...]:
    """List the kinds of receivers."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def secrets(kind: str) -> Mapping[str, bool]:
    """Return the secrets of an existing kind: true for those that are required."""
    return _load(kind).SECRETS


def settings(kind: str) -> Mapping[str, Setting]:
    """Return what an existing kind needs to know that is no secret."""
    return _load(kind).SETTINGS


@cache  # the fold of alerts asks for each of them
def acknowledges(name: str) -> bool:
    """Tell whether a receiver, KIND or TEAM/KIND, is told of acknowledgements; false of unknown kinds."""
    kind = name.rpartition("/")[2]
    return kind in names() and _load(kind).ACKNOWLEDGES


@cache
def takes_announcements(name: str) -> bool:
    """Tell whether a receiver, KIND or TEAM/KIND, is told what is no incident; false of unknown kinds."""
    kind = name.rpartition("/")[2]
    return kind in names() and _load(kind).TAKES_ANNOUNCEMENTS


def list_required(kind: str) -> tuple[str, ...]:
    """List the keys that a receiver of an existing kind must have."""
    needed = [key for key, is_needed in secrets(kind).items() if is_needed]
    return (*needed, *(key for key, setting in settings(kind).items() if setting.required))


def _load(kind: str) -> ReceiverKind:
    return cast(ReceiverKind, importlib.import_module(f"{__name__}.{kind}"))


def name(team: str, kind: str) -> str:
    """Name a receiver of a team as events do; the platform's have their kind alone."""
    return f"{team}/{kind}"


def violations(path: str, receivers: Iterable[access_pb2.TeamReceiver]) -> Iterator[Violation]:
    """Yield the violations of a team's receivers."""
    seen, kinds = set[str](), names()
    for number, receiver in enumerate(receivers):
        where = f"{path}[{number}]"
        if receiver.kind in seen:
            yield Violation(where, f"a team has one receiver of the kind {receiver.kind}", "DUPLICATE")
        seen.add(receiver.kind)
        if receiver.kind not in kinds:
            near = nearest(receiver.kind, kinds)
            text = f"{receiver.kind} is no kind of receiver" + hint(near, f": there are {', '.join(kinds)}")
            yield Violation(f"{where}.kind", text, "UNKNOWN_KIND", suggestion=near)
            continue
        yield from _secrets(where, receiver, secrets(receiver.kind))
        yield from _settings(where, receiver, settings(receiver.kind))


def _secrets(where: str, receiver: access_pb2.TeamReceiver, keys: Mapping[str, bool]) -> Iterator[Violation]:
    for key, needed in keys.items():
        if needed and key not in receiver.secrets:
            yield Violation(f"{where}.secrets.{key}", f"{receiver.kind} needs it", "REQUIRED")
    for key, secret in sorted(receiver.secrets.items()):
        if key not in keys:
            text = f"{receiver.kind} has no such secret: there are {', '.join(keys)}"
            yield Violation(f"{where}.secrets.{key}", text, "UNKNOWN_KEY")
        elif secret.WhichOneof("source") in ("file", "name"):
            yield from fields.secret(f"{where}.secrets.{key}", secret)
        else:
            text = (
                "must be the name of a registered secret, or a file of the health monitors' hosts,"
                " {file: /absolute/path}"
            )
            yield Violation(f"{where}.secrets.{key}", text, "INVALID_REFERENCE")


def _settings(
    where: str, receiver: access_pb2.TeamReceiver, keys: Mapping[str, Setting]
) -> Iterator[Violation]:
    for key, setting in keys.items():
        if setting.required and key not in receiver.settings:
            yield Violation(f"{where}.settings.{key}", f"{receiver.kind} needs it", "REQUIRED")
    for key, value in sorted(receiver.settings.items()):
        if key not in keys:
            of = f": there are {', '.join(keys)}" if keys else ""
            text = f"{receiver.kind} has no such setting{of}"
            yield Violation(f"{where}.settings.{key}", text, "UNKNOWN_KEY")
            continue
        try:
            keys[key].parse(value)
        except ValueError as error:
            yield Violation(f"{where}.settings.{key}", str(error), "INVALID_SETTING")
