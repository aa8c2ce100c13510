"""By which name the sources of a bundle import each other, and what of that does not work out. Pure.

Imports are written from a folder that is seldom the top of what was brought: an archive has one folder more.
Which folders they are from is found by the imports themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from protofiles.bundle import path_problem
from protofiles.imports import Import
from protofiles.problems import Problem


@dataclass(slots=True)
class Placed:
    """The sources by name."""

    names: dict[str, str] = field(default_factory=dict)
    """The name of each source, by its path."""
    needed: dict[str, dict[str, Import]] = field(default_factory=dict)
    """Of each path the paths that it imports, and where."""
    missing: set[str] = field(default_factory=set)
    """Imports, as they are written, that nothing was brought for."""
    problems: list[Problem] = field(default_factory=list)


def place(imports: Mapping[str, Sequence[Import]], roots: Sequence[str], known: Collection[str]) -> Placed:
    """Names for all sources.

    imports: of each source, by its path. roots: folders that imports may be written from, none at the end.
    known: names that are there whoever brings them.
    """
    placed = Placed()
    all_roots = set(roots)
    by_leaf: dict[str, list[str]] = {}
    for path in sorted(imports):
        by_leaf.setdefault(path.rpartition("/")[2], []).append(path)
    for path in sorted(imports):
        placed.needed[path] = {}
        for wanted in imports[path]:
            if wanted.name in known:
                continue
            target = _meant(wanted.name, path, roots, by_leaf)
            if target is None:
                placed.missing.add(wanted.name)
                placed.problems.append(_missing(path, wanted))
                continue
            placed.needed[path].setdefault(target, wanted)
            called = placed.names.setdefault(target, wanted.name)
            if called != wanted.name:
                text = f"imports {wanted.name}, which another file imports as {called}: a file has one name"
                placed.problems.append(_at(path, wanted, "TWO_NAMES", text))
            all_roots.add(
                target.removesuffix(wanted.name).rstrip("/") if target.endswith(wanted.name) else ""
            )
    for path in imports:
        if path not in placed.names:
            placed.names[path] = _below(path, all_roots)
    placed.problems += _same_names(placed.names)
    placed.problems += _circles(placed.needed)
    return placed


def _meant(name: str, importer: str, roots: Sequence[str], by_leaf: Mapping[str, list[str]]) -> str | None:
    """The source that an import means; None when there is none."""
    alike = by_leaf.get(name.rpartition("/")[2], ())
    candidates = [path for path in alike if path == name or path.endswith(f"/{name}")]
    # Files that a browser hands over one by one have lost their folders.
    candidates = candidates or [path for path in alike if name.endswith(f"/{path}")]
    for exact in (name, *(f"{root}/{name}" for root in roots)):
        if exact in candidates:
            return exact
    return max(candidates, key=lambda path: _shared(path, importer), default=None)


def _shared(path: str, other: str) -> int:
    """How many folders two paths have in common."""
    count = 0
    for one, two in zip(path.split("/")[:-1], other.split("/")[:-1], strict=False):
        if one != two:
            break
        count += 1
    return count


def _missing(path: str, wanted: Import) -> Problem:
    if path_problem(wanted.name) is not None:
        text = f'import "{wanted.name}" must be a path without .. from the folder that all imports are from'
        return _at(path, wanted, "INVALID_IMPORT", text)
    return _at(path, wanted, "MISSING_IMPORT", f"{wanted.name} is imported and was not brought along")


def _below(path: str, roots: Collection[str]) -> str:
    """The path from the nearest root above it."""
    root = max((root for root in roots if root and path.startswith(f"{root}/")), key=len, default="")
    return path[len(root) + 1 :] if root else path


def _same_names(names: Mapping[str, str]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for path in sorted(names):
        other = first.setdefault(names[path], path)
        if other != path:
            text = f"would be imported as {names[path]}, and so would {other}: bring one of them"
            yield Problem(path, 0, 0, "DUPLICATE", text)


def _circles(needed: Mapping[str, Mapping[str, Import]]) -> Iterator[Problem]:
    """Each import that leads back to its own file; one problem for each circle."""
    left = {path: set(targets) for path, targets in needed.items()}
    _peel(left)
    users = {path: {user for user, targets in left.items() if path in targets} for path in left}
    _peel(users)  # what only leads to a circle is in none
    pending = set(users)
    while pending:
        way = [min(pending)]
        while True:
            following = min(target for target in needed[way[-1]] if target in users)
            if following in way:
                break
            way.append(following)
        circle = way[way.index(following) :]
        pending -= set(way)
        turn = circle.index(min(circle))
        circle = circle[turn:] + circle[:turn]
        text = f"imports itself by way of {', '.join(circle[1:] or circle)}: imports must not go in a circle"
        yield _at(circle[0], needed[circle[0]][circle[1 % len(circle)]], "IMPORT_CYCLE", text)


def _peel(left: dict[str, set[str]]) -> None:
    """Take out what needs nothing that is left, until nothing is."""
    while free := {path for path, targets in left.items() if not targets}:
        for path in free:
            del left[path]
        for targets in left.values():
            targets -= free


def _at(path: str, wanted: Import, reason: str, message: str) -> Problem:
    return Problem(path, wanted.line, wanted.column, reason, message)
