"""The URL of a Spark master, taken apart: whoever asks what it means asks here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address
from typing import Final

from daggerspec import fields
from daggerspec.violation import Violation

# Spark refuses local[0]; more threads than that are a mistake.
_LOCAL: Final = re.compile(r"local(\[(\*|[1-9]\d{0,3})\])?")


class Manager(Enum):
    """The resource manager that a driver and its executors run on."""

    LOCAL = "local"
    """Nobody: executors are threads of the driver."""
    STANDALONE = "spark"
    YARN = "yarn"
    KUBERNETES = "k8s"


@dataclass(frozen=True, slots=True)
class Master:
    """A Spark master that a driver can be submitted to."""

    url: str
    manager: Manager
    servers: tuple[str, ...] = ()
    """host:port of each, where it names them."""

    @property
    def is_local(self) -> bool:
        """Return whether executors are threads of the driver."""
        return self.manager is Manager.LOCAL

    @property
    def on_loopback(self) -> bool:
        """Return whether driver, master and executors all talk over loopback."""
        standalone = self.manager is Manager.STANDALONE
        return self.is_local or (standalone and all(map(_is_loopback, self.servers)))


def parse(url: str) -> Master | None:
    """Parse the URL of a master; None if it is not one."""
    if _LOCAL.fullmatch(url):
        return Master(url, Manager.LOCAL)
    if url == Manager.YARN.value:
        return Master(url, Manager.YARN)
    scheme, _, rest = url.partition("://")
    if scheme == Manager.KUBERNETES.value:
        rest = re.sub(r"^https?://", "", rest)
    elif scheme != Manager.STANDALONE.value:
        return None
    servers = tuple(rest.split(","))
    if not all(map(fields.is_host_port, servers)):
        return None
    return Master(url, Manager(scheme), servers)


def violations(path: str, url: str) -> Iterator[Violation]:
    """Yield the violations of the URL of a master."""
    if parse(url) is None:
        yield Violation(
            path,
            "must be local[n] with n from 1 to 9999, spark://host:port, yarn or k8s://https://host:port",
            "INVALID_ADDRESS",
        )


def _is_loopback(server: str) -> bool:
    host = server.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
