"""Steps of a JSON path; `jsonpaths` reads them from text."""

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
    """Step to the elements that meet a filter."""

    condition: Condition


Step: TypeAlias = Names | Indexes | Slice | Everything | Deep | Matching


@dataclass(frozen=True, slots=True)
class Function:
    """Function of the values to which a path leads, its last step."""

    name: str
    parameters: tuple[Constant | Inner, ...] = ()


@dataclass(frozen=True, slots=True)
class Path:
    """A whole path, from the root."""

    steps: tuple[Step, ...]
    function: Function | None = None

    @property
    def definite(self) -> bool:
        """True if the path leads to at most one place."""
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
    """Tell whether a step leads to at most one place. Several names at the end make one object."""
    match step:
        case Names(names):
            return last or len(names) == 1
        case Indexes(indexes):
            return len(indexes) == 1
    return False
