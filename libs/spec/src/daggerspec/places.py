"""Places of tenants' secrets: for which team they are, and where they may be sent. Administrators set them.

One place is `WHERE TEAM ADDRESS …`, several are separated by `;`. WHERE is an absolute folder, env:NAME, or
env:PREFIX* for the variables that begin so. * is every team, and every address. A name with spaces in it is
quoted.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import address

_ANY: Final = "*"
_ENV: Final = "env:"
_BETWEEN: Final = ";"


@dataclass(frozen=True, slots=True)
class Place:
    """One place."""

    where: str
    team: str
    addresses: tuple[str, ...]

    def has(self, reference: spec_pb2.SecretRef) -> bool:
        """Return whether a secret is in this place."""
        match reference.WhichOneof("source"):
            case "file":
                path = reference.file
                plain = posixpath.normpath(path) == path and not path.startswith("//")
                return plain and path.startswith(self.where.rstrip("/") + "/")
            case "env":
                name = _ENV + reference.env
                begins = self.where.endswith(_ANY) and name.startswith(self.where.removesuffix(_ANY))
                return name == self.where or begins
        return False

    def allows(self, team: str, to: str) -> bool:
        """Return whether a team may have secrets of this place sent to the address `to`."""
        return self.team in (_ANY, team) and (_ANY in self.addresses or address.covers(self.addresses, to))

    def __str__(self) -> str:
        return f"{self.where} (to {', '.join(self.addresses)})"


def parse(text: str) -> tuple[Place, ...]:
    """Parse the places of a setting. Raises: ValueError."""
    words = shlex.shlex(text, posix=True, punctuation_chars=_BETWEEN)
    words.whitespace_split, words.commenters = True, ""
    parts = [list[str]()]
    for word in words:
        if word.strip(_BETWEEN):
            parts[-1].append(word)
        else:
            parts.append([])
    return tuple(_place(part) for part in parts if part)


def allowed(places: Sequence[Place], reference: spec_pb2.SecretRef, team: str, to: str) -> bool:
    """Return whether some place has the secret, for this team, and lets it be sent to the address `to`."""
    return bool(team and to) and any(place.has(reference) and place.allows(team, to) for place in places)


def describe_places(places: Sequence[Place], team: str) -> str:
    """Describe the places of a team, for a sentence."""
    return "; ".join(str(place) for place in places if place.team in (_ANY, team)) or "none"


def _place(words: list[str]) -> Place:
    if len(words) < 3:
        raise ValueError("each place must be WHERE TEAM ADDRESS …, separated by ;")
    where, team, *addresses = words
    folder = where.startswith("/") and posixpath.normpath(where) == where.rstrip("/") and where != "/"
    name = where.removeprefix(_ENV).removesuffix(_ANY)
    if not folder and not (where.startswith(_ENV) and name.isidentifier()):
        raise ValueError(f"{where} must be an absolute folder without .., env:NAME or env:PREFIX*")
    for to in addresses:
        if to != _ANY and address.base(to) is None:
            raise ValueError(f"{to} must be host:port, a URL without a path, or *")
    return Place(where, team, tuple(addresses))
