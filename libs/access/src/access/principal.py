"""Principals: a person, a program, or an administrator of the first hour."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from daggerspec.violation import Violation
from fleet.fold.tenancy import ACCOUNT

USER: Final = "user:"
GROUP: Final = "group:"
_PRINCIPAL: Final = re.compile(r"(user|group):[\x21-\x7e]{1,200}|account:[a-z][a-z0-9_-]{1,61}[a-z0-9]")


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller."""

    name: str
    """user:NAME or account:NAME; of an administrator of the first hour the bare name."""
    groups: frozenset[str] = frozenset()
    """group:NAME of each group that the provider says a person is in."""
    administrator: bool = False
    """Everything is allowed whatever the log says: the token file, and a gateway without authentication."""
    ends: datetime | None = field(default=None, compare=False)
    """End of the token that was presented, UTC; None: it has none."""

    @property
    def names(self) -> frozenset[str]:
        """Names whose roles this principal has: its own and those of its groups."""
        return self.groups | {self.name}

    @property
    def account(self) -> str:
        """Name of the service account; empty for anybody else."""
        return self.name.removeprefix(ACCOUNT) if self.name.startswith(ACCOUNT) else ""


def is_principal(text: str) -> bool:
    """Tell whether a text names a principal that may be given roles, which no name of the token file is."""
    return _PRINCIPAL.fullmatch(text) is not None


def violations(path: str, name: str) -> Iterator[Violation]:
    """Check the name of a principal in the field at `path`."""
    if not is_principal(name):
        text = "must be user:NAME, group:NAME or account:NAME, without spaces"
        yield Violation(path, text, "INVALID_PRINCIPAL")
