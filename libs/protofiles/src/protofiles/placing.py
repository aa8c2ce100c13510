"""Import names of the sources of a bundle: resolves imports, finds missing ones, conflicts and cycles. Pure.

Imports are relative to a root folder that is seldom the top of an upload: an archive often has one folder
more. The roots are inferred from the imports themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from protofiles.bundle import find_path_problem
from protofiles.imports import Import
from protofiles.problems import Problem


@dataclass(slots=True)
class Placement:
    """Import names of sources, and the imports between them."""

    names: dict[str, str] = field(default_factory=dict)
    """Import name of each source, by path."""
    dependencies: dict[str, dict[str, Import]] = field(default_factory=dict)
    """By path: the paths that it imports, each with its first import statement."""
    missing: set[str] = field(default_factory=set)
    """Names of imports that no source matches."""
    problems: list[Problem] = field(default_factory=list)


def place_sources(
    imports: Mapping[str, Sequence[Import]], roots: Sequence[str], built_in: Collection[str]
) -> Placement:
    """Give each source its import name, and resolve all imports.

    imports: by path of the importing source. roots: folders that imports are relative to, as far as known,
    without a slash at the end. built_in: names that protoc brings along.
    """
    placement = Placement()
    all_roots = set(roots)
    by_leaf: dict[str, list[str]] = {}
    for path in sorted(imports):
        by_leaf.setdefault(path.rpartition("/")[2], []).append(path)
    for path in sorted(imports):
        placement.dependencies[path] = {}
        for statement in imports[path]:
            if statement.name in built_in:
                continue
            target = _find_target(statement.name, path, roots, by_leaf)
            if target is None:
                placement.missing.add(statement.name)
                placement.problems.append(_build_missing_problem(path, statement))
                continue
            placement.dependencies[path].setdefault(target, statement)
            name = placement.names.setdefault(target, statement.name)
            if name != statement.name:
                text = f"imports {statement.name}, which another file imports as {name}: a file has one name"
                placement.problems.append(_build_import_problem(path, statement, "TWO_NAMES", text))
            all_roots.add(
                target.removesuffix(statement.name).rstrip("/") if target.endswith(statement.name) else ""
            )
    for path in imports:
        if path not in placement.names:
            placement.names[path] = _strip_root(path, all_roots)
    placement.problems += _find_name_conflicts(placement.names)
    placement.problems += _find_cycles(placement.dependencies)
    return placement


def _find_target(
    name: str, importer: str, roots: Sequence[str], by_leaf: Mapping[str, list[str]]
) -> str | None:
    """Find the path that an import resolves to: an exact one, else the nearest to the importer."""
    same_leaf = by_leaf.get(name.rpartition("/")[2], ())
    candidates = [path for path in same_leaf if path == name or path.endswith(f"/{name}")]
    # Files that a browser hands over one by one have lost their folders.
    candidates = candidates or [path for path in same_leaf if name.endswith(f"/{path}")]
    for exact in (name, *(f"{root}/{name}" for root in roots)):
        if exact in candidates:
            return exact
    return max(candidates, key=lambda path: _count_shared_folders(path, importer), default=None)


def _count_shared_folders(path: str, other: str) -> int:
    """Count the leading folders that two paths have in common."""
    count = 0
    for one, two in zip(path.split("/")[:-1], other.split("/")[:-1], strict=False):
        if one != two:
            break
        count += 1
    return count


def _build_missing_problem(path: str, statement: Import) -> Problem:
    name = statement.name
    if find_path_problem(name) is not None:
        text = f'import "{name}" must be a path without .. from the folder that all imports are from'
        return _build_import_problem(path, statement, "INVALID_IMPORT", text)
    text = f"{name} is imported and was not brought along"
    return _build_import_problem(path, statement, "MISSING_IMPORT", text)


def _strip_root(path: str, roots: Collection[str]) -> str:
    """Return a path relative to the deepest root that contains it."""
    root = max((root for root in roots if root and path.startswith(f"{root}/")), key=len, default="")
    return path[len(root) + 1 :] if root else path


def _find_name_conflicts(names: Mapping[str, str]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for path in sorted(names):
        other = first.setdefault(names[path], path)
        if other != path:
            text = f"would be imported as {names[path]}, and so would {other}: bring one of them"
            yield Problem(path, 0, 0, "DUPLICATE", text)


def _find_cycles(dependencies: Mapping[str, Mapping[str, Import]]) -> Iterator[Problem]:
    """Yield one problem for each cycle of imports, at the import of its first path."""
    remaining = {path: set(targets) for path, targets in dependencies.items()}
    _remove_leaves(remaining)
    users = {path: {user for user, targets in remaining.items() if path in targets} for path in remaining}
    _remove_leaves(users)  # a source that imports a cycle need not be in one
    pending = set(users)
    while pending:
        walk = [min(pending)]
        while True:
            following = min(target for target in dependencies[walk[-1]] if target in users)
            if following in walk:
                break
            walk.append(following)
        cycle = walk[walk.index(following) :]
        pending -= set(walk)
        turn = cycle.index(min(cycle))
        cycle = cycle[turn:] + cycle[:turn]
        text = f"imports itself by way of {', '.join(cycle[1:] or cycle)}: imports must not go in a circle"
        statement = dependencies[cycle[0]][cycle[1 % len(cycle)]]
        yield _build_import_problem(cycle[0], statement, "IMPORT_CYCLE", text)


def _remove_leaves(remaining: dict[str, set[str]]) -> None:
    """Remove nodes without remaining targets until each has one: all are in, or lead to, a cycle."""
    while free := {path for path, targets in remaining.items() if not targets}:
        for path in free:
            del remaining[path]
        for targets in remaining.values():
            targets -= free


def _build_import_problem(path: str, statement: Import, reason: str, message: str) -> Problem:
    return Problem(path, statement.line, statement.column, reason, message)
