"""The keys of a dagger file that fill the fields of a message; what a key takes is what its field holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a dagger file."""

    name: str
    about: str
    """What it says, in a sentence."""
    path: str = ""
    """Dotted path of the field it fills; its name when empty."""
    required: bool = False
    least: int = 0
    most: int = 2**31 - 1
    """Of a number."""
    unsaid: str = ""
    """The word that stands for nothing said."""
    needed_with: tuple[str, str] = ("", "")
    """Another key, and the word of it that makes this one required."""

    @property
    def field(self) -> str:
        """Path of the field it fills."""
        return self.path or self.name
