"""Entries of the catalogue, as commands show them: a kind is a table of all, and one with its version."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.message import Message

from cli.output.json_views.answers import to_json
from cli.output.printer import Printer

T = TypeVar("T", bound=Message)


class Answer(Protocol):
    """What the gateway answers of one entry, beside it."""

    @property
    def version(self) -> int:
        """How often it was registered."""

    @property
    def sequence(self) -> int:
        """The state that the answer is of."""


@dataclass(frozen=True, slots=True)
class Entries(Generic[T]):
    """How entries of one kind are shown."""

    columns: tuple[str, ...]
    row: Callable[[T], tuple[str, ...]]
    """Its cells, one for each of `columns`."""
    empty: str
    """What is said where there is none."""

    def document(self, entry: T, answer: Answer) -> dict[str, Any]:
        """One, with its version and the sequence of the answer."""
        return to_json(entry) | {"version": answer.version, "sequence": answer.sequence}

    def show(self, out: Printer, entry: T, answer: Answer) -> None:
        """One, and its version."""
        row = (*self.row(entry), answer.version)
        out.show(
            self.document(entry, answer),
            lambda out: out.table((*self.columns, "VERSION"), [row], empty=self.empty),
        )

    def show_all(self, out: Printer, entries: Iterable[T]) -> None:
        """All of them."""
        listed = list(entries)
        out.show(
            [to_json(entry) for entry in listed],
            lambda out: out.table(self.columns, map(self.row, listed), empty=self.empty),
        )
