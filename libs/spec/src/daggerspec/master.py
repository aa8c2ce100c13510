"""The URL of a Spark master, taken apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from daggerspec import fields
from daggerspec.violation import Violation

_MASTER: Final = re.compile(r"local|local\[(\*|[1-9]\d{0,3})\]|yarn|spark://.+|k8s://.+")


def violations(at: str, value: str) -> Iterator[Violation]:
    """A Spark master."""
    kind, _, hosts = value.partition("://")
    if kind == "k8s":
        hosts = re.sub(r"^https?://", "", hosts)
    if not (_MASTER.fullmatch(value) and (not hosts or all(map(fields.is_host_port, hosts.split(","))))):
        yield Violation(
            at, "must be local[n], spark://host:port, yarn or k8s://https://host:port", "INVALID_ADDRESS"
        )
