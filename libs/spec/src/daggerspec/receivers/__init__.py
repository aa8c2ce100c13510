"""Receivers of a team's alerts. This folder is the registry: `receivers/slack.py` has the rules of a team's
receiver `slack`, `health_monitor/receivers/slack.py` notifies it; a test there checks that both name the same
secrets. Nothing else lists kinds.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, cast

from daggers.v1 import access_pb2

from daggerspec import fields
from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation


class ReceiverKind(Protocol):
    """The interface of a module of this folder."""

    SECRETS: Mapping[str, bool]
    """Its secrets; whether it needs each."""


def names() -> tuple[str, ...]:
    """List the kinds of receivers."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def secrets(kind: str) -> Mapping[str, bool]:
    """Return the secrets of an existing kind: true for those that are required."""
    return cast(ReceiverKind, importlib.import_module(f"{__name__}.{kind}")).SECRETS


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


def _secrets(where: str, receiver: access_pb2.TeamReceiver, keys: Mapping[str, bool]) -> Iterator[Violation]:
    for key, needed in keys.items():
        if needed and key not in receiver.secrets:
            yield Violation(f"{where}.secrets.{key}", f"{receiver.kind} needs it", "REQUIRED")
    for key, secret in sorted(receiver.secrets.items()):
        if key not in keys:
            text = f"{receiver.kind} has no such secret: there are {', '.join(keys)}"
            yield Violation(f"{where}.secrets.{key}", text, "UNKNOWN_KEY")
        elif secret.WhichOneof("source") == "file":
            yield from fields.secret(f"{where}.secrets.{key}", secret)
        else:
            text = "must be a file of the health monitors' hosts, {file: /absolute/path}"
            yield Violation(f"{where}.secrets.{key}", text, "INVALID_REFERENCE")
