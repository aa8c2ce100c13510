"""Whom a team has told of its daggers' alerts: the kinds of receivers, and what has to be known of each.

Receivers themselves are `health_monitor.receivers`; a test there holds that both say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from daggers.v1 import access_pb2

from daggerspec import fields
from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation

KINDS: Final[Mapping[str, Mapping[str, bool]]] = {
    "pagerduty": {"routing_key": True, "url": False},
    "slack": {"url": True},
}
"""By kind, its secrets; whether it needs each."""


def name(team: str, kind: str) -> str:
    """As events name a receiver of a team; the platform's have their kind alone."""
    return f"{team}/{kind}"


def violations(path: str, receivers: Iterable[access_pb2.TeamReceiver]) -> Iterator[Violation]:
    """What is wrong with the receivers of a team."""
    seen = set[str]()
    for number, receiver in enumerate(receivers):
        where = f"{path}[{number}]"
        if receiver.kind in seen:
            yield Violation(where, f"a team has one receiver of the kind {receiver.kind}", "DUPLICATE")
        seen.add(receiver.kind)
        if receiver.kind not in KINDS:
            near = nearest(receiver.kind, KINDS)
            text = f"{receiver.kind} is no kind of receiver" + hint(near, f": there are {', '.join(KINDS)}")
            yield Violation(f"{where}.kind", text, "UNKNOWN_KIND", suggestion=near)
            continue
        yield from _secrets(where, receiver, KINDS[receiver.kind])


def _secrets(where: str, receiver: access_pb2.TeamReceiver, known: Mapping[str, bool]) -> Iterator[Violation]:
    for key, needed in known.items():
        if needed and key not in receiver.secrets:
            yield Violation(f"{where}.secrets.{key}", f"{receiver.kind} needs it", "REQUIRED")
    for key, secret in sorted(receiver.secrets.items()):
        if key not in known:
            text = f"{receiver.kind} has no such secret: there are {', '.join(known)}"
            yield Violation(f"{where}.secrets.{key}", text, "UNKNOWN_KEY")
        elif secret.WhichOneof("source") == "file":
            yield from fields.secret(f"{where}.secrets.{key}", secret)
        else:
            text = "must be a file of the health monitors' hosts, {file: /absolute/path}"
            yield Violation(f"{where}.secrets.{key}", text, "INVALID_REFERENCE")
