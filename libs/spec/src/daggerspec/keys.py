"""The keys of a dagger file that fill the fields of a message; what a key takes is what its field holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from daggerspec.violation import Violation


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a dagger file."""

    name: str
    about: str
    """A sentence about it, for documents."""
    path: str = ""
    """Dotted path of the field it fills; its name when empty."""
    required: bool = False
    least: int = 0
    most: int = 2**31 - 1
    """Of a number."""
    needed_with: tuple[str, str] = ("", "")
    """Another key, and the word of it that makes this one required."""
    address: bool = False
    """Of a sink: whether it is a part of where that is, which a registered sink says. The first of them is
    always said there."""
    folder: bool = False
    """Of an address: whether it is a folder of the drivers' hosts, which an administrator has to allow."""
    sent_to: tuple[str, ...] = ()
    """Of a secret: dotted paths of the fields that hold the address it is sent to: a URL; host and port."""
    keys: Sequence[Key] = ()
    """Those of the mapping that it takes, where its field is a message with fields of their own."""

    @property
    def field(self) -> str:
        """Path of the field it fills."""
        return self.path or self.name

    def said(self, message: Any) -> bool:
        """Return whether a message sets this field."""
        owner, name = _owner(message, self.field)
        field = owner.DESCRIPTOR.fields_by_name[name]
        return bool(owner.HasField(name) if field.has_presence else getattr(owner, name))

    def value(self, message: Any) -> Any:
        """Return the value of this field in a message."""
        owner, name = _owner(message, self.field)
        return getattr(owner, name)

    def violations(self, path: str, message: Any) -> Iterator[Violation]:
        """Yield the violations of the number in this field; `path` is the message's."""
        value = self.value(message)
        if isinstance(value, int) and not isinstance(value, bool) and not self.least <= value <= self.most:
            yield Violation(
                f"{path}.{self.field}", f"must be from {self.least} to {self.most}", "OUT_OF_RANGE"
            )

    def destination(self, message: Any) -> str:
        """Return the address that a message's secret is sent to, as `address.parse` reads it."""
        parts = [str(Key("", "", path).value(message)) for path in self.sent_to]
        return ":".join(f"[{part}]" if ":" in part and len(parts) > 1 else part for part in parts)

    def is_addressed(self, message: Any) -> bool:
        """Return whether a message has the address that its secret is sent to."""
        return all(Key("", "", path).said(message) for path in self.sent_to)

    def take(self, message: Any, other: Any) -> None:
        """Have a message say what another one of its kind says here."""
        owner, name = _owner(message, self.field)
        value = self.value(other)
        if hasattr(value, "CopyFrom"):
            getattr(owner, name).CopyFrom(value)
        else:
            setattr(owner, name, value)

    def clear(self, message: Any) -> None:
        """Have a message say nothing here."""
        if self.said(message):
            owner, name = _owner(message, self.field)
            owner.ClearField(name)


def _owner(message: Any, path: str) -> tuple[Any, str]:
    """Return the message that has the last field of a path, and the name of that field."""
    *parents, name = path.split(".")
    for parent in parents:
        message = getattr(message, parent)
    return message, name


def flat(keys: Sequence[Key]) -> Iterator[Key]:
    """Yield the keys that take values; those of mappings with their whole names and paths."""
    for key in keys:
        if not key.keys:
            yield key
        for inner in flat(key.keys):
            yield replace(inner, name=f"{key.name}.{inner.name}", path=f"{key.field}.{inner.field}")


def every(keys: Sequence[Key], prefix: str = "") -> Iterator[tuple[str, Key]]:
    """Yield all keys, those of mappings behind the mapping, each with its whole name."""
    for key in keys:
        yield prefix + key.name, key
        yield from every(key.keys, f"{prefix}{key.name}.")
