"""Who calls: a person, a program, or an administrator of the first hour."""

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
_WRITTEN: Final = re.compile(r"(user|group):[\x21-\x7e]{1,200}|account:[a-z][a-z0-9_-]{1,61}[a-z0-9]")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls, as authenticated."""

    name: str
    """user:NAME or account:NAME; of an administrator of the first hour the bare name."""
    groups: frozenset[str] = frozenset()
    """group:NAME of each group that the provider says a person is in."""
    administrator: bool = False
    """Whether everything is allowed whatever the log says: the token file, and a gateway that asks nobody."""
    ends: datetime | None = field(default=None, compare=False)
    """When what they showed ends, UTC; None: not by itself."""

    @property
    def names(self) -> frozenset[str]:
        """What roles may be given to that this principal then has."""
        return self.groups | {self.name}

    @property
    def account(self) -> str:
        """Name of the service account; empty for anybody else."""
        return self.name.removeprefix(ACCOUNT) if self.name.startswith(ACCOUNT) else ""


def is_principal(written: str) -> bool:
    """Whether it names somebody who may be given roles; the token file's names, and nobody's, do not."""
    return _WRITTEN.fullmatch(written) is not None


def violations(path: str, written: str) -> Iterator[Violation]:
    """What is wrong with a principal that somebody writes down."""
    if not is_principal(written):
        text = "must be user:NAME, group:NAME or account:NAME, without spaces"
        yield Violation(path, text, "INVALID_PRINCIPAL")
