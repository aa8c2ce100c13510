"""What a JSON path is made of; `jsonpaths` reads one from text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeAlias


class Number(str):
    """A number of a document or of a path, as it was written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Names:
    """Members of an object; at the end of a path several of them make one object."""

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


@dataclass(frozen=True, slots=True)
class Function:
    """What is made of that to which a path leads: the last step of one that has it."""

    name: str
    parameters: tuple[Constant | Inner, ...] = ()


@dataclass(frozen=True, slots=True)
class Path:
    """A whole path, from the root."""

    steps: tuple[Step, ...]
    function: Function | None = None

    @property
    def definite(self) -> bool:
        """Whether it can lead to one place only."""
        last = len(self.steps) - 1 if self.function is None else None
        return all(is_definite(step, last=index == last) for index, step in enumerate(self.steps))


@dataclass(frozen=True, slots=True)
class Inner:
    """A path inside a path: from the element (`@`) or from the root (`$`)."""

    from_root: bool
    path: Path


@dataclass(frozen=True, slots=True)
class Constant:
    """A value in a filter, made of None, bool, `Number`, str, lists and objects."""

    value: Any


@dataclass(frozen=True, slots=True)
class Regex:
    """A pattern in a filter, as Python has it."""

    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides and the operator between them, in lower case; `exists` is about the left one alone."""

    operator: str
    left: Inner | Constant | Regex
    right: Inner | Constant | Regex


@dataclass(frozen=True, slots=True)
class Junction:
    """`all` or `any` of some conditions, or `not` of one."""

    kind: str
    conditions: tuple[Condition, ...]


Condition: TypeAlias = Comparison | Junction


def is_definite(step: Step, *, last: bool) -> bool:
    """Whether a step leads to one place. Several names at the end are one object made of them."""
    match step:
        case Names(names):
            return last or len(names) == 1
        case Indexes(indexes):
            return len(indexes) == 1
    return False
