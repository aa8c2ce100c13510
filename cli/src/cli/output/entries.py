"""Show entries of the catalogue: a table of all of a kind, or one entry with its version."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.message import Message

from cli.output.json_views.answers import to_json
from cli.output.printer import Printer

T = TypeVar("T", bound=Message)


class Answer(Protocol):
    """Parts of a gateway's response beside its entry."""

    @property
    def version(self) -> int:
        """Version of the entry: the number of its registrations."""

    @property
    def sequence(self) -> int:
        """Sequence of the state that was read."""


@dataclass(frozen=True, slots=True)
class Entries(Generic[T]):
    """Layout of the entries of one kind."""

    columns: tuple[str, ...]
    row: Callable[[T], tuple[str, ...]]
    """Builds the cells of an entry, one for each of `columns`."""
    empty: str
    """Sentence to print where there is no entry."""

    def document(self, entry: T, answer: Answer) -> dict[str, Any]:
        """Build an entry's document, with its version and the sequence of the response."""
        return to_json(entry) | {"version": answer.version, "sequence": answer.sequence}

    def show(self, out: Printer, entry: T, answer: Answer) -> None:
        """Print an entry and its version."""
        row = (*self.row(entry), answer.version)
        out.show(
            self.document(entry, answer),
            lambda out: out.table((*self.columns, "VERSION"), [row], empty=self.empty),
        )

    def show_all(self, out: Printer, entries: Iterable[T]) -> None:
        """Print all entries."""
        listed = list(entries)
        out.show(
            [to_json(entry) for entry in listed],
            lambda out: out.table(self.columns, map(self.row, listed), empty=self.empty),
        )
