"""Destinations of sinks, so that they can have an owner: a place in a container of a server. Pure.

Two sinks of one kind write to one place where their destinations overlap. A name that depends on the row
(`trips-${city}`) has its constant beginning: everything that begins so is its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, unquote

from daggerspec import address, template

_ANY: Final = "*"
_SAFE: Final = ":,.-_[]"
"""The characters that the text of a destination keeps; all else that is no letter or digit is %XX."""


@dataclass(frozen=True, slots=True, order=True)
class Destination:
    """One place that rows go to."""

    kind: str
    """The sink's."""
    server: str
    """host:port, in lower case; of several, sorted, with commas. Empty: the drivers' hosts."""
    container: str
    """The scope of unique names: a bucket, a database and schema, an account; empty for a whole server."""
    name: str
    """A measurement, table, index, key, topic, folder, path or method."""
    is_prefix: bool = False
    """True if the destination is everything that begins with the name."""

    def overlaps(self, other: Destination) -> bool:
        """Return whether a row can be in both."""
        if (self.kind, self.server, self.container) != (other.kind, other.server, other.container):
            return False
        if self.is_prefix and other.name.startswith(self.name):
            return True
        return self.name == other.name or (other.is_prefix and self.name.startswith(other.name))

    def on(self, server: str) -> Destination:
        """Return the destination moved to another server."""
        return self if server == self.server else replace(self, server=server)

    def whole(self) -> Destination:
        """Return all that is in the same container."""
        return replace(self, name="", is_prefix=True)

    def __str__(self) -> str:
        """Format it for people: KIND://SERVER/CONTAINER/NAME, behind a name that is a prefix `*`."""
        parts = (quote(part, safe=_SAFE) for part in (self.server, self.container, self.name))
        return f"{self.kind}://{'/'.join(parts)}{_ANY if self.is_prefix else ''}"


def parse(text: str) -> Destination:
    """Parse the text that `str` gave. Raises: ValueError."""
    kind, separator, rest = text.partition("://")
    parts = rest.split("/")
    if not kind or not separator or len(parts) != 3:
        raise ValueError("must be KIND://SERVER/CONTAINER/NAME, as `daggers team destinations` writes it")
    is_prefix = parts[2].endswith(_ANY)
    server, container, name = (unquote(part.removesuffix(_ANY)) for part in parts)
    return Destination(kind, server, container, name, is_prefix)


def server_at(where: str) -> str:
    """Return the server of a URL, or of host:port: lower-case name and port; other text unchanged."""
    server_address = address.parse(where)
    return f"{server_address.host}:{server_address.port}" if server_address else where.lower()


def servers_at(where: str) -> str:
    """Return the servers of a comma-separated list, each as `server_at` does, sorted, without repetitions."""
    return ",".join(sorted({server_at(part.strip()) for part in where.split(",")}))


def from_template(kind: str, server: str, container: str, name: str) -> Destination:
    """Build a destination whose name may have ${column} in it: what comes before it is the prefix."""
    parts = template.parts(name)
    constant = parts[0] if parts and isinstance(parts[0], str) else ""
    return Destination(kind, server, container, constant, is_prefix=constant != name)
