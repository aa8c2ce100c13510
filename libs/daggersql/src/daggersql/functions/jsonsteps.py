"""What a JSON path is made of; `jsonpaths` reads one from text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Names:
    """Members of an object."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Indexes:
    """Elements of a list; negative ones count from the end."""

    indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """Elements of a list from one place to before another."""

    start: int | None
    stop: int | None


@dataclass(frozen=True, slots=True)
class Everything:
    """All members or elements."""


@dataclass(frozen=True, slots=True)
class Deep:
    """The step that follows, from here and from everything below."""


@dataclass(frozen=True, slots=True)
class Matching:
    """What a filter lets through."""

    condition: Condition


Step: TypeAlias = Names | Indexes | Slice | Everything | Deep | Matching
Literal: TypeAlias = str | float | bool | None


@dataclass(frozen=True, slots=True)
class Inner:
    """A path inside a filter: from the element (`@`) or from the root (`$`)."""

    from_root: bool
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides and what stands between them; `exists` has no right side, `in` and `nin` have a tuple."""

    operator: str
    left: Inner | Literal
    right: Inner | Literal | tuple[Literal, ...] = None


@dataclass(frozen=True, slots=True)
class Junction:
    """`all` or `any` of some conditions, or `not` of one."""

    kind: str
    conditions: tuple[Condition, ...]


Condition: TypeAlias = Comparison | Junction


@dataclass(frozen=True, slots=True)
class Path:
    """A whole path, from the root."""

    steps: tuple[Step, ...]
    length: bool = False
    """Whether the number of elements or members there is asked for."""

    @property
    def definite(self) -> bool:
        """Whether it can lead to one place only."""
        return all(is_definite(step, last=at == len(self.steps) - 1) for at, step in enumerate(self.steps))


def is_definite(step: Step, *, last: bool) -> bool:
    """Whether a step leads to one place. Several names at the end are one object made of them."""
    match step:
        case Names(names):
            return last or len(names) == 1
        case Indexes(indexes):
            return len(indexes) == 1
    return False
